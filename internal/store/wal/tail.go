package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
)

// ErrNotYet says that the logs have no further whole batch so far.
var ErrNotYet = record.ErrNotYet

// ErrLogGone says that a log was deleted, or has become another one, before it was read to its
// end: what follows is in tables.
var ErrLogGone = errors.New("the log is gone")

// Place is a place in the logs of a database: where a record ends, or the beginning of a log
// (Offset 0). It stays valid when the writer or the reader starts anew.
type Place struct {
	Log    uint64 // its number
	Offset int64
}

// TailOptions says which logs a Tail reads. All fields but Last are required.
type TailOptions struct {
	FS     vfs.FS
	Dir    string
	Format base.Format
	// Last is a sequence number that the reader has already: records with nothing newer are
	// passed over.
	Last base.SeqNum
}

// Tailed is one record of a log: a batch, or several that were committed as one, which nothing
// tells apart; see Set.Append.
type Tailed struct {
	// Batch is valid until the next call of Next.
	Batch []byte
	// First and Last are sequence numbers of its operations. Those up to the Last of the record
	// before were read already: a recovery carried them into another log.
	First, Last base.SeqNum
	Log         uint64
	Begin, End  int64 // where in the log
	Keyspaces   bool  // there are operations in others than the default one
	// Marked is the largest number that a marker before the batch has: where it is not that of the
	// next operation, records are missing. 0 in the native format, whose chunks tell that.
	Marked base.SeqNum
}

// Tail reads the batches of logs that another process, or this one, may be writing. It takes no
// lock, changes nothing and waits for nobody. It is for one goroutine at a time.
//
// The next log is one whose first chunk is whole: from then on nothing is appended to the log
// before, which is read to its end first. In the native format that chunk names the log before and
// where it ended; if it names none, it is that of a later opening, which found in the older logs
// what this reader finds. Sequence numbers may leave gaps: what is between was never in a log, or
// another reader's matter.
type Tail struct {
	o    TailOptions
	last base.SeqNum

	num  uint64
	at   int64      // where to begin in num; valid until cur is open
	cur  *openLog   // nil: not open
	next []*openLog // newer logs, ascending, not begun when they were last looked at
	seen directory  // when the directory was listed
	gone bool       // num was not among its names then

	keyspaces bool        // see Tailed, of the last record
	marked    base.SeqNum // see Tailed, of the next one
	settled   base.SeqNum // see Settled
}

// openLog is a log that is read.
type openLog struct {
	*record.Tail
	num  uint64
	file vfs.ReadFile
}

// directory is a listing's time.
type directory struct {
	listed   time.Time
	modified time.Time // of the directory; zero: not known
	since    time.Time // when it was first seen to be modified then
}

// NewTail returns a Tail whose first record is the one behind a place. It opens nothing yet.
func NewTail(o TailOptions, from Place) *Tail {
	return &Tail{o: o, last: o.Last, num: from.Log, at: from.Offset}
}

// Place is where the next record begins: after the last returned one.
func (t *Tail) Place() Place {
	if t.cur == nil {
		return Place{t.num, t.at}
	}
	return Place{t.num, t.cur.End()}
}

// Horizon is a place that is not before the end of what the logs have at present. It is found
// without reading them. Before the first record it fails with ErrNotYet.
func (t *Tail) Horizon() (Place, error) {
	if t.cur == nil {
		return Place{}, ErrNotYet
	}
	if err := t.list(); err != nil {
		return Place{}, err
	}
	newest := t.cur
	for _, l := range t.next {
		begun, _, err := t.begun(l)
		if err != nil {
			return Place{}, err
		}
		if begun {
			newest = l
		}
	}
	info, err := t.o.FS.Stat(filepath.Join(t.o.Dir, t.o.name(newest.num)))
	if errors.Is(err, fs.ErrNotExist) {
		return Place{Log: newest.num + 1}, nil // it was deleted: another one was begun
	}
	if err != nil {
		return Place{}, err
	}
	offset, err := newest.Reach(info.Size())
	return Place{newest.num, offset}, err
}

// Before reports whether p is before another place.
func (p Place) Before(other Place) bool {
	return p.Log < other.Log || p.Log == other.Log && p.Offset < other.Offset
}

// Close gives the descriptors back.
func (t *Tail) Close() error {
	t.at = t.Place().Offset
	err := t.cur.close()
	for _, l := range t.next {
		err = errors.Join(err, l.close())
	}
	t.cur, t.next, t.seen = nil, nil, directory{}
	return err
}

