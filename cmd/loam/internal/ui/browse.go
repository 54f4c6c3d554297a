package ui

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/lsm"
)

// Bounds of what the browser of keys shows.
const (
	pageEntries = 100
	mostEntries = 500
	shortValue  = 512       // bytes of a value in a list
	wholeValue  = 256 << 10 // bytes of one that is shown alone
	shortKey    = 1 << 10   // bytes of a key that are shown
)

// entry is a key and the beginning of its value.
type entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	Size  int    `json:"size"` // of the value in bytes
	Cut   bool   `json:"cut,omitempty"`
	// Raw are the bytes of the key.
	Raw []byte `json:"raw"`
}

// found is what a scan found.
type found struct {
	Entries []entry `json:"entries"`
	More    bool    `json:"more"`
}

// encodings are the parameters key_as and value_as.
func (q query) encodings() (key, value encode.Encoding, err error) {
	key, value = encode.Encoding(q.Get("key_as")), encode.Encoding(q.Get("value_as"))
	if key == "" {
		key = encode.Text
	}
	if value == "" {
		value = key
	}
	for _, e := range []encode.Encoding{key, value} {
		if err := e.Check(); err != nil {
			return "", "", err
		}
	}
	return key.OfKeys(), value, nil
}

// number is a parameter that is a number.
func (q query) number(name string, def int) (int, error) {
	if q.Get(name) == "" {
		return def, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %s is no number", lsm.ErrInvalidArgument, name)
	}
	return n, nil
}

// raw is a parameter of bytes in base64; nil: it is missing.
func (q query) raw(name string) ([]byte, error) {
	if !q.Has(name) {
		return nil, nil
	}
	b, err := base64.StdEncoding.DecodeString(q.Get(name))
	if err != nil {
		return nil, fmt.Errorf("%w: %s is not base64", lsm.ErrInvalidArgument, name)
	}
	return append([]byte{}, b...), nil
}

// scan answers with the entries of a range. Parameters are keyspace, from, to, prefix, reverse,
// limit, key_as, value_as; and past, the last key of the page before.
func (s *server) scan(ctx context.Context, q query) (any, error) {
	as, valueAs, err := q.encodings()
	if err != nil {
		return nil, err
	}
	r := inspect.Request{Do: "scan", Keyspace: q.keyspace(), Reverse: q.Get("reverse") != "",
		MaxValue: shortValue}
	for _, x := range []struct {
		name string
		to   *[]byte
	}{{"from", &r.From}, {"to", &r.To}, {"prefix", &r.Prefix}} {
		if q.Get(x.name) == "" {
			continue
		}
		if *x.to, err = as.Decode(q.Get(x.name)); err != nil {
			return nil, err
		}
	}
	past, err := q.raw("past")
	if err != nil {
		return nil, err
	}
	switch {
	case past == nil:
	case r.Reverse:
		r.To = past
	default:
		r.From, r.Past = past, true
	}
	if r.Limit, err = q.number("limit", pageEntries); err != nil {
		return nil, err
	}
	r.Limit = max(1, min(r.Limit, mostEntries))
	if r.Reverse && past != nil && len(past) == 0 { // nothing is before the empty key
		return &found{Entries: []entry{}}, nil
	}
	return s.read(ctx, &r, as, valueAs)
}

// value answers with the value of a key. Parameters are keyspace, key in base64, key_as, value_as.
func (s *server) value(ctx context.Context, q query) (any, error) {
	as, valueAs, err := q.encodings()
	if err != nil {
		return nil, err
	}
	key, err := q.raw("key")
	if err != nil {
		return nil, err
	}
	f, err := s.read(ctx, &inspect.Request{Do: "scan", Keyspace: q.keyspace(), From: key, Limit: 1,
		MaxValue: wholeValue}, as, valueAs)
	if err != nil {
		return nil, err
	}
	if len(f.Entries) == 0 || !bytes.Equal(f.Entries[0].Raw, key) {
		return nil, fmt.Errorf("%w: the key has been deleted", lsm.ErrNotFound)
	}
	return f.Entries[0], nil
}

// read reads a range, in the process or in the files.
func (s *server) read(ctx context.Context, r *inspect.Request, as, valueAs encode.Encoding) (*found,
	error) {
	f := &found{Entries: []entry{}}
	add := func(key, value []byte, size int) {
		short := key[:min(len(key), shortKey)]
		f.Entries = append(f.Entries, entry{Key: as.Format(short), Value: valueAs.Format(value),
			Size: size, Cut: size > len(value), Raw: append([]byte{}, key...)})
	}
	var answer struct {
		Entries []struct {
			Key, Value []byte
			ValueSize  *int `json:"value_size"`
		}
		More bool
	}
	running, err := s.ask(ctx, asked{*r, &answer})
	if running {
		if err != nil {
			return nil, err
		}
		for _, e := range answer.Entries {
			size := len(e.Value)
			if e.ValueSize != nil {
				size = *e.ValueSize
			}
			add(e.Key, e.Value, size)
		}
		f.More = answer.More
		return f, nil
	}
	err = s.follower.with(ctx, func(db *lsm.Follower) error {
		k, err := db.Keyspace(r.Keyspace, &lsm.KeyspaceOptions{ErrorIfMissing: true})
		if err != nil {
			return err
		}
		f.More, err = readFiles(k, r, add)
		return err
	})
	return f, err
}

// readFiles reads a range as a process that is asked does.
func readFiles(k *lsm.Keyspace, r *inspect.Request,
	add func(key, value []byte, size int)) (more bool, err error) {
	it := k.Iter(&lsm.IterOptions{Lower: r.From, Upper: r.To, Prefix: r.Prefix, NoFillCache: true})
	defer it.Close()
	ok, next := false, it.Next
	if r.Reverse {
		ok, next = it.Last(), it.Prev
	} else {
		ok = it.First()
	}
	if ok && r.Past && bytes.Equal(it.Key(), r.From) {
		ok = next()
	}
	size := 0
	for n := 0; ok; ok, n = next(), n+1 {
		if n == r.Limit || size >= inspect.MaxScan {
			return true, nil
		}
		value := it.Value()
		add(it.Key(), value[:min(len(value), r.MaxValue)], len(value))
		size += len(it.Key()) + len(value)
	}
	return false, it.Err()
}
