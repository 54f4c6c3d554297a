package block

import (
	"encoding/binary"

	"github.com/loamdb/loam/internal/base"
)

// RowSearch is what SearchRows finds. Its slices lie in the rows or in the
// buffer.
type RowSearch struct {
	Count                     int // entries
	First, Last               []byte
	FirstTrailer, LastTrailer base.Trailer
	Value                     []byte       // of the entry found
	Trailer                   base.Trailer // of the entry found
	Found                     bool
}

// SearchRows looks up l in a row block without a View, which costs less than
// building one when the block is searched once. It checks in one pass all that Measure
// with this limit and BuildView check, so that a block gives the same answer
// either way. It reads all entries, not only those after one restart point:
// the passed ones cost a few nanoseconds each, and a block whose keys do not ascend
// must not hide a key from a binary search. The current key lies in buf.
//
// REQUIRES: cmp.HasAbbrev, so that keys which share bytes compare like what follows
// these bytes.
func SearchRows(rows []byte, limit int64, cmp *base.Comparer, l base.Lookup,
	buf *Buffer) (RowSearch, error) {
	end, points, err := splitRestarts(rows)
	if err != nil {
		return RowSearch{}, err
	}
	s := rowSearcher{
		rows: rows, end: end, restarts: newRestarts(points, end), cmp: cmp, target: l.Key(),
		targetTrailer: l.Trailer(), ascending: cmp == base.Bytewise,
		limit: limit, budget: viewBudget(limit), before: true,
	}
	if s.buf, err = buf.Resize(minKeyBuffer); err != nil {
		return RowSearch{}, err
	}
	if err = s.run(buf); err == nil {
		err = s.restarts.check(end)
	}
	if err != nil {
		return RowSearch{}, err
	}
	return s.RowSearch, nil
}

// minKeyBuffer is the least length of the buffer for the current key.
const minKeyBuffer = 1 << 10

// rowSearcher is the state of one SearchRows.
type rowSearcher struct {
	RowSearch
	rows          []byte
	end           int // of the entries
	restarts      restarts
	cmp           *base.Comparer
	ascending     bool // the order is that of bytes
	target        []byte
	targetTrailer base.Trailer
	limit         int64
	budget        uint64 // bytes that a View may take

	buf    []byte
	before bool // all entries so far sort before the target
	common int  // while before: bytes that the previous key and the target share
}

