package base

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
)

// Sentinels of the whole engine; lsm re-exports them. Test with errors.Is.
var (
	ErrNotFound         = errors.New("not found")
	ErrClosed           = errors.New("closed")
	ErrCorruption       = errors.New("corruption")
	ErrReadOnly         = errors.New("database is read-only")
	ErrLocked           = errors.New("database is in use")
	ErrBusy             = errors.New("write would stall")
	ErrWouldBlock       = errors.New("read needs I/O")
	ErrInvalidArgument  = errors.New("invalid argument")
	ErrNotADatabase     = errors.New("not a database of this kind")
	ErrNewerFormat      = errors.New("written by a newer version of Loam")
	ErrExists           = errors.New("database exists")
	ErrDoesNotExist     = errors.New("database does not exist")
	ErrComparerMismatch = errors.New("comparator mismatch")
	ErrNoMergeOperator  = errors.New("no merge operator")
	ErrMergeFailed      = errors.New("merge operator failed")
	ErrTooLarge         = errors.New("too large")
	ErrNeedsNative      = errors.New("needs the native format")
	ErrNoKeyspace       = errors.New("keyspace does not exist")
	ErrGap              = errors.New("changes are gone")
	ErrInterrupted      = errors.New("interrupted in a comparison")
	ErrEncryption       = errors.New("encryption")
	ErrDirectoryChanged = errors.New("files of the database were removed or replaced while it " +
		"was open")
)

// What is closed. errors.Is(err, ErrClosed) holds for each.
var (
	ErrDatabaseClosed error = closed("database")
	ErrSnapshotClosed error = closed("snapshot")
	ErrIteratorClosed error = closed("iterator")
	ErrChangesClosed  error = closed("feed of changes")
	ErrFolderClosed   error = closed("folder of backups")
)

// closed is what cannot be used any more.
type closed string

func (c closed) Error() string      { return "the " + string(c) + " is closed" }
func (closed) Is(target error) bool { return target == ErrClosed }

// Transient reports whether err is of a read that was to end early, or that a comparer made: as a
// panic it makes nothing read-only.
func Transient(err error) bool { return errors.Is(err, ErrInterrupted) || errors.Is(err, ErrInUse) }

// CallbackError is a failure that a callback without a result for it reports by
// panicking with it. The error is told as it is, without a stack.
type CallbackError struct {
	Callback string // what failed: "comparator"
	Reason   string // in the callback's words
}

// Error says which callback failed and why.
func (e *CallbackError) Error() string { return "the " + e.Callback + " failed: " + e.Reason }

// CallbackFailure is the CallbackError that a panic's value is, or that stands for it: errors.As
// converts the public type to this one.
func CallbackFailure(v any) (c *CallbackError, ok bool) {
	err, ok := v.(error)
	if ok {
		ok = errors.As(err, &c)
	}
	return c, ok
}

// NeedsNative is the error for a feature, such as "a keyspace", that a database in
// LevelDB's format cannot have. errors.Is(err, ErrNeedsNative) holds for it.
func NeedsNative(feature string) error {
	return fmt.Errorf("%s %w: the database is in LevelDB's, and Upgrade makes it a native one",
		feature, ErrNeedsNative)
}

// Corruption says where damaged bytes are and why they were refused.
// errors.Is(err, ErrCorruption) holds for it through any wrapping. The layer
// that finds the damage fills Kind and Reason; the layer that knows the file
// fills File and makes Offset absolute.
type Corruption struct {
	File   string // base name of the file; "" when not yet known
	Offset int64  // bytes from the start of the file; -1 when unknown
	Length int64  // bytes concerned; 0 when unknown
	Kind   string // which structure: "wal record", "table block", "manifest edit", ...
	Reason string // what is wrong, lower case
	Final  bool   // the checksum is right: another read gives the same bytes
}

// Error names file, place, structure and reason.
func (c *Corruption) Error() string {
	where := c.File
	if where == "" {
		where = "(unnamed)"
	}
	if c.Offset >= 0 {
		where = fmt.Sprintf("%s at offset %d", where, c.Offset)
		if c.Length > 0 {
			where = fmt.Sprintf("%s, length %d", where, c.Length)
		}
	}
	return fmt.Sprintf("corruption: %s: %s: %s", where, c.Kind, c.Reason)
}

