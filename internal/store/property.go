package store

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/loamdb/loam/internal/format/manifest"
)

// Property answers LevelDB's properties; see lsm.DB.Property.
func (k *Keyspace) Property(name string) (value string, ok bool) {
	rest, ok := strings.CutPrefix(name, "leveldb.")
	if !ok {
		rest = strings.TrimPrefix(name, "loam.")
	}
	state, err := k.Present()
	if err != nil {
		return "", false
	}
	defer state.Unref()
	if digits, ok := strings.CutPrefix(rest, "num-files-at-level"); ok {
		level, err := strconv.ParseUint(digits, 10, 8)
		if err != nil || level >= manifest.NumLevels {
			return "", false
		}
		return strconv.Itoa(len(state.Version.Levels[level].Files)), true
	}
	switch rest {
	case "stats":
		return k.statsProperty(state.Version), true
	case "sstables":
		return state.Version.String(), true
	case "approximate-memory-usage":
		n := state.Mem.MemoryUsage() + k.db.cache.Stats().Used +
			k.db.shared.Files.Stats().ReaderBytes
		for _, s := range state.Sealed {
			n += s.Mem.MemoryUsage()
		}
		return strconv.FormatInt(n, 10), true
	}
	return "", false
}

// statsProperty has the columns of LevelDB's table of compactions.
func (k *Keyspace) statsProperty(v *manifest.Version) string {
	var b strings.Builder
	b.WriteString("                               Compactions\n")
	b.WriteString("Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n")
	b.WriteString("--------------------------------------------------\n")
	const mb = 1 << 20
	for i, l := range k.db.jobs.Counters().Levels {
		files, size := len(v.Levels[i].Files), v.Levels[i].Size
		if files == 0 && l.BytesWritten == 0 {
			continue
		}
		fmt.Fprintf(&b, "%3d %8d %8.0f %9.0f %8.0f %9.0f\n", i, files, float64(size)/mb,
			l.Duration.Seconds(), float64(l.BytesRead)/mb, float64(l.BytesWritten)/mb)
	}
	return b.String()
}
