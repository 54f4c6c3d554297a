package base

// Codec names how a value's bytes are packed inside a Chunk.
type Codec uint8

// DO NOT CHANGE THESE VALUES: they stand in tables of the native format.
const (
	CodecRaw       Codec = 0 // a value's bytes are the value
	CodecSnappy    Codec = 1
	CodecZstd      Codec = 2
	CodecZstdDict  Codec = 3 // zstd with the table's dictionary: means nothing in another table
	CodecShort     Codec = 4 // for values of some hundred bytes, see package colblk
	CodecShortDict Codec = 5 // CodecShort with the table's dictionary
)

// NeedsDict reports whether values packed by c mean nothing without their table's
// dictionary.
func (c Codec) NeedsDict() bool { return c == CodecZstdDict || c == CodecShortDict }

// Chunk is some consecutive entries of a Source, in columns: the one shape in
// which memtables and tables of either format hand data to merges and cursors. Entry i has
//
//	key     Data[KeyOff[i]:ValOff[i]]   (user key)
//	value   Data[ValOff[i]:ValEnd[i]]
//	trailer Trailers[i]
//
// A Source fills Chunks; the slices belong to the source, are read-only, and
// stay valid until its next move or Close.
type Chunk struct {
	Data     []byte
	KeyOff   []uint32
	ValOff   []uint32
	ValEnd   []uint32
	Trailers []Trailer
	// Codecs is nil when every value is raw.
	Codecs []Codec
	// AllLiveSets says that every entry is a KindSet and that no user key occurs
	// twice: a reader at MaxSeq or later sees each entry.
	AllLiveSets bool
	// FirstIsNewest says that no entry of the source before the chunk has the user key of
	// entry 0.
	FirstIsNewest bool
	MaxSeq        SeqNum
}

// Len is the number of entries.
func (e *Chunk) Len() int { return len(e.Trailers) }

// Key returns user key i.
func (e *Chunk) Key(i int) []byte {
	end := e.ValOff[i]
	return e.Data[e.KeyOff[i]:end:end]
}

// Value returns value i, packed by its codec.
func (e *Chunk) Value(i int) []byte {
	end := e.ValEnd[i]
	return e.Data[e.ValOff[i]:end:end]
}

// Codec returns the codec of value i.
func (e *Chunk) Codec(i int) Codec {
	if e.Codecs == nil {
		return CodecRaw
	}
	return e.Codecs[i]
}

// Source is the internal iterator: a sorted sequence of entries handed out a
// chunk at a time, so that one interface call serves many entries. It is
// used by one goroutine at a time.
//
// Every move returns its failure beside its answer, so that no caller can take
// a failure for the end. With an error the index is -1 or the answer false, e is
// empty and the source is not positioned; a positioning call may be tried again.
//
// Positioning calls fill e and return the index in e of the entry found, or -1
// when there is none; after -1, e is empty. Next and Prev move from the chunk
// last handed out to its neighbour, and report false at the end; they may be
// called only while positioned.
type Source interface {
	First(e *Chunk) (int, error)
	Last(e *Chunk) (int, error)
	// SeekGE finds the first entry at or after (key, t) in internal order.
	SeekGE(key []byte, t Trailer, e *Chunk) (int, error)
	// SeekLT finds the last entry before (key, t) in internal order.
	SeekLT(key []byte, t Trailer, e *Chunk) (int, error)
	// Next hands out the following chunk; its first entry is index 0.
	Next(e *Chunk) (bool, error)
	// Prev hands out the preceding chunk; the entry to continue with is the
	// last one.
	Prev(e *Chunk) (bool, error)
	// Close releases what the source holds. The source must not be touched
	// afterwards, not even by another Close: it may be in use again.
	Close()
}

// Scan calls f for every chunk of src, front to back, until one of both fails.
func Scan(src Source, f func(e *Chunk) error) error {
	var e Chunk
	i, err := src.First(&e)
	for ok := i >= 0; ok && err == nil; {
		if err = f(&e); err == nil {
			ok, err = src.Next(&e)
		}
	}
	return err
}

// SeekPrefetcher is a Source that can start loading what a seek will look at into
// the processor's cache. Several sources are told first and sought afterwards, so
// that their cache misses overlap.
type SeekPrefetcher interface {
	// PrefetchSeek precedes SeekGE(key, t), which must be the next call.
	PrefetchSeek(key []byte, t Trailer)
}

// Skipper is a Source that can pass quickly over entries which its caller does not want.
type Skipper interface {
	// Skip says that the next call of Next may leave out entries with user keys before limit
	// and sequence numbers below seq. It precedes that call immediately.
	Skip(limit []byte, seq SeqNum)
}

// Bounded is a Source that can be told which user keys will be asked for, so that
// it opens no table outside of them.
type Bounded interface {
	// SetBounds limits moves to [lower, upper); a nil bound is open.
	SetBounds(lower, upper []byte)
}
