package importers

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/loamdb/loam/lsm"
)

// sum counts entries and adds up their digests, so that the order of entries does not matter.
type sum struct {
	entries, bytes uint64
	digest         [2]uint64
	buf            []byte
}

// add counts an entry by the first half of SHA-256 of the length of its key, its key and its value.
func (s *sum) add(key, value []byte) {
	s.buf = binary.AppendUvarint(s.buf[:0], uint64(len(key)))
	s.buf = append(append(s.buf, key...), value...)
	h := sha256.Sum256(s.buf)
	s.entries++
	s.bytes += uint64(len(key) + len(value))
	s.digest[0] += binary.BigEndian.Uint64(h[:8])
	s.digest[1] += binary.BigEndian.Uint64(h[8:16])
}

func (s *sum) same(o *sum) bool { return s.entries == o.entries && s.digest == o.digest }

// total is what a space holds: entries that stay, and entries that expire.
type total struct {
	name          string
	stay, expires sum
	expired       uint64    // entries of the source that were left out
	first         time.Time // when the first of those that expire does
}

func (t *total) add(e Entry) {
	if e.Expires.IsZero() {
		t.stay.add(e.Key, e.Value)
		return
	}
	t.expires.add(e.Key, e.Value)
	if t.first.IsZero() || e.Expires.Before(t.first) {
		t.first = e.Expires
	}
}

func (t *total) space() Space {
	return Space{Name: t.name, Entries: t.stay.entries + t.expires.entries,
		Bytes: t.stay.bytes + t.expires.bytes, Expired: t.expired,
		Digest: fmt.Sprintf("%016x%016x", t.stay.digest[0]+t.expires.digest[0],
			t.stay.digest[1]+t.expires.digest[1])}
}

// compare fails with ErrDiffers unless the space holds what was read of the source. Of entries that
// expire some may be gone once the first one's time has come: then there are no more of them than
// there were.
func (t *total) compare(now *total, at time.Time) error {
	switch {
	case !t.stay.same(&now.stay):
	case t.expires.same(&now.expires):
		return nil
	case !at.Before(t.first) && now.expires.entries < t.expires.entries:
		return nil
	}
	was, is := t.space(), now.space()
	return fmt.Errorf("%w: keyspace %q has %d entries of %d bytes, digest %s; %d of %d bytes with "+
		"%s were read", ErrDiffers, t.name, is.Entries, is.Bytes, is.Digest, was.Entries, was.Bytes,
		was.Digest)
}

// verify reads the database in dir, and compares its entries with those of the source.
func (c *conversion) verify(dir string) error {
	o := loamOptions()
	o.ErrorIfExists, o.ErrorIfMissing, o.ReadOnly = false, true, true
	db, err := lsm.Open(dir, o)
	if err != nil {
		return err
	}
	for i := range c.totals {
		if err := c.verifySpace(db, &c.totals[i]); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	return db.Close()
}

func (c *conversion) verifySpace(db *lsm.DB, t *total) error {
	k, err := db.Keyspace(t.name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
	if err != nil {
		return err
	}
	now := total{name: t.name}
	var failed error
	for key, value := range k.All(nil, nil, &failed) {
		if (now.stay.entries+now.expires.entries)%1024 == 0 {
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
		e := Entry{Key: key, Value: value}
		if t.expires.entries > 0 { // else no entry has a time to live
			_, expires, err := k.TTL(key)
			switch {
			case errors.Is(err, lsm.ErrNotFound):
				continue // its time came after the iterator was opened
			case err != nil:
				return err
			case expires:
				e.Expires = t.first
			}
		}
		now.add(e)
	}
	if failed != nil {
		return failed
	}
	return t.compare(&now, time.Now())
}
