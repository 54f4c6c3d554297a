package blocktable

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Salvager is what the salvages of all formats have in common: it reads one damaged table.
type Salvager struct {
	Env     Env
	File    vfs.ReadFile
	Size    uint64
	Stored  uint64 // bytes that are no holes
	Out     sstable.Salvage
	Scratch *Scratch

	Last    []byte // key of the last entry taken
	any     bool   // Last and trailer are those of an entry
	trailer base.Trailer
	lost    int // bytes of keys in calls of Lost
}

// MaxLostKeys bounds the bytes of keys that a salvage keeps for its report: blocks store a shared
// prefix once, so a small file may have many long keys.
const MaxLostKeys = 16 << 20

// NewSalvager returns the Salvager of the table in f. Its Scratch is of pool, to be given back.
func NewSalvager(f vfs.ReadFile, env Env, out sstable.Salvage, pool *Pool) Salvager {
	if env.MaxDecoded <= 0 {
		env.MaxDecoded = block.DefaultMaxDecoded
	}
	return Salvager{Env: env, File: f, Size: uint64(f.Size()), Out: out, Scratch: pool.Get(),
		Stored: uint64(max(vfs.Stored(f, f.Size()), 0))}
}

// Read fills buf with n bytes of the file, which has them.
func (s *Salvager) Read(buf *block.Buffer, off, n uint64) ([]byte, error) {
	b, err := buf.Resize(int(n))
	if err != nil {
		return nil, err
	}
	if err := base.ReadFull(s.File, b, int64(off)); err != nil {
		buf.Truncate(0)
		return nil, err
	}
	return b, nil
}

// Add hands out an entry unless it does not come after the one before.
func (s *Salvager) Add(key []byte, t base.Trailer, codec base.Codec, value []byte) (bool, error) {
	if s.any && s.Env.Comparer.CompareInternal(s.Last, s.trailer, key, t) >= 0 {
		return false, nil
	}
	if err := s.Out.Add(key, t, codec, value); err != nil {
		return false, err
	}
	s.any = true
	s.Last, s.trailer = append(s.Last[:0], key...), t
	return true, nil
}

// Lost reports a part of the file, and the keys between which the lost entries lie: none of them
// once there were so many.
func (s *Salvager) Lost(off, n uint64, c *base.Corruption, smallest, largest []byte) {
	if s.lost += len(smallest) + len(largest); s.lost > MaxLostKeys {
		smallest, largest = nil, nil
	}
	s.Out.Lost(sstable.Lost{Offset: int64(off), Length: int64(n), Reason: c.Kind + ": " + c.Reason,
		Smallest: smallest, Largest: largest})
}
