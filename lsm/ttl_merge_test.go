package lsm

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// TestMergeBesideFirstTTL has the first value that expires put while a batch with a merge is
// checked. The comparer puts it, which the check calls for the batch's range delete.
func TestMergeBesideFirstTTL(t *testing.T) {
	for name, write := range map[string]func(s *ttlStore, b *Batch) error{
		"batch": func(s *ttlStore, b *Batch) error { return s.Write(b, NoSync) },
		"bytes": func(s *ttlStore, b *Batch) error { return s.WriteBytes(b.Bytes(), NoSync) },
		"copied": func(s *ttlStore, b *Batch) error {
			b.In(nil).Delete([]byte("c"))
			return s.Write(b, NoSync)
		},
		"beside a value that expires": func(s *ttlStore, b *Batch) error {
			other, err := s.Keyspace("other", nil)
			b.In(other).PutTTL([]byte("c"), nil, time.Minute)
			return errors.Join(err, s.Write(b, NoSync))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var between func()
			hooked := *BytewiseComparer
			hooked.Compare = func(a, b []byte) int {
				if f := between; f != nil && string(a) == "range" {
					between = nil
					f()
				}
				return bytes.Compare(a, b)
			}
			s := openTTL(t, func(o *Options) { o.Comparer = &hooked })
			between = func() { s.putTTL("a", string(u64(1)), 10*time.Second) }
			b := NewBatch()
			b.Merge([]byte("a"), u64(2))
			b.DeleteRange([]byte("range"), []byte("range~"))
			s.ok(write(s, b))
			if between != nil {
				t.Error("the comparer was not called")
			}
			if got := contents(t, s, "a"); got != "a="+string(u64(3)) {
				t.Errorf("%q", got)
			}
			if left, expires, err := s.TTL([]byte("a")); left != 10*time.Second || !expires ||
				err != nil {
				t.Error(left, expires, err)
			}
			s.clock.add(10 * time.Second)
			if got := contents(t, s, "a"); got != "" {
				t.Errorf("an operand is left: %q", got)
			}
		})
	}
}

// TestMergeBesideExpiring: where values of one keyspace expire, merges into another one, in the
// same batch or transaction, are operands as usual, which the operator sees when they are read.
func TestMergeBesideExpiring(t *testing.T) {
	fails := &MergeOperator{Name: "fails", Full: func(_, _, _ []byte, _ [][]byte) ([]byte, error) {
		return nil, errors.New("not today")
	}}
	s := openTTL(t, func(o *Options) { o.MergeOperators = []*MergeOperator{fails} })
	other, err := s.Keyspace("other", &KeyspaceOptions{MergeOperator: fails})
	s.ok(err)
	s.ok(other.Put([]byte("set"), nil, NoSync))
	s.putTTL("a", string(u64(1)), time.Hour)
	b, tx := NewBatch(), s.Begin(nil)
	for _, key := range []string{"set", "missing"} {
		b.Merge([]byte("a"), u64(1))
		b.In(other).Merge([]byte(key), nil)
		s.ok(tx.In(other).Merge([]byte(key+" in a transaction"), nil))
	}
	s.ok(tx.Merge([]byte("b"), u64(2)))
	s.ok(errors.Join(s.Write(b, NoSync), tx.Commit(NoSync)))
	if got, err := s.Get([]byte("a"), nil); err != nil || !bytes.Equal(got, u64(3)) {
		t.Errorf("%q, %v", got, err)
	}
	for _, key := range []string{"set", "missing", "missing in a transaction"} {
		if _, err := other.Get([]byte(key), nil); !errors.Is(err, ErrMergeFailed) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// caseless orders keys without regard to case, so that different bytes are one key.
var caseless = &Comparer{
	Name:    "test.Caseless",
	Compare: func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) },
}