// run decodes all entries, checks each, and compares with the target those that it must.
//
//  1. A row has only the bytes that its key does not share with the key before. key holds the
//     previous internal key, and these bytes are written over its end: an entry costs one short
//     copy.
//  2. Keys ascend if the first byte in which two neighbours can differ ascends: key[shared], of the
//     previous key, against tail[0]. Only where this byte does not tell, because it is the same,
//     because a key ends there, or because the order is not that of bytes, order compares keys.
//  3. While entries sort before the target, common is how many bytes the previous key and the
//     target share. If an entry shares more than that with the previous one, it differs from the
//     target where the previous one does, and in the same byte: it sorts before the target, too,
//     and is not compared. Otherwise the bytes that it shares are equal to the target's, and
//     compare begins behind them. So most entries are not compared at all.
//  4. Behind the first entry at or after the target, before is false: the rest is only checked.
func (s *rowSearcher) run(buf *Buffer) error {
	rows, end := s.rows, s.end
	prevLen, prevTrailer := 0, base.Trailer(0) // of the previous entry
	maxShared := uint64(0)                     // bytes of the previous internal key
	count, size := 0, uint64(0)
	key := s.buf // begins with the previous internal key, then with the current one
	for p := 0; p < end; {
		at := p
		sharedU, unsharedU, vlenU, n := rowHeader(rows, p, end)
		p += n
		if n == 0 || sharedU > maxShared || unsharedU+vlenU > uint64(end-p) ||
			sharedU+unsharedU < base.TrailerLen {
			return badLengths(at, p, end, maxShared, sharedU, unsharedU, vlenU, n)
		}
		if uint64(at) == s.restarts.next {
			if err := s.restarts.met(at, sharedU); err != nil {
				return err
			}
		}
		shared, unshared, vlen := int(sharedU), int(unsharedU), int(vlenU)
		keyLen := shared + unshared - base.TrailerLen
		count++
		if size += uint64(keyLen + vlen + viewPerEntry); size > s.budget {
			return tooLarge(s.limit, p+unshared+vlen, len(rows))
		}
		tail := rows[p : p+unshared]
		// Usually the first byte in which the keys differ gives their order.
		order := -1
		if !s.ascending || shared >= prevLen || shared >= keyLen || key[shared] >= tail[0] {
			order = s.order(key[:prevLen], shared, keyLen, tail)
		}
		if need := shared + max(unshared, wide); need > len(key) {
			var err error
			if key, err = growKey(buf, need, shared); err != nil {
				return err
			}
		}
		if unshared <= wide && p+wide <= len(rows) {
			copyWide(key[shared:], rows[p:])
		} else {
			copy(key[shared:], tail)
		}
		p += unshared
		var t base.Trailer
		if unshared >= base.TrailerLen {
			t = base.Trailer(binary.LittleEndian.Uint64(rows[p-base.TrailerLen:]))
		} else {
			t = base.Trailer(binary.LittleEndian.Uint64(key[keyLen:]))
		}
		switch {
		case at == 0:
			s.First, s.FirstTrailer = tail[:keyLen:keyLen], t
		case order > 0 || order == 0 && prevTrailer <= t:
			return badRow(at, "keys do not ascend")
		}
		if t.Kind() != base.KindSet && !t.Kind().InLevelDB() {
			return badRow(at, "unknown kind %d", t.Kind())
		}
		if known := min(shared, prevLen, keyLen); s.before && known <= s.common {
			s.compare(key[:keyLen], known, t, rows[p:p+vlen:p+vlen])
		}
		prevLen, prevTrailer, maxShared = keyLen, t, uint64(keyLen+base.TrailerLen)
		p += vlen
	}
	s.Count = count
	s.Last, s.LastTrailer = key[:prevLen], prevTrailer
	return nil
}

// badLengths returns the defect of the lengths of the entry at at.
func badLengths(at, p, end int, maxShared, shared, unshared, vlen uint64, n int) error {
	switch {
	case n == 0:
		return badRow(at, "malformed lengths")
	case shared > maxShared:
		return badRow(at, "shares %d bytes with a key of %d", shared, maxShared)
	case unshared+vlen > uint64(end-p):
		return badRow(at, "ends outside the block")
	}
	return badRow(at, "key is too short for an internal key")
}

// order compares the previous user key, which begins the previous internal key in
// its memory, with the one of keyLen bytes that shares its first bytes and ends with
// tail.
func (s *rowSearcher) order(prev []byte, shared, keyLen int, tail []byte) int {
	internal := prev[:len(prev)+base.TrailerLen]
	switch {
	case keyLen < shared: // the trailer shares bytes, too
		return s.cmp.Cmp(prev, internal[:keyLen])
	case shared > len(prev): // the key goes on with bytes of the previous trailer
		return s.cmp.Cmp(nil, internal[len(prev):shared])
	}
	return s.cmp.Cmp(prev[shared:], tail[:keyLen-shared])
}

// compare compares the entry (key, t) with the target. They are known to share their
// first bytes.
func (s *rowSearcher) compare(key []byte, shared int, t base.Trailer, value []byte) {
	key, target := key[shared:], s.target[shared:]
	n := base.SharedPrefixLen(key, target)
	switch c := s.cmp.Cmp(key[n:], target[n:]); {
	case c > 0:
		s.before = false
	case c == 0 && t <= s.targetTrailer:
		s.before, s.Found = false, true
		s.Trailer, s.Value = t, value
	default:
		s.common = shared + n
	}
}

// growKey makes the buffer need bytes long and keeps the first ones.
func growKey(buf *Buffer, need, keep int) ([]byte, error) {
	buf.Truncate(keep)
	if err := buf.Reserve(need - keep); err != nil {
		return nil, err
	}
	return buf.Resize(need)
}
