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
		_, n, _ := state.MemTables()
		n += k.db.cache.Stats().Used + k.db.shared.Files.Stats().ReaderBytes
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

// DiskSizes estimates how many bytes of tables hold the keys of each of n ranges; see
// tree.ReadState.DiskSize.
func (k *Keyspace) DiskSizes(n int, bounds func(i int) (start, limit []byte)) (sizes []uint64,
	err error) {
	state, err := k.Present()
	if err != nil {
		return nil, err
	}
	defer state.Unref()
	defer k.db.health.CatchPanic(&err)
	sizes = make([]uint64, n)
	for i := range sizes {
		start, limit := bounds(i)
		if sizes[i], err = state.DiskSize(start, limit); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// ValueStats describes the values that lie in logs and value files; see lsm.ValueMetrics.
type ValueStats struct {
	Logs, Files               int
	Bytes, DiskBytes          uint64
	Reads, BytesRead          uint64
	Relocated, RelocatedBytes uint64
}

// ValueStats is the state of the moment.
func (db *DB) ValueStats() (st ValueStats) {
	logs := db.manifest.ValueLogs()
	for _, l := range logs {
		if st.Bytes += l.Bytes; l.InFile {
			st.Files++
		} else {
			st.Logs++
		}
	}
	st.DiskBytes = db.jobs.ValueSpace()
	st.Relocated, st.RelocatedBytes = db.jobs.Relocated()
	st.Reads, st.BytesRead = db.shared.Files.ValueReads()
	return st
}