// TestTTLEqualKeys has operations of one batch or transaction spell a key in two ways.
func TestTTLEqualKeys(t *testing.T) {
	for _, c := range []struct{ ops, want string }{
		{"del A, merge a 1", "1"},
		{"del a, merge A 1", "1"},
		{"put A 1, merge a 2", "1,2"},
		{"expire A 1, merge a 2", "1,2"},
		{"expire A 1, del a, merge A 2", "2"},
		{"expire A 1, merge a 2, merge A 3", "1,2,3"},
		{"merge A 1, merge a 2", "0,1,2"},
		{"clear A b, merge a 1", "1"},
		{"clear a B, expire A 1, merge a 2", "1,2"},
		{"expire A 1, clear A a~, merge a 2", "2"},
		{"put A 1, expire a 2, merge A 3", "2,3"},
	} {
		for _, way := range []string{"batch", "bytes", "transaction"} {
			for _, before := range []string{"a", "A"} {
				s := openTTL(t, func(o *Options) {
					o.Comparer, o.MergeOperator = caseless, MergeOperatorNamed("append")
				})
				s.putTTL(before, "0", time.Hour)
				var err error
				if way == "transaction" {
					err = s.Update(context.Background(), func(tx *Txn) error {
						err := eachOp(c.ops, func(key, value []byte) error {
							return tx.Put(key, value)
						},
							func(key, value []byte) error {
								return tx.PutTTL(key, value, time.Hour)
							}, tx.Merge, tx.Delete, tx.DeleteRange)
						if got, _ := tx.Get([]byte("a"), nil); string(got) != c.want {
							t.Errorf("%s over %s, within the transaction: %q, want %q", c.ops,
								before, got, c.want)
						}
						return err
					})
				} else {
					b := NewBatch()
					note := func(f func(key, value []byte)) func(key, value []byte) error {
						return func(key, value []byte) error { f(key, value); return nil }
					}
					err = eachOp(c.ops, note(b.Put), note(func(key, value []byte) {
						b.PutTTL(key, value, time.Hour)
					}),
						note(b.Merge), func(key []byte) error {
							b.Delete(key)
							return nil
						}, note(b.DeleteRange))
					if way == "batch" {
						err = errors.Join(err, s.Write(b, NoSync))
					} else {
						err = errors.Join(err, s.WriteBytes(b.Bytes(), NoSync))
					}
				}
				s.ok(err)
				for range 2 {
					got, err := s.Get([]byte("a"), nil)
					if string(got) != c.want || err != nil {
						t.Errorf("%s over %s, %s: %q, %v, want %q", c.ops, before, way, got, err,
							c.want)
					}
					s.ok(s.Flush())
				}
			}
		}
	}
}

// eachOp calls what the operations of a list say.
func eachOp(ops string, put, expire, merge func(key, value []byte) error,
	del func(key []byte) error, clear func(start, limit []byte) error) error {
	var errs []error
	for op := range strings.SplitSeq(ops, ", ") {
		words := strings.Fields(op)
		key := []byte(words[1])
		switch words[0] {
		case "put":
			errs = append(errs, put(key, []byte(words[2])))
		case "expire":
			errs = append(errs, expire(key, []byte(words[2])))
		case "merge":
			errs = append(errs, merge(key, []byte(words[2])))
		case "clear":
			errs = append(errs, clear(key, []byte(words[2])))
		default:
			errs = append(errs, del(key))
		}
	}
	return errors.Join(errs...)
}

// TestTTLWireForm writes deadlines and times to live in wire form. 0 is neither.
func TestTTLWireForm(t *testing.T) {
	s := openTTL(t, nil)
	now := uint64(s.clock.read().Unix())
	for _, c := range []struct {
		deadline uint64
		want     string
		left     time.Duration
		err      error
	}{
		{0, "", 0, ErrInvalidArgument},
		{base.Relative, "", 0, ErrInvalidArgument},
		{1, "", 0, nil},
		{now, "", 0, nil},
		{now + 1, "a=1", time.Second, nil},
		{base.Relative + 1, "a=1", time.Second, nil},
		{base.MaxDeadline, "a=1", 1<<63 - 1, nil},
		{base.Relative + base.MaxDeadline - now, "a=1", 1<<63 - 1, nil},
		{base.Relative + base.MaxDeadline - now + 1, "", 0, ErrInvalidArgument},
	} {
		s.ok(s.Delete([]byte("a"), NoSync))
		value := base.AppendDeadline([]byte("1"), c.deadline)
		b := batchrepr.AppendEntry(batchrepr.Init(nil), base.DefaultKeyspace, base.KindSetExpiring,
			[]byte("a"), value)
		if err := s.WriteBytes(b, NoSync); !errors.Is(err, c.err) {
			t.Errorf("%x: %v", c.deadline, err)
		}
		if got := contents(t, s, "a"); got != c.want {
			t.Errorf("%x: %q", c.deadline, got)
		}
		if left, _, _ := s.TTL([]byte("a")); left != c.left {
			t.Errorf("%x: lives %v", c.deadline, left)
		}
		s.ok(s.Flush())
		if got := contents(t, s, "a"); got != c.want {
			t.Errorf("%x, flushed: %q", c.deadline, got)
		}
	}
}
