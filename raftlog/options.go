package raftlog

import (
	"fmt"

	"github.com/loamdb/loam/lsm"
)

// DefaultMaxEntrySize is the default of Options.MaxEntrySize.
const DefaultMaxEntrySize = 8 << 20

// maxMaxEntrySize bounds Options.MaxEntrySize: the encoding of an entry of that size is within the
// bound of the database's batches.
const maxMaxEntrySize = 1 << 30

// Options configures a Store. A nil *Options and a zero field mean the default.
type Options struct {
	// Database is the options of the database below: memory, file system, logger, listener. The
	// default, nil, is that of lsm.Open with LargeValue of 1 KiB, so that entries of that size are
	// written once, a block cache of 8 MiB, and no Bloom filters, as raft asks for entries that are
	// there, most often once. A negative LargeValue is none. Open refuses what would change the
	// entries: another format than the native one, a comparer, a compaction filter, a merge
	// operator and a time to live.
	Database *lsm.Options
	// MaxEntrySize is the largest entry in bytes, its Data and Extensions together: StoreLogs fails
	// with ErrEntryTooLarge above it. The default is DefaultMaxEntrySize, as a larger entry delays
	// heartbeats; at most 1 GiB.
	MaxEntrySize int
}

// largeValue is the size from which on an entry stays in the write-ahead log. At 1 KiB it halves
// the bytes written and costs no speed of appends or of reads in order; random reads are slower.
const largeValue = 1 << 10

// cacheSize is the block cache of a Store: the blocks that one follower reads through.
const cacheSize = 8 << 20

// database returns the options of the database below. It is the one place that knows what suits a
// Raft log.
func (o *Options) database() (*lsm.Options, error) {
	d := lsm.Options{}
	if o.Database != nil {
		d = *o.Database
	}
	switch {
	case d.Format == lsm.FormatLevelDB:
		return nil, refused("LevelDB's format has no range deletes")
	case d.Comparer != nil && d.Comparer != lsm.BytewiseComparer || d.Comparers != nil:
		return nil, refused("indexes are ordered bytewise, so that it takes no comparer")
	case d.CompactionFilter != nil, d.MergeOperator != nil, d.MergeOperators != nil,
		d.DefaultTTL != 0:
		return nil, refused("it takes no compaction filter, merge operator or time to live, " +
			"which would change entries")
	}
	d.Format = lsm.FormatNative
	if d.LargeValue == 0 {
		d.LargeValue = largeValue
	}
	d.LargeValue = max(d.LargeValue, 0)
	if d.CacheSize == 0 && d.Cache == nil && d.Resources == nil {
		d.CacheSize = cacheSize
	}
	if d.BloomBits == 0 {
		d.BloomBits = -1
	}
	return &d, nil
}

func (o *Options) maxEntrySize() (int, error) {
	switch {
	case o.MaxEntrySize == 0:
		return DefaultMaxEntrySize, nil
	case o.MaxEntrySize < 0 || o.MaxEntrySize > maxMaxEntrySize:
		return 0, refused(fmt.Sprintf("MaxEntrySize is %d, and has to be between 1 and %d",
			o.MaxEntrySize, maxMaxEntrySize))
	}
	return o.MaxEntrySize, nil
}

func refused(why string) error {
	return fmt.Errorf("raftlog: options of a Raft log: %s: %w", why, lsm.ErrInvalidArgument)
}