func (l *openLog) close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

func (o *TailOptions) name(num uint64) string { return o.Format.FileName(base.FileLog, num) }

// open opens log num, to be read from an offset on. If it is not there, errors.Is(err,
// fs.ErrNotExist) holds.
func (o *TailOptions) open(num uint64, at int64) (*openLog, error) {
	f, err := o.FS.Open(filepath.Join(o.Dir, o.name(num)))
	if err != nil {
		return nil, err
	}
	l := &openLog{num: num, file: f}
	if o.Format == base.Native {
		l.Tail = record.NewChainTail(f, o.name(num), num, at)
	} else {
		l.Tail = record.NewTail(f, o.name(num), at)
	}
	return l, nil
}

// openOwn is open of a log that the database wrote: it is damage if that is not a regular file.
func (o *TailOptions) openOwn(num uint64, at int64) (*openLog, error) {
	l, err := o.open(num, at)
	if errors.Is(err, vfs.ErrNotRegular) {
		err = notRegular(o.name(num))
	}
	return l, err
}

// Next returns the next record that has newer operations than those before. It fails with
// ErrNotYet, with ErrLogGone, with a *base.Corruption for more than a torn end, and with the
// file system's error. It may be called again after each of them, and goes on where it was.
func (t *Tail) Next() (Tailed, error) {
	for {
		rec, err := t.record()
		if err != nil {
			return Tailed{}, err
		}
		n := batchrepr.Count(rec)
		if first := batchrepr.Seq(rec); n > 0 && first+base.SeqNum(n)-1 > t.last {
			t.last = first + base.SeqNum(n) - 1
			marked := t.marked
			t.marked = 0
			return Tailed{Batch: rec, First: first, Last: t.last, Log: t.num, Begin: t.cur.Start(),
				End: t.cur.End(), Keyspaces: t.keyspaces, Marked: marked}, nil
		}
		if t.o.Format != base.Native && isMarker(rec) {
			t.mark(batchrepr.Seq(rec))
		}
	}
}

// mark takes a marker of LevelDB's format.
func (t *Tail) mark(next base.SeqNum) {
	if next == t.marked || t.cur.Start() == 0 {
		t.settled = max(t.settled, next)
	}
	t.marked = max(t.marked, next)
}

// Settled is a sequence number before which all is written, the edits of ingests in the MANIFEST
// included, as the markers say that were read; 0: none says so. A log begins with such a marker,
// and Set.Installed repeats one. Of the native format, whose MANIFEST has the numbers of ingests,
// it is 0.
func (t *Tail) Settled() base.SeqNum { return t.settled }

// record returns the next record, which is a batch.
func (t *Tail) record() ([]byte, error) {
	for {
		if t.cur == nil {
			l, err := t.o.openOwn(t.num, t.at)
			switch {
			case err == nil:
				t.cur = l
			case !errors.Is(err, fs.ErrNotExist):
				return nil, err
			default:
				if err := t.absent(); err != nil {
					return nil, err
				}
			}
		}
		rec, err := t.whole()
		if !errors.Is(err, ErrNotYet) {
			return rec, err
		}
		next, before, err := t.successor()
		if err != nil {
			return nil, err
		}
		if next == nil && !t.cur.Suspect() {
			return nil, ErrNotYet
		}
		// What was appended to this log before the next one began.
		if rec, err := t.whole(); !errors.Is(err, ErrNotYet) {
			return rec, err
		}
		if rec, err := t.examine(next, before); rec != nil || err != nil {
			return rec, err
		}
		if next == nil {
			return nil, ErrNotYet
		}
		if err := t.moveTo(next); err != nil {
			return nil, err
		}
	}
}

// whole returns the next record of the log, verified.
func (t *Tail) whole() ([]byte, error) {
	rec, err := t.cur.Next()
	if err != nil {
		return nil, err
	}
	known := func(base.KeyspaceID) bool {
		t.keyspaces = true
		return true
	}
	if t.o.Format != base.Native {
		known = nil
	}
	t.keyspaces = false
	if err := batchrepr.Validate(rec, known); err != nil {
		return nil, t.cur.Invalid(err)
	}
	return rec, nil
}

