package lifetimes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/loamdb/loam/lsm"
)

// call is one call of an exported method with one choice of arguments.
type call struct {
	name string // "DB.Get"
	fn   reflect.Value
	args []reflect.Value
}

func (c call) String() string {
	args := make([]string, len(c.args))
	for i, a := range c.args {
		args[i] = show(a)
	}
	return fmt.Sprintf("%s(%s)", c.name, strings.Join(args, ", "))
}

func show(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case []byte:
		if x == nil {
			return "nil"
		}
		return fmt.Sprintf("%q", x)
	case *lsm.IterOptions:
		if x == nil {
			return "nil"
		}
		return fmt.Sprintf("&{%q %q %q snapshot %v}", x.Lower, x.Upper, x.Prefix, x.Snapshot != nil)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Interface, reflect.Slice:
		if v.IsNil() {
			return "nil"
		}
		return v.Type().String()
	}
	return fmt.Sprint(v.Interface())
}

// maxCalls bounds the choices of arguments of one method.
const maxCalls = 48

// calls are the calls of all exported methods of an object, but for those that
// skip names: every choice of arguments, or maxCalls of them. An argument of a
// type that pool does not know is an error.
func (w *world) calls(object any, rng *rand.Rand, skip ...string) ([]call, error) {
	v := reflect.ValueOf(object)
	owner := v.Type().Elem().Name()
	var out []call
	for i := range v.NumMethod() {
		name := owner + "." + v.Type().Method(i).Name
		if _, ofDB := reflect.TypeFor[*lsm.DB]().MethodByName(v.Type().Method(i).Name); owner ==
			"Follower" && ofDB {
			name = "DB." + v.Type().Method(i).Name // which a Follower has, too
		}
		if contains(skip, name) {
			continue
		}
		fn := v.Method(i)
		choices := [][]reflect.Value{nil}
		for p := range fn.Type().NumIn() {
			pool, err := w.pool(fn.Type().In(p))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			var next [][]reflect.Value
			for _, c := range choices {
				for _, a := range pool {
					next = append(next, append(c[:len(c):len(c)], a))
				}
			}
			choices = next
		}
		rng.Shuffle(len(choices), func(i, j int) {
			choices[i], choices[j] = choices[j], choices[i]
		})
		for _, args := range choices[:min(len(choices), maxCalls)] {
			if strings.HasSuffix(name, ".DeleteRange") &&
				(owner == "Batch" || bytes.Compare(args[0].Bytes(), args[1].Bytes()) < 0) {
				// it would delete the keys that are looked for afterwards, and Each refuses the
				// batch
				continue
			}
			out = append(out, call{name, fn, args})
		}
	}
	return out, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// values makes a pool of its arguments.
func values[T any](list ...T) []reflect.Value {
	out := make([]reflect.Value, len(list))
	for i := range list {
		out[i] = reflect.ValueOf(&list[i]).Elem()
	}
	return out
}

// pool is the arguments of type t to try, nil first where that is one. A new
// type of argument needs a case here.
func (w *world) pool(t reflect.Type) ([]reflect.Value, error) {
	switch t {
	case reflect.TypeFor[[]byte]():
		return values(nil, []byte{}, w.key(3), []byte("w")), nil
	case reflect.TypeFor[[][]byte]():
		return values(nil, [][]byte{nil, w.key(1), []byte("w")}), nil
	case reflect.TypeFor[string]():
		return values("", "4096", "block_size", "leveldb.stats", "loam.num-files-at-level0",
			"loam.num-files-at-level99"), nil
	case reflect.TypeFor[int]():
		return values(0, -1, 1, 1<<40), nil
	case reflect.TypeFor[uint32](): // the number of a keyspace
		return values(uint32(0), 77), nil
	case reflect.TypeFor[uint64](): // a sequence number
		return values(uint64(0), 1, 1<<62), nil
	case reflect.TypeFor[*lsm.ChangesOptions]():
		return values(nil, &lsm.ChangesOptions{Durable: true}), nil
	case reflect.TypeFor[lsm.WriteMode]():
		return values(lsm.NoSync, lsm.Sync, lsm.NoStall), nil
	case reflect.TypeFor[time.Duration]():
		return values(time.Hour), nil
	case reflect.TypeFor[*lsm.Batch]():
		full := lsm.NewBatch()
		full.Put([]byte("w"), []byte("x"))
		full.Delete([]byte("w2"))
		return values(nil, new(lsm.Batch), full), nil
	case reflect.TypeFor[*lsm.MultiResult]():
		return values(nil, new(lsm.MultiResult)), nil
	case reflect.TypeFor[*lsm.PinnedValue]():
		return values(nil, new(lsm.PinnedValue)), nil
	case reflect.TypeFor[*lsm.IterOptions]():
		return values(nil, &lsm.IterOptions{},
			&lsm.IterOptions{Prefix: []byte("r"), KeysOnly: true},
			&lsm.IterOptions{Snapshot: w.closedSnap}, &lsm.IterOptions{Snapshot: w.foreignSnap},
			&lsm.IterOptions{Snapshot: new(lsm.Snapshot)}), nil
	case reflect.TypeFor[*lsm.Keyspace]():
		return values(nil, w.space, w.foreignSpace), nil
	case reflect.TypeFor[*lsm.KeyspaceOptions]():
		return values(nil, &lsm.KeyspaceOptions{}, &lsm.KeyspaceOptions{ErrorIfMissing: true}), nil
	case reflect.TypeFor[*error]():
		return values(nil, new(error)), nil
	case reflect.TypeFor[[]lsm.Range]():
		return values(nil, []lsm.Range{{}, {Start: w.key(1), Limit: w.key(5)},
			{Start: w.key(5), Limit: w.key(1)}}), nil
	case reflect.TypeFor[context.Context]():
		over, cancel := context.WithCancel(context.Background())
		cancel()
		return values(nil, context.Background(), over), nil
	case reflect.TypeFor[func(key, value []byte) error]():
		return values(nil, func(_, _ []byte) error { return nil }), nil
	case reflect.TypeFor[func(read, of uint64)]():
		return values(nil, func(_, _ uint64) {}), nil
	case reflect.TypeFor[*lsm.IngestOptions]():
		return values(nil, &lsm.IngestOptions{Move: true},
			&lsm.IngestOptions{Excise: &lsm.Range{Start: []byte("x"), Limit: []byte("y")}}), nil
	case reflect.TypeFor[*lsm.BulkLoadOptions]():
		return values(nil, &lsm.BulkLoadOptions{}, &lsm.BulkLoadOptions{Memory: 1}), nil
	case reflect.TypeFor[[]string]():
		return values(nil, []string{"/there-is-no-table"}), nil
	case reflect.TypeFor[iter.Seq2[[]byte, []byte]]():
		return values(nil, func(yield func(k, v []byte) bool) {
			_ = yield([]byte("w"), []byte("x")) && yield([]byte("v"), nil)
		}), nil
	case reflect.TypeFor[*lsm.TxnOptions]():
		return values(nil, &lsm.TxnOptions{}, &lsm.TxnOptions{Isolation: lsm.Serializable,
			Lock: true}), nil
	case reflect.TypeFor[lsm.SavePoint]():
		return values(lsm.SavePoint{}), nil
	case reflect.TypeFor[func(tx *lsm.Txn) error]():
		return values(nil, func(tx *lsm.Txn) error {
			_, err := tx.Has([]byte("r00"))
			return err
		}), nil
	case reflect.TypeFor[func(key []byte) error]():
		return values(nil, func([]byte) error { return nil }), nil
	}
	return nil, fmt.Errorf("no arguments of type %v are known: add them to pool", t)
}

// outcome is what a call did.
type outcome struct {
	results  []reflect.Value
	canFail  bool // the results tell of failures
	err      error
	panicked string
}

// run makes the call. What it returns is used and closed, and its failures are
// the call's.
func run(c call) (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			o.panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
		}
	}()
	args := make([]reflect.Value, len(c.args))
	var scanErr *error
	for i, a := range c.args {
		if p, ok := a.Interface().(*error); ok && p != nil {
			scanErr = new(error)
			a = reflect.ValueOf(scanErr)
		}
		// What follows is used by one goroutine at a time.
		if b, ok := a.Interface().([]byte); ok { // a buffer to append to, perhaps
			a = reflect.ValueOf(bytes.Clone(b))
		}
		if b, ok := a.Interface().(*lsm.Batch); ok && b != nil {
			fresh := new(lsm.Batch)
			fresh.Append(b)
			a = reflect.ValueOf(fresh)
		}
		if r, ok := a.Interface().(*lsm.MultiResult); ok && r != nil {
			a = reflect.ValueOf(new(lsm.MultiResult))
		}
		if p, ok := a.Interface().(*lsm.PinnedValue); ok && p != nil {
			p = new(lsm.PinnedValue)
			defer func() { _ = bytes.Clone(p.Bytes()); p.Release() }()
			a = reflect.ValueOf(p)
		}
		args[i] = a
	}
	if c.fn.Type().IsVariadic() {
		o.results = c.fn.CallSlice(args)
	} else {
		o.results = c.fn.Call(args)
	}
	for _, r := range o.results {
		switch x := r.Interface().(type) {
		case *lsm.Iterator:
			o.canFail = true
			for ok := x.First(); ok; ok = x.Next() {
			}
			o.err = errors.Join(o.err, x.Err(), x.Close())
		case *lsm.BulkLoader:
			if x != nil {
				o.err = errors.Join(o.err, x.Put([]byte("w"), nil), x.Close())
			}
		case *lsm.Keyspace:
			if x != nil {
				_, err := x.Has([]byte("r00"))
				o.err = errors.Join(o.err, err)
			}
		case *lsm.Snapshot:
			o.canFail = true
			_, err := x.Has([]byte("r00"))
			o.err = errors.Join(o.err, err, x.Close())
		case *lsm.Txn:
			o.canFail = true
			_, err := x.Has([]byte("r00"))
			o.err = errors.Join(o.err, err, x.Rollback())
		case *lsm.Changes:
			if x != nil {
				_, _, err := x.TryNext()
				o.err = errors.Join(o.err, err, x.Close())
			}
		case iter.Seq2[[]byte, []byte]:
			o.canFail = true
			for range x {
			}
			o.err = errors.Join(o.err, *scanErr)
		default:
			if r.Type() == reflect.TypeFor[error]() {
				o.canFail = true
				if err, ok := r.Interface().(error); ok {
					o.err = errors.Join(o.err, err)
				}
			}
		}
	}
	return o
}

