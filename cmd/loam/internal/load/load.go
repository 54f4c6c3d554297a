// Package load writes entries from CSV and JSON lines into a keyspace, and dumps into a database.
package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

// Dump loads a dump, and returns how many entries it has. It fails, with all of them loaded, where
// the input goes on behind the dump, as several dumps in one file do.
func Dump(ctx context.Context, db *lsm.DB, r io.Reader, overwrite bool,
	progress func(bytes uint64)) (n uint64, err error) {
	info, err := dump.Load(ctx, db, r, &dump.LoadOptions{Overwrite: overwrite,
		Progress: func(x dump.Progress) { progress(x.Bytes) }})
	if err != nil {
		return 0, err
	}
	for _, k := range info.Keyspaces {
		n += k.Entries
	}
	more, err := io.ReadFull(r, make([]byte, 1))
	if more > 0 {
		err = fmt.Errorf("the dump, of %d keys, is loaded and ends at byte %d; what the input has "+
			"behind it is not loaded: load each dump by itself", n, info.Size)
	} else if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// CSV loads CSV, whose header says how keys and values are encoded, and returns how many entries it
// has. progress is told how many bytes of keys and values were read. What is written is durable
// when CSV returns nil.
func CSV(ctx context.Context, k *lsm.Keyspace, r io.Reader,
	progress func(bytes uint64)) (uint64, error) {
	l := &loader{k: k, batch: k.NewBatch(), ctx: ctx, told: progress}
	return l.end(l.csv(r))
}

// Lines is CSV for JSON lines.
func Lines(ctx context.Context, k *lsm.Keyspace, r io.Reader,
	progress func(bytes uint64)) (uint64, error) {
	l := &loader{k: k, batch: k.NewBatch(), ctx: ctx, told: progress}
	return l.end(l.lines(r))
}

// end writes the rest. After a failure the batches before it stay, which the error says.
func (l *loader) end(err error) (uint64, error) {
	if err == nil {
		err = l.k.Write(l.batch, lsm.Sync)
	}
	if err != nil && l.written > 0 {
		err = fmt.Errorf("%w; the first %d keys are written", err, l.written)
	}
	return l.n, err
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{lsm.ErrInvalidArgument}, args...)...)
}

// loader writes entries in batches.
type loader struct {
	k     *lsm.Keyspace
	batch *lsm.Batch
	ctx   context.Context
	told  func(bytes uint64) // of progress
	n     uint64
	bytes uint64

	written uint64 // of n, in the batches before
}

func (l *loader) put(key, value []byte) error {
	l.batch.Put(key, value)
	l.n++
	l.bytes += uint64(len(key) + len(value))
	const batchBytes = 1 << 20
	if l.batch.Size() < batchBytes {
		return nil
	}
	if err := errors.Join(l.ctx.Err(), l.k.Write(l.batch, lsm.NoSync)); err != nil {
		return err
	}
	l.batch.Clear()
	l.written = l.n
	l.told(l.bytes)
	return nil
}

func (l *loader) csv(from io.Reader) error {
	r := csv.NewReader(from)
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("the header of the CSV: %w", err)
	}
	keyAt := slices.IndexFunc(head, func(s string) bool { return strings.HasPrefix(s, "key") })
	var keyAs, valueAs encode.Encoding
	var isKey, isValue bool
	if len(head) == 2 && keyAt >= 0 {
		keyAs, isKey = encode.OfColumn(head[keyAt], "key")
		valueAs, isValue = encode.OfColumn(head[1-keyAt], "value")
	}
	if !isKey || !isValue {
		return invalid("the CSV has the columns %q; want key and value alone, each perhaps with "+
			"_hex, _base64 or _json behind it", head)
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		key, err := keyAs.Decode(row[keyAt])
		if err == nil {
			var value []byte
			if value, err = valueAs.Decode(row[1-keyAt]); err == nil {
				err = l.put(key, value)
			}
		}
		if err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

func (l *loader) lines(from io.Reader) error {
	r := bufio.NewReaderSize(from, 1<<20)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := l.line(line); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (l *loader) line(line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return noObject(cmp.Or(err, errors.New("it does not begin as one")))
	}
	var key, value []byte
	for d.More() { // a map would keep the last one of two members of a name
		t, err := d.Token()
		name, _ := t.(string)
		var raw json.RawMessage
		if err == nil {
			err = d.Decode(&raw)
		}
		if err != nil {
			return noObject(err)
		}
		b, err := member(name, raw)
		if err != nil {
			return err
		}
		into := &value
		if strings.HasPrefix(name, "key") {
			into = &key
		}
		if *into != nil {
			return invalid("it has two keys, or two values")
		}
		*into = b
	}
	if _, err := d.Token(); err != nil { // its brace
		return noObject(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return noObject(cmp.Or(err, errors.New("something follows it")))
	}
	if key == nil || value == nil {
		return invalid("it has no key or no value")
	}
	return l.put(key, value)
}

// noObject is the error of a line that is not one JSON object.
func noObject(cause error) error { return invalid("it is no JSON object: %v", cause) }

// member is the bytes of a member of a JSON line.
func member(name string, raw json.RawMessage) (b []byte, err error) {
	as, ok := encode.OfColumn(name, "key")
	if !ok {
		as, ok = encode.OfColumn(name, "value")
	}
	if !ok {
		return nil, invalid("%q is no member; want key and value, each perhaps with _hex, _base64 "+
			"or _json behind it", name)
	}
	if as == encode.JSON {
		return raw, nil
	}
	b, err = encode.Unquote(raw)
	if err != nil {
		return nil, invalid("%s: %v: %.60q", name, err, raw)
	}
	if as == encode.Text { // JSON has escapes of its own
		return b, nil
	}
	return as.Decode(string(b))
}