// Is makes errors.Is(c, ErrCorruption) hold.
func (c *Corruption) Is(target error) bool { return target == ErrCorruption }

// As makes errors.As find the public type of the same fields, see AsPublic.
func (c *Corruption) As(target any) bool { return AsPublic(c, target) }

// AsPublic sets target to err where target points to a pointer to a type that has the fields of
// err's own: package lsm declares such a type for each error that errors.As finds.
func AsPublic(err, target any) bool {
	from, to := reflect.ValueOf(err), reflect.ValueOf(target).Elem()
	if to.Kind() != reflect.Pointer || !from.CanConvert(to.Type()) {
		return false
	}
	to.Set(from.Convert(to.Type()))
	return true
}

// EncryptionError says which key is missing or wrong. errors.Is(err, ErrEncryption) holds for it
// through any wrapping.
type EncryptionError struct {
	File     string // base name of the file; "": the error is about the provider
	Provider string // name of the key provider in the file
	KeyID    string // id of the key in the file
	Reason   string // lower case
	Cause    error  // error of the provider; nil: there is none
}

// Error names file, key and reason.
func (e *EncryptionError) Error() string {
	s := "encryption: "
	if e.File != "" {
		s += e.File + ": "
	}
	if e.KeyID != "" {
		s += fmt.Sprintf("key %q of %q: ", e.KeyID, e.Provider)
	}
	s += e.Reason
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Is makes errors.Is(e, ErrEncryption) hold.
func (e *EncryptionError) Is(target error) bool { return target == ErrEncryption }

// Unwrap is the provider's error.
func (e *EncryptionError) Unwrap() error { return e.Cause }

// As makes errors.As find the public type of the same fields, see AsPublic.
func (e *EncryptionError) As(target any) bool { return AsPublic(e, target) }

// Invalidf returns an ErrInvalidArgument with a message.
func Invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalidArgument, fmt.Errorf(format, args...))
}

// Corruptf makes a Corruption whose place is not yet known.
func Corruptf(kind, format string, args ...any) *Corruption {
	return &Corruption{Offset: -1, Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// At sets the place of c, and returns c.
func (c *Corruption) At(file string, offset, length int64) *Corruption {
	c.File, c.Offset, c.Length = file, offset, length
	return c
}

// LocateCorruption fills the file, and shifts the offset by base, of the
// Corruption inside err when its file is still unknown. Other errors pass
// through unchanged.
func LocateCorruption(err error, file string, base, length int64) error {
	var c *Corruption
	if !errors.As(err, &c) || c.File != "" {
		return err
	}
	located := *c
	located.File = file
	if located.Offset < 0 {
		located.Offset, located.Length = base, length
	} else {
		located.Offset += base
	}
	return &located
}

// Panic is the error made of a panic, of a bug or of a user's callback. It makes the database
// read-only. errors.As finds an error that was panicked with.
type Panic struct {
	Value any
	Stack []byte // of the goroutine, where the panic was recovered
}

// NewPanic makes a Panic of what recover returned, with the present stack.
func NewPanic(v any) *Panic { return &Panic{Value: v, Stack: debug.Stack()} }

// CatchPanic is deferred where a panic is to become the error err.
func CatchPanic(err *error) {
	if r := recover(); r != nil {
		*err = NewPanic(r)
	}
}

// Protect makes a panic of step an error, so that the steps after it are taken.
func Protect(step func() error) (err error) {
	defer CatchPanic(&err)
	return step()
}

// ErrGoexit is the error of work whose goroutine a callback has ended, as testing.T.FailNow does.
var ErrGoexit error = &Panic{Value: "a callback has ended its goroutine (runtime.Goexit)"}

// Alone is Protect on a goroutine of its own. It fails with ErrGoexit where step does not return.
func Alone(step func() error) error {
	err := ErrGoexit
	var wg sync.WaitGroup
	wg.Go(func() { err = Protect(step) })
	wg.Wait()
	return err
}

// Always takes step, and then calls done with its error: that of a panic, too, and ErrGoexit where
// a callback ends the goroutine. It is for goroutines whose end others wait for.
func Always(step func() error, done func(error)) {
	err := ErrGoexit
	defer func() { done(err) }()
	err = Protect(step)
}

func (p *Panic) Error() string {
	if c, ok := CallbackFailure(p.Value); ok {
		return c.Error()
	}
	return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack)
}

func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}
