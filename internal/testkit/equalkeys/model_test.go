package equalkeys

import (
	"strconv"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
)

// space is what a keyspace should have. In the model a value that expires has its deadline
// behind a zero byte.
type space struct {
	*model.Model
	ttl int64 // its default time to live in seconds; 0: none
}

// moment is a state: a sequence number of each model, and the time that it is read at.
type moment struct {
	at  []base.SeqNum
	now int64
}

func mark(value string, deadline int64) []byte {
	if deadline == 0 {
		return []byte(value)
	}
	return []byte(value + "\x00" + strconv.FormatInt(deadline, 10))
}

// unmark reports no value where that has expired. deadline is 0 where it stays.
func unmark(marked string, now int64) (value string, deadline int64, ok bool) {
	value, number, expires := strings.Cut(marked, "\x00")
	if !expires {
		return value, 0, true
	}
	deadline, _ = strconv.ParseInt(number, 10, 64)
	return value, deadline, deadline > now
}

// get is what a reader has of a key.
func (s *space) get(at base.SeqNum, key []byte, now int64) (value string, deadline int64, ok bool) {
	marked, ok := s.Get(at, key)
	if !ok {
		return "", 0, false
	}
	return unmark(marked, now)
}

// scan is what a reader finds in bounds, which are nil where they are open.
func (s *space) scan(at base.SeqNum, lower, upper []byte, now int64) (all []model.Pair) {
	for _, p := range s.Scan(at, lower, upper) {
		if value, _, ok := unmark(p.Value, now); ok {
			all = append(all, model.Pair{Key: p.Key, Value: value})
		}
	}
	return all
}

// op is an operation of a batch. ttl is that of putTTL, in seconds.
type op struct {
	space      int
	kind       kind
	key, value string // of a range its limit
	ttl        int64
	pad        int // zeros behind the value
}

func (o *op) data() string { return o.value + strings.Repeat("0", o.pad) }

type kind int

const (
	put kind = iota
	putTTL
	del
	merge
	clear
	kinds
)

// apply writes o at a time.
func (s *space) apply(o op, now int64) {
	key := []byte(o.key)
	deadline := int64(0)
	if o.kind == putTTL {
		deadline = now + o.ttl
	} else if s.ttl > 0 {
		deadline = now + s.ttl
	}
	switch o.kind {
	case put, putTTL:
		s.Put(key, mark(o.data(), deadline))
	case del:
		s.Delete(key)
	case clear:
		s.DeleteRange(key, []byte(o.value))
	case merge:
		value, old, ok := s.get(s.Now(), key, now)
		switch {
		case ok && old > 0:
			s.Put(key, mark(value+","+o.data(), max(old, deadline)))
		case !ok && deadline > 0:
			s.Put(key, mark(o.data(), deadline))
		case !ok: // what has expired takes no operands
			s.Delete(key)
			s.Merge(key, []byte(o.data()))
		default:
			s.Merge(key, []byte(o.data()))
		}
	}
}

// writer is a Batch, a BatchIn or what makes one of a transaction.
type writer interface {
	Put(key, value []byte)
	PutTTL(key, value []byte, ttl time.Duration)
	Delete(key []byte)
	Merge(key, operand []byte)
	DeleteRange(start, limit []byte)
}

func (o op) write(w writer) {
	key, value := []byte(o.key), []byte(o.data())
	switch o.kind {
	case put:
		w.Put(key, value)
	case putTTL:
		w.PutTTL(key, value, time.Duration(o.ttl)*time.Second)
	case del:
		w.Delete(key)
	case merge:
		w.Merge(key, value)
	case clear:
		w.DeleteRange(key, value)
	}
}

// single writes o alone.
func (o op) single(k *lsm.Keyspace) error {
	key, value := []byte(o.key), []byte(o.data())
	switch o.kind {
	case put:
		return k.Put(key, value, lsm.NoSync)
	case putTTL:
		return k.PutTTL(key, value, time.Duration(o.ttl)*time.Second, lsm.NoSync)
	case del:
		return k.Delete(key, lsm.NoSync)
	case merge:
		return k.Merge(key, value, lsm.NoSync)
	}
	return k.DeleteRange(key, value, lsm.NoSync)
}

// inTxn writes o in a transaction, which is one in the keyspace.
func (o op) inTxn(tx *lsm.Txn) error {
	key, value := []byte(o.key), []byte(o.data())
	switch o.kind {
	case put:
		return tx.Put(key, value)
	case putTTL:
		return tx.PutTTL(key, value, time.Duration(o.ttl)*time.Second)
	case del:
		return tx.Delete(key)
	case merge:
		return tx.Merge(key, value)
	}
	return tx.DeleteRange(key, value)
}
