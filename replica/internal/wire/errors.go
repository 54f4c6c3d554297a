package wire

import (
	"errors"

	"github.com/loamdb/loam/lsm"
)

// The errors that the server and its clients share, beside those of package lsm. Package replica
// exports and explains them.
var (
	ErrNotApplied   = errors.New("change not applied")
	ErrUnknown      = errors.New("outcome of the change unknown")
	ErrHalted       = errors.New("node halted")
	ErrUnavailable  = errors.New("no node answered that knows a leader")
	ErrTooOld       = errors.New("state too old")
	ErrRefused      = errors.New("connection refused by the node")
	ErrUnauthorized = errors.New("wrong token")
	ErrLease        = errors.New("snapshot is gone")
)

// Unknown wraps as ErrUnknown what ended the tries of a change that may have happened. The last try
// may have failed with ErrNotApplied, which decides nothing about those before it: the returned
// error is not ErrNotApplied, so that no caller takes the change for safe to try again.
func Unknown(err error) error {
	if errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotApplied) {
		return err
	}
	return &unknownError{err}
}

type unknownError struct{ cause error }

func (e *unknownError) Error() string { return ErrUnknown.Error() + ": " + e.cause.Error() }

func (e *unknownError) Is(target error) bool {
	return target == ErrUnknown || target != ErrNotApplied && errors.Is(e.cause, target)
}

func (e *unknownError) As(target any) bool { return errors.As(e.cause, target) }

// errorBits are the errors that an answer names, by bit. New ones are added at the end: a client
// ignores bits that it does not know.
var errorBits = []error{
	ErrNotApplied, ErrUnknown, ErrUnavailable, ErrHalted, lsm.ErrInvalidArgument, lsm.ErrTooLarge,
	lsm.ErrConflict, ErrLease, ErrTooOld, ErrUnauthorized, ErrRefused, lsm.ErrCorruption,
	lsm.ErrBusy, lsm.ErrNewerFormat, lsm.ErrNoSpace, lsm.ErrExists,
}

// errorBit is set in the flags of every error.
const errorBit = 1 << 31

// flagsOf returns the flags of an error; nil: 0.
func flagsOf(err error) uint32 {
	if err == nil {
		return 0
	}
	flags := uint32(errorBit)
	for i, e := range errorBits {
		if errors.Is(err, e) {
			flags |= 1 << i
		}
	}
	return flags
}

// RemoteError is an error that an answer has. errors.Is finds the errors of its flags.
type RemoteError struct {
	Text string
	is   []error
}

func (e *RemoteError) Error() string   { return e.Text }
func (e *RemoteError) Unwrap() []error { return e.is }

// errorOf returns the error of an answer; flags are not 0.
func errorOf(flags uint32, text []byte) error {
	e := &RemoteError{Text: string(text)}
	for i, known := range errorBits {
		if flags&(1<<i) != 0 {
			e.is = append(e.is, known)
		}
	}
	return e
}