// nilErrorPointer reports whether the call is a scan without a place for its
// error, which panics and says what to pass.
func nilErrorPointer(c call) bool {
	for _, a := range c.args {
		if p, ok := a.Interface().(*error); ok && p == nil {
			return true
		}
	}
	return false
}

// judge returns the defect of an outcome, or "". allowed are the errors that
// the call may end with, nil among them if it may succeed.
func judge(c call, o outcome, allowed ...error) string {
	if nilErrorPointer(c) {
		if !strings.Contains(o.panicked, "pass &err") {
			return fmt.Sprintf("%v: must say that a pointer is needed; %q, %v", c, o.panicked,
				o.err)
		}
		return ""
	}
	if o.panicked != "" {
		return fmt.Sprintf("%v panics: %s", c, o.panicked)
	}
	if !o.canFail {
		return ""
	}
	if strings.HasSuffix(c.name, ".Ingest") { // of a table that is not there
		allowed = append(slices.Clone(allowed), fs.ErrNotExist)
	}
	if c.name == "DB.Checkpoint" { // "" is no name, the others may be taken
		allowed = append(slices.Clone(allowed), lsm.ErrInvalidArgument, lsm.ErrExists,
			lsm.ErrLocked)
	}
	if c.name == "DB.Rekey" && slices.Contains(allowed, nil) { // of a clear database
		allowed = append(slices.Clone(allowed), lsm.ErrInvalidArgument)
	}
	if strings.Contains(c.name, "Changes") && slices.Contains(allowed, nil) {
		allowed = append(slices.Clone(allowed), lsm.ErrGap) // no log is kept
	}
	for _, a := range allowed {
		if a == nil && o.err == nil || a != nil && errors.Is(o.err, a) {
			return ""
		}
	}
	return fmt.Sprintf("%v: %v", c, o.err)
}
