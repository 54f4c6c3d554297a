package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
)

// defaultMaxManifestSize is the size, in bytes, above which a MANIFEST is
// replaced by a snapshot.
const defaultMaxManifestSize = 4 << 20

// Options configures a Set.
type Options struct {
	FS       vfs.FS
	Dir      string
	Comparer *base.Comparer
	// MaxManifestSize is when a MANIFEST is replaced, in bytes; it may grow to
	// twice the size of its snapshot in any case. 0 means 4 MiB.
	MaxManifestSize int64
	// Format is the format of a new database. One that is there keeps its own.
	Format base.Format
	// Upgrade makes Load turn a LevelDB directory into a native one, see BeginUpgrade.
	Upgrade bool
	// Comparers finds the comparers of keyspaces by name, nil for unknown ones; nil
	// knows Comparer alone.
	Comparers func(name string) *base.Comparer
	// Durable, if set, is up to where the logs are known to be durable. Each edit of a
	// native MANIFEST says it.
	Durable func() record.LogEnd
	// Clock, if set, returns the newest time at which an entry was treated as expired, or 0. Each
	// edit of a native MANIFEST says it.
	Clock func() uint64
	// SideBySide makes two syncs that need no order at the same time. Without it they have one, and
	// end with the first that fails.
	SideBySide bool
	// Obsolete, if set, is told once of each table that no Version has any
	// more. It is called on the goroutine that gave up the last reference, with
	// no lock of this package held.
	Obsolete func(*FileMeta)
	// ObsoleteLog, if set, is called for a released log, or for a value file, when the last table
	// that referred to it is in no Version any more. It is called as Obsolete is.
	ObsoleteLog func(base.ValueFile)
}

// Set is the MANIFEST of an open database and the Versions made from it.
type Set struct {
	// Constant after construction.
	opts     Options
	format   base.Format // of new MANIFESTs
	found    base.Format // of the MANIFEST that Load read
	readOnly bool
	reach    uint64 // see ParseOwnName
	// Files with names of the other format are the database's if an upgrade left them: in
	// a native directory LevelDB's with smaller numbers than levelDBBelow, in a LevelDB one
	// native ones if the mark of an unfinished upgrade is there: an upgrade begins only
	// where there are no others. 0: there are none.
	levelDBBelow uint64
	durable      record.LogEnd // as the MANIFEST said that was read
	clock        uint64        // the same
	unfinished   bool

	nextFile   atomic.Uint64
	lastSeq    atomic.Uint64
	logNum     atomic.Uint64
	prevLogNum atomic.Uint64
	manifest   atomic.Uint64 // number of the MANIFEST in force

	mu       sync.Mutex // held over I/O; taken before versions.mu
	log      *record.Writer
	num      uint64 // log's number
	limit    int64  // size at which log is replaced
	err      error  // sticky: why nothing can be written any more
	broken   error  // a shortage: the next edit goes into a new MANIFEST
	spans    bool   // the last edit is not synced, and reaches into another page
	maxID    base.KeyspaceID
	buf      []byte
	obsolete []string // MANIFESTs that CURRENT no longer names

	versions struct {
		sync.Mutex
		keyspaces map[base.KeyspaceID]*keyspace // changed with mu held, too
		live      map[uint64]*FileMeta          // tables of all versions still referenced
		values    valueLogs                     // that live refers to
	}
}

func (o *Options) ensureDefaults() error {
	if o.FS == nil || o.Comparer == nil {
		return base.Invalidf("manifest needs a file system and a comparer")
	}
	if o.MaxManifestSize <= 0 {
		o.MaxManifestSize = defaultMaxManifestSize
	}
	return nil
}

// New makes the Set of an empty database in a directory that exists; StartManifest
// writes its MANIFEST and CURRENT. It fails with base.ErrExists when there is a
// CURRENT.
func New(o Options) (*Set, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", o.Dir, err)
	}
	if _, err := current.Read(o.FS, o.Dir); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("%w: %s has a CURRENT", base.ErrExists, o.Dir), err)
	}
	return FromState(o, &State{}, names)
}

