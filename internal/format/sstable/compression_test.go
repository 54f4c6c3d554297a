package sstable

import "testing"

func TestPerLevel(t *testing.T) {
	const none, snappy, zstd = PerLevel(NoCompression + 1), PerLevel(Snappy + 1), PerLevel(Zstd + 1)
	for _, tc := range []struct {
		levels []PerLevel
		text   string
		want   [8]Compression
	}{
		{[]PerLevel{snappy}, "snappy", [8]Compression{1, 1, 1, 1, 1, 1, 1, 1}},
		{[]PerLevel{none, snappy, zstd}, "none,snappy,zstd",
			[8]Compression{0, 1, 2, 2, 2, 2, 2, 2}},
		{[]PerLevel{zstd, none}, "zstd,none", [8]Compression{2, 0, 0, 0, 0, 0, 0, 0}},
		{[]PerLevel{none, none, none, none, none, none, zstd}, "none,none,none,none,none,none,zstd",
			[8]Compression{0, 0, 0, 0, 0, 0, 2, 2}},
	} {
		list := ByLevel(tc.levels)
		if !list.Valid() || list.String() != tc.text {
			t.Errorf("%v is %q, want %q", tc.levels, list, tc.text)
		}
		for level, want := range tc.want {
			if got := list.At(level); got != want {
				t.Errorf("%s: level %d has %d, want %d", list, level, got, want)
			}
			if got := (WriterOptions{Levels: list}).ForLevel(level).Compression; got != want {
				t.Errorf("%s: ForLevel(%d) has %d, want %d", list, level, got, want)
			}
		}
	}
	if got := (WriterOptions{Compression: Zstd}).ForLevel(3).Compression; got != Zstd {
		t.Errorf("without a list, ForLevel has %d", got)
	}
	for _, bad := range [][]PerLevel{{0}, {none, 0, zstd}, {none, ByLevel([]PerLevel{none, zstd})},
		{4}, make([]PerLevel, 8), {none, none, none, none, none, none, none, none}} {
		if list := ByLevel(bad); list.Valid() {
			t.Errorf("%v is a list: %s", bad, list)
		}
	}
	for _, bad := range []PerLevel{1 << 14, 1 << 15, 0b1100, 0b110000} {
		if bad.Valid() || bad.String() != "unknown" {
			t.Errorf("%#b is valid: %s", uint16(bad), bad)
		}
	}
}
