package sstable

// Piece is a part of a table's file.
type Piece struct {
	// Name is what the piece is: "data", "filter", "range tombstones", "dictionary", "index",
	// "index of parts", "properties", "metaindex", "footer" or, in LevelDB's format, what the
	// metaindex calls it.
	Name string
	// Offset and Length are the place in the file, with all that the format puts around the
	// contents.
	Offset, Length uint64
}
