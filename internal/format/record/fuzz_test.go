package record

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// FuzzReader reads any bytes as a log, going on after damage; room is how much
// of their first block the bytes get, after an intact record, 0 for all. What
// comes out must lie in the file in order, and be readable again.
func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, room uint16) {
		if n := blockSize - headerLen - int(room); room > 0 && n >= 0 {
			b = append(build(t, pattern(1, n)), b...)
		}
		r := newReader(b)
		var recs [][]byte
		last, sum := int64(-1), 0
		for {
			rec, err := r.Next()
			if err == nil {
				if r.Offset() <= last || r.Offset()+int64(headerLen+len(rec)) > int64(len(b)) {
					t.Fatalf("record of %d bytes at %d after %d", len(rec), r.Offset(), last)
				}
				last = r.Offset()
				sum += len(rec)
				recs = append(recs, bytes.Clone(rec))
				continue
			}
			if err == io.EOF {
				break
			}
			var c *base.Corruption
			if !errors.As(err, &c) || c.Offset < 0 || c.Length <= 0 ||
				c.Offset+c.Length > int64(len(b)) {
				t.Fatalf("error %v", err)
			}
			if _, again := r.Next(); again != err {
				t.Fatalf("error %v became %v", err, again)
			}
			if tail := r.Tail(); r.Resume() && tail {
				t.Fatal("records after a torn tail")
			} else if r.err != nil {
				break
			}
		}
		if sum > len(b) {
			t.Fatalf("%d bytes of records in a file of %d", sum, len(b))
		}
		again, err := readAll(newReader(build(t, recs...)))
		if err != io.EOF || !equal(again, recs) {
			t.Fatalf("written again: %v", err)
		}
	})
}

// FuzzRoundTrip writes records of the sizes that sizes says, in pairs of
// bytes, and cuts the log off: what is read back is a prefix.
func FuzzRoundTrip(f *testing.F) {
	f.Fuzz(func(t *testing.T, sizes []byte, keep uint32) {
		var recs [][]byte
		for i := 0; i+1 < min(len(sizes), 40); i += 2 {
			recs = append(recs, pattern(i, int(sizes[i])<<8|int(sizes[i+1])))
		}
		b := build(t, recs...)
		if got, err := readAll(newReader(b)); err != io.EOF || !equal(got, recs) {
			t.Fatalf("%d records of %d, %v", len(got), len(recs), err)
		}
		r := newReader(b[:int64(keep)%int64(len(b)+1)])
		got, err := readAll(r)
		if len(got) > len(recs) || !equal(got, recs[:len(got)]) || err != io.EOF && !r.Tail() {
			t.Fatalf("cut: %d records of %d, %v", len(got), len(recs), err)
		}
	})
}