// Load reads CURRENT and the MANIFEST that it names. It writes nothing: before the first Apply
// comes StartManifest. REQUIRES: owner.Check accepts the directory. Errors: base.ErrDoesNotExist
// when there is no database; base.ErrNotADatabase when it is another engine's;
// base.ErrComparerMismatch; *base.Corruption for damage, overlapping tables and tables that are
// missing.
func Load(o Options, readOnly bool) (*Set, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	names, err := o.FS.List(o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", base.ErrDoesNotExist, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", o.Dir, err)
	}
	cur, err := current.Read(o.FS, o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, current.CheckMissing(o.FS, o.Dir, names)
	}
	if err != nil {
		return nil, err
	}
	name := cur.Manifest
	o.Format = cur.Format
	if !slices.Contains(names, name) {
		return nil, cur.Missing()
	}
	res, err := ReadManifest(o.FS, o.Dir, name, o.Format)
	// With another comparer an intact database looks damaged: check that first.
	if err := res.State.checkComparer(o.Comparer); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if err := res.State.Complete(o.Format); err != nil {
		return nil, base.LocateCorruption(err, name, 0, res.Size)
	}
	if err := checkTables(&res.State, o.Format, name, names); err != nil {
		return nil, err
	}
	if err := checkValueLogs(&res.State, o.Format, name, names); err != nil {
		return nil, err
	}
	if err := CheckTorn(res, o.Format, name, names); err != nil {
		return nil, err
	}
	s, err := fromState(o, readOnly, res, name, names)
	if err != nil || !o.Upgrade || readOnly || s.format == base.Native {
		return s, err
	}
	return s, s.upgrade(names)
}

// fromState makes the Set of a MANIFEST that was read.
func fromState(o Options, readOnly bool, res *ReadResult, name string,
	names []string) (*Set, error) {
	_, num := o.Format.ParseFileName(name)
	res.State.NextFile = max(res.State.NextFile, num+1)
	s, err := FromState(o, &res.State, names)
	if err != nil {
		return nil, base.LocateCorruption(err, name, 0, res.Size)
	}
	s.readOnly = readOnly
	s.manifest.Store(num)
	s.obsolete = append(s.obsolete, name)
	return s, nil
}

// FromState makes a Set that stands where st stands, in a directory with the
// files names. It writes nothing: StartManifest does.
func FromState(o Options, st *State, names []string) (*Set, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	s := &Set{opts: o, format: o.Format, found: o.Format, maxID: st.MaxKeyspace,
		levelDBBelow: st.LevelDBBelow, durable: st.Durable, clock: st.Clock}
	s.versions.keyspaces = make(map[base.KeyspaceID]*keyspace)
	s.nextFile.Store(max(st.NextFile, 1))
	s.MarkFileNumUsed(st.LogNum)
	s.MarkFileNumUsed(st.PrevLogNum)
	s.logNum.Store(st.LogNum)
	s.prevLogNum.Store(st.PrevLogNum)
	s.lastSeq.Store(uint64(st.LastSeq))
	s.versions.live = make(map[uint64]*FileMeta, len(st.Files))
	s.unfinished = s.format == base.LevelDB && slices.Contains(names, current.UpgradeName)
	for _, k := range st.Keyspaces() {
		if err := s.begin(k); err != nil {
			return nil, err
		}
	}
	s.reach = st.Reach()
	s.markNames(names)
	if next := s.nextFile.Load(); next > base.MaxFileNum-numReach {
		return nil, base.Corruptf(kindManifest, "the next file number is %d, which leaves too few",
			next)
	}
	return s, nil
}