// absent is the error for a log that does not exist. For log 0 it moves to the first log that there
// is, and returns nil: LevelDB's MANIFEST has that number until it records a log, which is at the
// first flush if logs are reused.
func (t *Tail) absent() error {
	if err := t.list(); err != nil {
		return err
	}
	switch {
	case !t.gone || len(t.next) == 0:
		return ErrNotYet
	case t.num == 0:
		return t.moveTo(t.next[0])
	}
	return t.goneError()
}

func (t *Tail) goneError() error { return fmt.Errorf("%w: %s", ErrLogGone, t.o.name(t.num)) }

// successor returns the next log if it was begun, or nil, and its record of the previous log.
// It fails with ErrLogGone if this log is no more and no next one follows it.
func (t *Tail) successor() (*openLog, record.Predecessor, error) {
	none := record.Predecessor{}
	if err := t.list(); err != nil {
		return nil, none, err
	}
	for _, l := range t.next {
		switch begun, before, err := t.begun(l); {
		case err != nil:
			return nil, none, err
		case begun && before.Num != 0 && before.Num != t.num:
			return nil, none, t.goneError() // there was a log between them
		case begun:
			return l, before, nil
		}
	}
	if t.gone {
		return nil, none, t.goneError()
	}
	return nil, none, t.replaced()
}

// replaced returns ErrLogGone if the file of this log has become another one.
func (t *Tail) replaced() error {
	if t.o.Format != base.Native {
		return nil
	}
	_, gone, err := t.cur.ReadBegin()
	switch {
	case gone:
		return t.goneError()
	case errors.Is(err, ErrNotYet):
		return nil
	}
	return err
}

