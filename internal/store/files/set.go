package files

import (
	"cmp"
	"errors"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Options configures a Set.
type Options struct {
	FS       vfs.FS
	Dir      string
	Format   base.Format // of the directory: names of new tables
	Cache    *cache.Cache
	Comparer *base.Comparer // of tables whose FileMeta names none
	// Reads has the guards of reads that hold no reference on a Version; nil: all
	// reads hold one.
	Reads      *epoch.Domain
	MaxDecoded int64       // largest block that is decompressed; 0: the format's default
	OnError    func(error) // told of failures in background; may be nil, does not panic
	// MaxOpenFiles bounds this database's descriptors of tables below the
	// process's bound; 0: no bound of its own.
	MaxOpenFiles int
	Group        *Group // that has a bound, too; nil: none
	Mmap         bool   // tables are mapped where FS can
	// Pace is called after compactions have read so many bytes of a table, and may sleep; nil: it
	// is not.
	Pace func(bytes int64)
}

// Set is the table files of one database.
type Set struct {
	o     Options
	owner owner // guarded by pool.mu

	// By file number: one opener per table. It puts an element in, as it reads the disk meanwhile:
	// in a synctest bubble a goroutine that waits for a channel does not stop the clock.
	opening [16]chan struct{}

	mu     sync.Mutex
	open   map[uint64]*manifest.FileMeta // those with a reader
	failed map[uint64]error              // why tables cannot be opened, for good
	held   map[uint64]*file              // see Hold
	closed bool

	queue   deleteQueue
	skipped atomic.Uint64
	direct  direct
	values  values
}

// table is what FileMeta.Opened holds; a nil one: closed.
type table struct {
	reader sstable.Reader
	file   *file
}

// New makes a Set. It touches no file.
func New(o Options) *Set {
	if o.Reads == nil {
		o.Reads = epoch.New(nil)
	}
	s := &Set{
		o: o, open: make(map[uint64]*manifest.FileMeta), failed: make(map[uint64]error),
		held: make(map[uint64]*file),
	}
	s.values.logs = make(map[base.ValueFile]*file)
	s.values.wanted = make(map[base.ValueFile]bool)
	s.owner.max, s.owner.group, s.owner.fail = max(o.MaxOpenFiles, 0), o.Group, s.fail
	s.queue.init(o.FS, o.Dir, s.fail)
	for i := range s.opening {
		s.opening[i] = make(chan struct{}, 1)
	}
	return s
}

// fail reports a failure in background.
func (s *Set) fail(err error) {
	if s.o.OnError != nil {
		s.o.OnError(err)
	}
}

// Reader returns the reader of table m, opening it if it is not open. The
// caller keeps m alive, by a guard or by a reference on a Version that has it,
// for as long as it uses the reader.
func (s *Set) Reader(m *manifest.FileMeta) (sstable.Reader, error) {
	if t, _ := m.Opened.Load().(*table); t != nil {
		return t.reader, nil
	}
	return s.openTable(m)
}

// OpenNow returns the reader of table m if it is open.
func (s *Set) OpenNow(m *manifest.FileMeta) (sstable.Reader, bool) {
	if t, _ := m.Opened.Load().(*table); t != nil {
		return t.reader, true
	}
	return nil, false
}

// Warm opens table m, which the caller keeps alive, and reads it into the cache; see
// sstable.Reader.
func (s *Set) Warm(m *manifest.FileMeta, room int64, stop func() error) (used int64, err error) {
	r, err := s.Reader(m)
	if err != nil {
		return 0, err
	}
	return r.Warm(room, stop)
}

// Cached is how many of the blocks of table m are in the cache, and about how many
// it has.
func (s *Set) Cached(m *manifest.FileMeta) (have, of int) {
	if r, ok := s.OpenNow(m); ok {
		return r.Cached(), r.Props().Blocks
	}
	const usual = 4 << 10
	return 0, int(m.Size / usual)
}

func (s *Set) openTable(m *manifest.FileMeta) (sstable.Reader, error) {
	opening := s.opening[m.Num%uint64(len(s.opening))]
	opening <- struct{}{}
	defer func() { <-opening }()
	if r, ok := s.OpenNow(m); ok {
		return r, nil
	}
	s.mu.Lock()
	closed, failed := s.closed, s.failed[m.Num]
	s.mu.Unlock()
	if closed {
		return nil, base.ErrDatabaseClosed
	}
	if failed != nil {
		return nil, failed
	}
	t, err := s.load(m, s.o.Cache, s.o.Mmap)
	if err != nil {
		s.remember(m, err)
		return nil, err
	}
	s.mu.Lock()
	if closed = s.closed; !closed {
		if sample := t.reader.Props().Sample; sample != nil && m.Sample.Load() == nil {
			m.Sample.Store(sample)
		}
		s.open[m.Num] = m
		m.Opened.Store(t)
	}
	s.mu.Unlock()
	if closed {
		return nil, errors.Join(base.ErrDatabaseClosed, t.close())
	}
	return t.reader, nil
}

// remember keeps an error that every further try would give again, at the same cost.
func (s *Set) remember(m *manifest.FileMeta, err error) {
	var c *base.Corruption
	if !errors.As(err, &c) || !c.Final {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[m.Num] = err
}

// load opens the file under either of a table's names and parses it. Blocks come into the
// cache c, unless nil.
func (s *Set) load(m *manifest.FileMeta, c *cache.Cache, mappable bool) (*table, error) {
	if err := checkSize(m); err != nil {
		return nil, err
	}
	name := m.Name()
	s.mu.Lock()
	f, held := s.held[m.Num]
	s.mu.Unlock()
	var err error
	switch {
	case !held:
		f, err = s.openFile(name, int64(m.Size), mappable)
	case !mappable:
		f = f.unmapped()
	}
	if other := m.OtherName(); missing(err) && other != "" {
		if f2, err2 := s.openFile(other, int64(m.Size), mappable); !missing(err2) {
			name, f, err = other, f2, err2
		}
	}
	if err != nil {
		return nil, err
	}
	var t *table
	var r sstable.Reader
	defer func() { // after an error, or a panic of the comparer
		if t == nil && r != nil {
			_ = r.Close()
		}
		if t == nil && !held {
			_ = f.Close()
		}
	}()
	r, err = OpenTable(f, TableOptions{
		Name: name, Cache: c, Comparer: s.comparer(m), MaxDecoded: s.o.MaxDecoded, FileNum: m.Num,
		GlobalSeq: m.GlobalSeq, OnFault: s.fail, Pace: s.o.Pace, EvictFrom: evictFrom(c, m),
	})
	if err == nil && m.Stored {
		err = Match(m, s.comparer(m), r)
	}
	if err != nil {
		return nil, base.LocateCorruption(err, name, 0, f.size)
	}
	t = &table{reader: r, file: f}
	return t, nil
}

// evictFrom is TableOptions.EvictFrom of a table that is opened now. In memory that databases
// share, indexes and filters stay as long as those of all open tables have an eighth of it or less;
// further tables are loaded and evicted with the blocks. For tables of level 0 it is a quarter,
// since each read that misses the memtables looks into all of them.
func evictFrom(c *cache.Cache, m *manifest.FileMeta) uint64 {
	const least = 16 << 10 // shorter ones would take about as much memory as parts
	parts := int64(8)
	if m.Level.Load() == 0 {
		parts = 4
	}
	if !c.Crowded(parts) {
		return 0
	}
	return least
}

// checkSize refuses a table of a size that none has.
func checkSize(m *manifest.FileMeta) error {
	if m.Size < footerTail || m.Size > math.MaxInt64 {
		return base.Corruptf("table file", "the manifest says it has %d bytes, which no table has",
			m.Size).At(m.Name(), 0, 0)
	}
	return nil
}

// comparer orders the keys of table m.
func (s *Set) comparer(m *manifest.FileMeta) *base.Comparer {
	return cmp.Or(m.Comparer, s.o.Comparer)
}

// openFile opens the descriptor, which compares the sizes.
func (s *Set) openFile(name string, size int64, mappable bool) (*file, error) {
	f := s.newFile(name, size)
	f.mappable = mappable
	if err := f.acquire(); err != nil {
		return nil, err
	}
	f.release()
	return f, nil
}

// newFile makes a file, not open yet.
func (s *Set) newFile(name string, size int64) *file {
	return &file{fs: s.o.FS, pool: descriptors, owner: &s.owner, path: filepath.Join(s.o.Dir, name),
		size: size, mappable: s.o.Mmap}
}

func (t *table) close() error {
	err := t.reader.Close()
	if !t.file.held { // until Forget
		err = errors.Join(err, t.file.Close())
	}
	return err
}

// Create makes the file of a new table and returns its name too. The writer
// owns the file; an abandoned one is deleted with DeleteFile.
func (s *Set) Create(num uint64, o sstable.WriterOptions) (sstable.Writer, string, error) {
	name := s.TableName(num)
	f, err := RoomyFS{s.o.FS}.Create(filepath.Join(s.o.Dir, name))
	if err != nil {
		return nil, "", err
	}
	o.Format, o.FileNum = s.o.Format, num
	if o.DirectIO {
		f = s.directWriter(f)
	}
	if o.Pace != nil {
		f = pacedFile{f, o.Pace}
	}
	return NewTableWriter(f, o), name, nil
}

// CountSkip counts a table that an iterator passed over because of its filter.
func (s *Set) CountSkip() { s.skipped.Add(1) }

// pacedFile calls pace after each write.
type pacedFile struct {
	vfs.WriteFile
	pace func(bytes int64)
}

func (f pacedFile) Write(p []byte) (n int, err error) {
	n, err = f.WriteFile.Write(p)
	f.pace(int64(n))
	return n, err
}

// StartSync is that of the file, if it can.
func (f pacedFile) StartSync() error { return vfs.StartSync(f.WriteFile) }

// Abandon is that of the file, if it can.
func (f pacedFile) Abandon() error { return vfs.Abandon(f.WriteFile) }

// SetMaxOpenFiles changes the bound on this database's descriptors; 0: none of its own.
func (s *Set) SetMaxOpenFiles(n int) { s.owner.set(descriptors, n) }

// TableName is the name of a new table.
func (s *Set) TableName(num uint64) string { return s.o.Format.FileName(base.FileTable, num) }

// SyncDir makes the names of new tables durable.
func (s *Set) SyncDir() error { return s.o.FS.SyncDir(s.o.Dir) }

// Stats is a snapshot of a Set.
type Stats struct {
	Readers     int   // open readers
	ReaderBytes int64 // memory of their indexes, filters and slots
	MappedBytes int64 // of the files of open readers
	Descriptors int   // open descriptors of tables
	Pending     int   // files waiting for deletion
	Pinned      int   // obsolete files that a Pin keeps
	Failed      int   // files whose deletion failed and will be tried again
	Deleted     uint64
	Skipped     uint64 // tables that iterators passed over, see CountSkip
	Direct      uint64 // tables written or read by direct I/O
	NotDirect   uint64 // tables that should have been, and were not
}

// Stats counts what is open and what waits.
func (s *Set) Stats() Stats {
	var st Stats
	s.mu.Lock()
	st.Readers = len(s.open)
	for _, m := range s.open {
		if t, _ := m.Opened.Load().(*table); t != nil {
			st.ReaderBytes += t.reader.MemoryUsage()
			st.MappedBytes += t.file.mapped
		}
	}
	s.mu.Unlock()
	st.Skipped, st.Direct, st.NotDirect =
		s.skipped.Load(), s.direct.used.Load(), s.direct.refused.Load()
	descriptors.mu.Lock()
	st.Descriptors = s.owner.open + s.owner.held
	descriptors.mu.Unlock()
	s.queue.stats(&st)
	return st
}