// checkTables looks for the live tables among the names, and notes how they are named.
func checkTables(st *State, format base.Format, manifest string, names []string) error {
	live := st.Files
	if len(st.Others) > 0 {
		live = maps.Collect(st.tables())
	}
	may := func(t base.TableNaming, num uint64) bool {
		return slices.Contains(format.TableNamings(), t) || num < st.LevelDBBelow
	}
	n, last := 0, uint64(math.MaxUint64)
	for _, name := range names { // all names of a table stand side by side
		t, num, ok := base.ParseTableName(name)
		f := live[num]
		if !ok || f.Meta == nil || !may(t, num) || num == last && t != base.NamedLoam {
			continue
		}
		if f.Meta.Naming = t; num != last {
			n, last = n+1, num
		}
	}
	if n == len(live) {
		return nil
	}
	missing := AddedFile{Meta: &FileMeta{Num: math.MaxUint64}}
	for num, f := range live {
		there := slices.ContainsFunc([]base.TableNaming{base.NamedLDB, base.NamedSST,
			base.NamedLoam}, func(t base.TableNaming) bool {
			_, ok := slices.BinarySearch(names, t.Name(num))
			return ok && may(t, num)
		})
		if !there && num < missing.Meta.Num {
			missing = f
		}
	}
	return base.Corruptf(kindManifest, "the table is missing (%d of %d are), but %s lists it in "+
		"level %d", len(live)-n, len(live), manifest, missing.Level).At(
		format.FileName(base.FileTable, missing.Meta.Num), -1, 0)
}

// CheckTorn tells a torn last edit, which was never acknowledged, from a damaged one that was.
// After an edit was acknowledged, the logs before it are deleted. So if the log that the state
// before the edit needs is missing, the edit was acknowledged. names are those of the directory.
func CheckTorn(res *ReadResult, format base.Format, manifest string, names []string) error {
	if res.Torn == nil || res.State.LogNum == 0 {
		return nil
	}
	log := format.FileName(base.FileLog, res.State.LogNum)
	if _, ok := slices.BinarySearch(names, log); ok {
		return nil
	}
	return base.Corruptf(kindManifest, "the last edit is damaged (%s), and %s, needed without "+
		"it, is missing", res.Torn.Reason, log).At(manifest, res.Torn.Offset, res.Torn.Length)
}

// markNames reserves the numbers of files that exist, so that no new file
// collides with a left-over, and decides which names can be the database's.
func (s *Set) markNames(names []string) {
	upgraded := false
	for _, name := range names {
		t, n := s.ParseOwnName(name)
		if t != base.FileUnknown {
			s.MarkFileNumUsed(n)
		}
		own, _ := s.format.ParseFileName(name)
		upgraded = upgraded || t != own
	}
	if !upgraded && s.format == base.Native {
		s.levelDBBelow = 0 // all tables were renamed, and the rest is deleted
	}
	s.reach = s.nextFile.Load() + numReach
}

// Format is the format of the database.
func (s *Set) Format() base.Format { return s.format }

// Found is the format of the logs that Load found: LevelDB's in an upgrade.
func (s *Set) Found() base.Format { return s.found }

// NextFileNum is the number that NewFileNum returns next. No file with that
// number or a larger one is the database's.
func (s *Set) NextFileNum() uint64 { return s.nextFile.Load() }

// ParseOwnName parses a name if it can be that of a file of this database:
// its number is within reach. All other files belong to other programs, and are neither
// read nor deleted nor counted.
func (s *Set) ParseOwnName(name string) (t base.FileType, num uint64) {
	t, num = s.format.ParseFileName(name)
	if t == base.FileUnknown && s.format == base.Native {
		if t, num = base.LevelDB.ParseFileName(name); t == base.FileInfoLog ||
			num >= s.levelDBBelow {
			return base.FileUnknown, 0
		}
	} else if t == base.FileUnknown && s.unfinished {
		t, num = base.Native.ParseFileName(name)
	}
	if num >= s.reach {
		return base.FileUnknown, 0
	}
	return t, num
}

// NewFileNum hands out a number for a new file of any type.
func (s *Set) NewFileNum() uint64 {
	return s.nextFile.Add(1) - 1
}

// MarkFileNumUsed makes sure that n, which is at most base.MaxFileNum, is not handed
// out.
func (s *Set) MarkFileNumUsed(n uint64) { raise(&s.nextFile, n+1) }

// SetLastSeq raises the last sequence number, written with the next edit.
func (s *Set) SetLastSeq(seq base.SeqNum) { raise(&s.lastSeq, uint64(seq)) }

