package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// Setup is where and with which options a history runs.
type Setup struct {
	Name string
	// Disk puts the database on the real file system; otherwise it is in memory.
	Disk bool
	// Format is that of the new database.
	Format lsm.Format
	// seed picks the options, together with the number that a reopen carries.
	// 0 stands for the engine's own defaults, 1 for everything small.
	seed int64
	// Keyspaces runs the history over three trees with one log, in the native format;
	// otherwise all operations go to one.
	Keyspaces bool

	// Of one of several databases, see Several; all may be nil.
	disk      vfs.FS     // instead of one of its own
	cache     *lsm.Cache // shared with the others
	resources *lsm.Resources
	step      func() // called before each operation
}

// Setups returns n option sets for the history of a seed: the defaults on the
// real file system, everything small, then random ones, every other with keyspaces.
// The formats take turns.
func Setups(seed int64, n int) []Setup {
	out := []Setup{{Name: "defaults", Disk: true}, {Name: "small", seed: 1}}
	for i := len(out); i < n; i++ {
		s := Setup{Name: fmt.Sprintf("random %d", i), seed: seed*16 + int64(i), Keyspaces: i%2 == 1}
		if s.Keyspaces {
			s.Name += ", three trees"
		}
		out = append(out, s)
	}
	for i := range out {
		out[i].Format = testkit.Format(seed + int64(i))
		out[i].Name += ", " + out[i].Format.String()
	}
	return out[:n]
}

// options returns the options of the nth opening. Openings after the first one name any
// format: a database keeps its own.
func (s Setup) options(n int) *lsm.Options {
	switch s.seed {
	case 0:
		return &lsm.Options{Format: s.Format}
	case 1:
		return &lsm.Options{
			Format:          s.Format,
			WriteBufferSize: 64 << 10, BlockSize: 256, BlockRestartInterval: 1,
			MaxFileSize: 64 << 10, CacheSize: 128 << 10, L0Compaction: 2, MaxOpenFiles: 8,
			Compression: lsm.NoCompression, MaxMemtables: 2, MaxBackgroundJobs: 1,
		}
	}
	rng := rand.New(rand.NewPCG(uint64(s.seed), uint64(n)))
	format := s.Format
	if n > 0 {
		format = lsm.Format(rng.IntN(3))
	}
	o := &lsm.Options{
		Format:               format,
		WriteBufferSize:      64 << 10 << rng.IntN(5),
		MaxMemtables:         2 + rng.IntN(3),
		BlockSize:            256 << rng.IntN(8),
		BlockRestartInterval: 1 + rng.IntN(20),
		MaxFileSize:          64 << 10 << rng.IntN(6),
		CacheSize:            []int64{-1, 64 << 10, 1 << 20, 16 << 20}[rng.IntN(4)],
		Compression:          compression(rng),
		BloomBits:            []int{-1, 1, 10, 20}[rng.IntN(4)],
		LevelDBFilter:        rng.IntN(2) == 0,
		L0Compaction:         1 + rng.IntN(8),
		MaxOpenFiles:         4 + rng.IntN(100),
		MaxBackgroundJobs:    1 + rng.IntN(3),
		MaxSubcompactions:    1 + rng.IntN(3),
		WALPreallocate:       []int64{-1, 4096, 1 << 20}[rng.IntN(3)],
		DisableCompaction:    rng.IntN(8) == 0,
		CompactionFilter:     []*lsm.CompactionFilter{nil, rewrite}[rng.IntN(2)],
		PrefixLength:         []int{0, 1, 2, 4}[rng.IntN(4)],
		CompactionDirectIO:   rng.IntN(3) == 0,
	}
	if o.BloomBits < 0 {
		o.PrefixLength = 0
	}
	// Drawn apart, so that the options of known seeds stay.
	apart := rand.New(rand.NewPCG(uint64(s.seed)+1<<40, uint64(n)))
	o.LargeValue = []int64{0, 0, 1, 20, 200}[apart.IntN(5)]
	if o.LargeValue > 0 && apart.IntN(2) == 0 { // values are relocated soon
		o.MaxSpaceAmplification, o.L0Compaction, o.WriteBufferSize = 1, 1, 64<<10
	}
	return o
}

// compression is one for all levels, or a list.
func compression(rng *rand.Rand) lsm.Compression {
	levels := make([]lsm.Compression, 1+rng.IntN(4)/3*rng.IntN(7))
	for i := range levels {
		levels[i] = []lsm.Compression{lsm.NoCompression, lsm.SnappyCompression,
			lsm.ZstdCompression}[rng.IntN(3)]
	}
	return lsm.CompressionByLevel(levels...)
}

// rewrite is a compaction filter that changes every other value into itself.
var rewrite = &lsm.CompactionFilter{Name: "rewrite",
	Filter: func(_ int, _, value []byte) (lsm.FilterDecision, error) {
		if len(value)%2 == 0 {
			return lsm.FilterChange(slices.Clone(value)), nil
		}
		return lsm.FilterKeep, nil
	}}

// place makes the empty directory to run in.
func (s Setup) place() (fs vfs.FS, dir string, clean func(), err error) {
	if s.disk != nil {
		return s.disk, "db", func() {}, nil
	}
	if !s.Disk {
		return vfs.NewMem(), "db", func() {}, nil
	}
	dir, err = os.MkdirTemp("", "metamorphic")
	if err != nil {
		return nil, "", nil, err
	}
	return vfs.Default, dir + "/db", func() { os.RemoveAll(dir) }, nil
}