// begun reports whether a log was begun, and what its first chunk says of the log before.
func (t *Tail) begun(l *openLog) (begun bool, before record.Predecessor, err error) {
	if t.o.Format == base.Native {
		b, gone, err := l.ReadBegin()
		switch {
		case gone: // it was begun and is obsolete, and so is this one
			return false, before, t.goneError()
		case errors.Is(err, ErrNotYet):
			return false, before, nil
		}
		return err == nil, b.Before, err
	}
	var head [1 << 10]byte // until then a log has zeros at most
	n, err := l.file.ReadAt(head[:], 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return slices.ContainsFunc(head[:n], func(c byte) bool { return c != 0 }), before, err
}

// settle is how long it takes at most until a process sees what another one wrote before
// something that it has seen already.
const settle = 2 * time.Millisecond

// examine looks for damage at the end of this log, before next is read, which was begun behind
// before, or when it has not gone on for long if next is nil. It may find the next record instead.
func (t *Tail) examine(next *openLog, before record.Predecessor) (rec []byte, err error) {
	again := func(damage error) ([]byte, error) {
		time.Sleep(settle)
		if rec, err := t.whole(); !errors.Is(err, ErrNotYet) {
			return rec, err
		}
		if err := t.replaced(); err != nil {
			return nil, err
		}
		return nil, damage
	}
	if next != nil && t.o.Format == base.Native {
		if before.Num == t.num && before.End > t.cur.End() {
			damage := t.cur.Missing(before.End, next.num)
			if t.gone {
				damage = t.goneError()
			}
			return again(damage)
		}
		return nil, nil
	}
	size, err := t.size()
	if err != nil {
		return nil, err
	}
	resume, damage := t.cur.Examine(size)
	if !errors.Is(damage, base.ErrCorruption) {
		return nil, damage
	}
	if resume > 0 {
		end := t.cur.End()
		t.cur.Skip(resume)
		if rec, err := t.whole(); err == nil && batchrepr.Seq(rec) == t.last+1 {
			return rec, nil
		}
		t.cur.Skip(end)
	}
	return again(damage)
}

// size is how large the file of this log is now. It fails with ErrLogGone if there is none.
func (t *Tail) size() (int64, error) {
	info, err := t.o.FS.Stat(filepath.Join(t.o.Dir, t.o.name(t.num)))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, t.goneError()
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// moveTo goes on with the next log.
func (t *Tail) moveTo(next *openLog) error {
	err := t.cur.close()
	for len(t.next) > 0 && t.next[0] != next { // never begun
		err = errors.Join(err, t.next[0].close())
		t.next = t.next[1:]
	}
	t.next = t.next[1:]
	t.cur, t.num, t.at, t.gone, t.seen = next, next.num, 0, false, directory{}
	return err
}

const (
	// tick is more than the resolution of the times of directories.
	tick = 50 * time.Millisecond
	// listEvery is for file systems whose times are not to be relied on.
	listEvery = time.Second
	// maxNext bounds the logs that are looked at for the next one.
	maxNext = 64
	// relists bounds the listings in a row of which a log vanishes before it is opened.
	relists = 8
	// reach bounds how much larger the number of a log is than that of the one before. Other
	// files are not the database's; see manifest.Set.ParseOwnName.
	reach = 1 << 24
)

// list sets t.next to the logs with larger numbers than this one, and t.gone if this one has no
// name any more. It lists the directory only if that may have changed, as a reader without news
// calls it again and again.
//
// The directory's time of change tells, but not at once: two changes in one tick of the file
// system's clock have one time. A listing is reused if
//
//  1. the directory has the time of change that it had at the listing, and
//  2. the listing was taken more than a tick after that time was first seen: any later change got
//     another time, and
//  3. it is younger than listEvery: not all file systems keep that time.
//
// The numbers ascend, so that the candidates follow this log in the listing; maxNext and reach
// bound them. A candidate that is open already keeps its reader. Files of logs that are not listed
// any more are closed: their entries are in tables. A log that could not be opened is left out, and
// t.seen stays empty, so that the next call lists again.
//
// A log that vanished between the listing and its opening may have been the only one that follows
// this one in the listing: without it this log would look like the newest, and its end like the end
// of the logs. So the directory is listed again. If logs come and go faster than they are opened,
// this one is gone: a MANIFEST that needs no log behind it does not need it either.
func (t *Tail) list() error {
	now := time.Now()
	info, err := t.o.FS.Stat(t.o.Dir)
	if err != nil {
		return err
	}
	modified, since := info.ModTime(), now
	if modified.Equal(t.seen.modified) {
		since = t.seen.since
	}
	if s := &t.seen; !modified.IsZero() && modified.Equal(s.modified) &&
		s.listed.Sub(s.since) > tick && now.Sub(s.listed) < listEvery {
		return nil
	}
	for range relists {
		whole, vanished, err := t.relist()
		if err != nil || !vanished {
			if whole {
				t.seen = directory{listed: now, modified: modified, since: since}
			}
			return err
		}
	}
	return t.goneError()
}

// relist lists the directory whatever t.seen says. whole: all logs are open; vanished: one was
// listed, and was not there any more when it was opened.
func (t *Tail) relist() (whole, vanished bool, err error) {
	nums, err := Logs(t.o)
	if err != nil {
		return false, false, err
	}
	i, there := slices.BinarySearch(nums, t.num)
	t.gone = !there
	if there {
		i++
	}
	nums = nums[i:min(len(nums), i+maxNext)]
	var next []*openLog
	whole = true
	for _, num := range nums {
		if num > t.num+reach {
			break
		}
		j := slices.IndexFunc(t.next, func(l *openLog) bool { return l.num == num })
		if j >= 0 {
			next = append(next, t.next[j])
			t.next = slices.Delete(t.next, j, j+1)
			continue
		}
		l, err2 := t.o.open(num, 0)
		if err2 != nil {
			whole = false
			switch {
			case errors.Is(err2, fs.ErrNotExist):
				vanished = true
			case !errors.Is(err2, vfs.ErrNotRegular):
				err = err2
			}
			continue
		}
		next = append(next, l)
	}
	for _, l := range t.next { // what is left of the old list was deleted
		err = errors.Join(err, l.close())
	}
	t.next, t.seen = next, directory{}
	return whole, vanished, err
}

// Logs lists the numbers of the logs in the directory, ascending.
func Logs(o TailOptions) (nums []uint64, err error) {
	names, err := o.FS.List(o.Dir)
	for _, name := range names {
		if t, num := o.Format.ParseFileName(name); t == base.FileLog && num <= base.MaxFileNum {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	return nums, err
}

// FirstSeq is the sequence number that a log begins with. It fails with ErrNotYet for a log that
// was not begun, and with ErrLogGone for one that is missing or replaced.
func FirstSeq(o TailOptions, log uint64) (seq base.SeqNum, err error) {
	t := NewTail(o, Place{Log: log})
	defer func() { err = errors.Join(err, t.Close()) }()
	if t.cur, err = o.openOwn(log, 0); err != nil {
		t.cur = nil
		if errors.Is(err, fs.ErrNotExist) {
			err = t.goneError()
		}
		return 0, err
	}
	if err := t.replaced(); err != nil {
		return 0, err
	}
	rec, err := t.whole()
	if err != nil {
		return 0, err
	}
	return batchrepr.Seq(rec), nil
}