// raise sets a to at least v.
func raise(a *atomic.Uint64, v uint64) {
	for {
		old := a.Load()
		if old >= v || a.CompareAndSwap(old, v) {
			return
		}
	}
}

// LastSeq is the last sequence number used.
func (s *Set) LastSeq() base.SeqNum { return base.SeqNum(s.lastSeq.Load()) }

// Durable is up to where the logs of the last opening were durable, as far as its MANIFEST
// says.
func (s *Set) Durable() record.LogEnd { return s.durable }

// Clock is the newest time by which entries had expired in earlier openings, in seconds since
// 1970, as far as the MANIFEST says; 0: it says nothing.
func (s *Set) Clock() uint64 { return s.clock }

// LogNum is the number of the oldest log that any keyspace needs.
func (s *Set) LogNum() uint64 { return s.logNum.Load() }

// PrevLogNum is the number of one older log needed, or 0.
func (s *Set) PrevLogNum() uint64 { return s.prevLogNum.Load() }

// ManifestNum is the number of the MANIFEST that CURRENT names.
func (s *Set) ManifestNum() uint64 { return s.manifest.Load() }

// LiveFiles adds the numbers of the tables of all versions still referenced.
func (s *Set) LiveFiles(live map[uint64]struct{}) {
	s.versions.Lock()
	defer s.versions.Unlock()
	for n := range s.versions.live {
		live[n] = struct{}{}
	}
}

// Err is why the Set cannot be written any more, or nil. A shortage does not count: the
// next Apply or Mend may succeed.
func (s *Set) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// TakeObsolete returns the base names of MANIFESTs that are no longer needed
// and forgets them. They may be deleted at any time.
func (s *Set) TakeObsolete() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil || s.err != nil || s.broken != nil {
		return nil // one of them may be in force
	}
	names := s.obsolete
	s.obsolete = nil
	return names
}

// retire takes v, which has no reference any more, out of the list of versions.
// A file belongs to the versions from the one it was born in to the one that
// dropped it. So of the files that v was the last to have, those born after the
// next older version are in no version any more; that one has the others.
func (s *Set) retire(v *Version) {
	var gone []*FileMeta
	s.versions.Lock()
	if v.prev != nil {
		v.prev.next = v.next
	}
	if v.next != nil {
		v.next.prev = v.prev
	}
	for _, f := range v.dropped {
		if v.prev != nil && f.born <= v.prev.id {
			v.prev.dropped = append(v.prev.dropped, f)
			continue
		}
		delete(s.versions.live, f.Num)
		gone = append(gone, f)
	}
	logs := s.versions.values.remove(gone)
	v.prev, v.next, v.dropped = nil, nil, nil
	s.versions.Unlock()
	if s.opts.Obsolete != nil {
		for _, f := range gone {
			s.opts.Obsolete(f)
		}
	}
	if s.opts.ObsoleteLog != nil {
		for _, l := range logs {
			s.opts.ObsoleteLog(l)
		}
	}
}

// Close closes the MANIFEST. Versions stay usable; the tables of the current
// one never become obsolete.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.poison(base.ErrDatabaseClosed)
	if s.log == nil {
		return nil
	}
	err := s.log.Close()
	s.log = nil
	if err != nil && s.broken == nil { // otherwise it is that of the last edit, see fail and vouch
		return fmt.Errorf("closing %s: %w", s.format.FileName(base.FileManifest, s.num), err)
	}
	return nil
}

// fail notes that a write failed before anything relied on it. After a shortage
// the next write begins a new MANIFEST, because it is unknown how much of the edit is
// in this one. Any other error is final. s.mu is held.
func (s *Set) fail(err error) error {
	if errors.Is(err, current.ErrUnsynced) || !base.IsShortage(err) {
		return s.poison(err)
	}
	s.broken = err
	return err
}

// poison remembers the first error after which nothing may be written. s.mu is
// held.
func (s *Set) poison(err error) error {
	if s.err == nil {
		s.err = err
	}
	return err
}

func (s *Set) path(name string) string { return filepath.Join(s.opts.Dir, name) }
