package lsm

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/memtable"
	"github.com/loamdb/loam/internal/record"
)

// WriteMode says what a write waits for. Modes are joined with |.
type WriteMode uint8

const (
	// NoSync returns when the write is in the kernel: it survives the death of
	// the process, not that of the machine. A power cut loses at most a suffix
	// of the unsynced writes, never one in the middle.
	NoSync WriteMode = 0
	// Sync returns when the write, and every write before it, is on disk.
	Sync WriteMode = 1
	// NoStall fails with ErrBusy where the write would have to wait for
	// flushes or compactions.
	NoStall WriteMode = 2
)

// Put sets key to value. Both are copied.
func (db *DB) Put(key, value []byte, mode WriteMode) error {
	if len(key) > maxBatchSize/2 || len(value) > maxBatchSize-len(key)-64 {
		return tooLarge("key and value", len(key)+len(value))
	}
	if err := db.writable(); err != nil {
		return err
	}
	return db.pipeline.Put(key, value, mode&Sync != 0, mode&NoStall != 0)
}

// Delete removes key, whether it exists or not.
func (db *DB) Delete(key []byte, mode WriteMode) error {
	if len(key) > maxBatchSize/2 {
		return tooLarge("key", len(key))
	}
	if err := db.writable(); err != nil {
		return err
	}
	return db.pipeline.Delete(key, mode&Sync != 0, mode&NoStall != 0)
}

// Write makes all operations of the batch take effect together. The batch may
// be larger than the write buffer and may be reused afterwards. An empty batch
// with Sync makes all earlier writes durable.
func (db *DB) Write(b *Batch, mode WriteMode) error {
	if b.err != nil {
		return b.err
	}
	if err := db.writable(); err != nil {
		return err
	}
	if b.Count() == 0 && mode&Sync == 0 {
		return nil
	}
	return db.pipeline.Commit(b.Bytes(), mode&Sync != 0, mode&NoStall != 0)
}

// WriteBytes is Write for a batch in wire form (Batch.Bytes, LevelDB's), which
// may come from outside: tags, lengths and count are checked first. The
// sequence number in its header is overwritten; nothing is copied or retained.
func (db *DB) WriteBytes(repr []byte, mode WriteMode) error {
	if err := batchrepr.Validate(repr); err != nil {
		return fmt.Errorf("%w: batch bytes: %w", ErrInvalidArgument, err)
	}
	if len(repr) > maxBatchSize {
		return tooLarge("batch", len(repr))
	}
	return db.Write(&Batch{repr: repr}, mode)
}

// apply inserts a batch into the current memtable. Commit leader only.
func (db *DB) apply(batch []byte, seq base.SeqNum) error {
	return db.view.Load().mem.Apply(batch, seq)
}

// publish makes everything up to seq visible. Commit leader only.
func (db *DB) publish(seq base.SeqNum) { db.visible.Store(uint64(seq)) }

// makeRoom sees to it that the memtable takes a group of so many bytes and
// entries: it delays the writer in proportion to the debt of the background,
// and rotates a full memtable. Commit leader only.
func (db *DB) makeRoom(bytes int64, entries int, noStall bool) error {
	if err := db.bg.delay(bytes, noStall); err != nil {
		return err
	}
	if db.view.Load().mem.Room(bytes, entries) {
		return nil
	}
	if err := db.bg.waitForRoom(noStall); err != nil {
		return err
	}
	if err := db.rotate(); err != nil {
		return err
	}
	if !db.view.Load().mem.Room(bytes, entries) {
		return tooLarge("group", int(bytes))
	}
	return nil
}

// rotate seals the memtable and starts another one with a log of its own. An
// empty memtable has room for any group. Commit leader only.
func (db *DB) rotate() error {
	old := db.view.Load().mem
	last := base.SeqNum(db.visible.Load())
	if err := db.wal.rotate(last); err != nil {
		db.fail(err)
		return *db.failure.Load()
	}
	fresh := memtable.New(memtable.Options{
		Comparer: db.cmp, Size: db.opts.WriteBufferSize, EntrySize: old.EntrySize(), Ordered: old.Iterated(),
	})
	defer fresh.Unref() // the view has its own reference
	db.mu.Lock()
	v := db.view.Load()
	imm := append([]*sealed{{table: old, wal: v.memWAL, last: last}}, v.imm...)
	v.version.Ref()
	db.setViewLocked(newView(fresh, db.wal.num, imm, v.version))
	db.mu.Unlock()
	db.bg.wake()
	return nil
}

// walQueue is the write-ahead log: the file being appended to, the next one
// standing ready, and older ones.
//
// A new log's first record is an empty batch that carries the sequence number
// with which the log begins. Recovery uses it to see that the tail of the log
// before was lost in a power cut, so that writes can go on at once after a
// rotation: a log may reach the disk before the one before it, but is then
// recognised as standing behind a hole, and nothing in it was acknowledged as
// synced, because sync waits for the older logs first.
//
// A full log that nobody synced rests: once its memtable is a table it need
// not reach the disk at all. Had somebody synced it, he will sync the next one
// too, and finds it done.
//
// All fields but resting and spare are guarded by the commit pipeline.
type walQueue struct {
	db     *DB
	cur    *record.Writer
	num    uint64
	synced bool // somebody synced since the rotation
	older  []*retiredWAL
	parts  [][]byte
	head   [batchrepr.HeaderLen]byte

	restMu  sync.Mutex // a leaf
	resting []*retiredWAL

	spareMu sync.Mutex // guards spare; held while a log is made, so that numbers ascend
	spare   *preparedWAL
}

type preparedWAL struct {
	w   *record.Writer
	num uint64
}

// retiredWAL is a full log, resting or on its way to the disk.
type retiredWAL struct {
	w    *record.Writer
	num  uint64
	done chan struct{}
	err  error // valid after done
}

// create makes a log whose directory entry is durable.
func (q *walQueue) create() (*preparedWAL, error) {
	num := q.db.manifest.NewFileNum()
	path := filepath.Join(q.db.dir, base.FileName(base.FileLog, num))
	l, err := q.db.opts.FS.CreateLog(path, max(q.db.opts.WALPreallocate, 0))
	if err != nil {
		return nil, fmt.Errorf("loam: creating log: %w", err)
	}
	if err := q.db.opts.FS.SyncDir(q.db.dir); err != nil {
		l.Close()
		return nil, fmt.Errorf("loam: creating log: %w", err)
	}
	return &preparedWAL{w: record.NewWriter(l), num: num}, nil
}

// prepare has the next log ready. Called by the background.
func (q *walQueue) prepare() {
	q.spareMu.Lock()
	defer q.spareMu.Unlock()
	if q.spare == nil {
		q.spare, _ = q.create() // the rotation tries again and reports
	}
}

// take returns the log that stands ready, or makes one.
func (q *walQueue) take() (*preparedWAL, error) {
	q.spareMu.Lock()
	defer q.spareMu.Unlock()
	if p := q.spare; p != nil {
		q.spare = nil
		return p, nil
	}
	return q.create()
}

// rotate starts the next log behind sequence number last.
func (q *walQueue) rotate(last base.SeqNum) error {
	next, err := q.take()
	if err != nil {
		return err
	}
	marker := batchrepr.Init(q.head[:0])
	batchrepr.SetSeq(marker, last+1)
	if err := next.w.Append(marker); err != nil {
		return fmt.Errorf("loam: writing log %06d: %w", next.num, err)
	}
	if q.cur != nil {
		q.retire()
	}
	q.cur, q.num = next.w, next.num
	return nil
}

// retire has the current log rest, or sends it to the disk.
func (q *walQueue) retire() {
	old := &retiredWAL{w: q.cur, num: q.num, done: make(chan struct{})}
	q.older = slices.DeleteFunc(q.older, func(o *retiredWAL) bool {
		select {
		case <-o.done:
			return o.err == nil
		default:
			return false
		}
	})
	if q.synced {
		q.synced = false
		q.send(old)
		return
	}
	q.restMu.Lock()
	q.resting = append(q.resting, old)
	q.restMu.Unlock()
}

// send syncs and closes a log on a goroutine of its own.
func (q *walQueue) send(old *retiredWAL) {
	q.older = append(q.older, old)
	go func() {
		defer close(old.done)
		defer func() {
			if r := recover(); r != nil {
				q.db.recovered(r, &old.err)
			}
		}()
		if old.err = old.w.Sync(); old.err != nil {
			q.db.fail(fmt.Errorf("loam: syncing log %06d: %w", old.num, old.err))
		}
		old.w.Close()
	}()
}

// rested takes the logs up to num off their rest.
func (q *walQueue) rested(num uint64) (logs []*retiredWAL) {
	q.restMu.Lock()
	defer q.restMu.Unlock()
	q.resting = slices.DeleteFunc(q.resting, func(o *retiredWAL) bool {
		if o.num <= num {
			logs = append(logs, o)
		}
		return o.num <= num
	})
	return logs
}

// forget closes the logs up to num, whose entries are in tables now. Any
// goroutine.
func (q *walQueue) forget(num uint64) {
	for _, o := range q.rested(num) {
		o.w.Close()
	}
}

// append writes one group as one record, so that it is recovered whole or not
// at all.
func (q *walQueue) append(group [][]byte) error {
	if len(group) == 1 {
		q.db.stats.walBytes.Add(int64(len(group[0])))
		return q.wrap("writing", q.cur.Append(group[0]))
	}
	copy(q.head[:], group[0][:batchrepr.HeaderLen])
	q.parts = append(q.parts[:0], q.head[:])
	n, size := uint32(0), 0
	for _, b := range group {
		n += batchrepr.Count(b)
		size += len(b)
		q.parts = append(q.parts, b[batchrepr.HeaderLen:])
	}
	q.db.stats.walBytes.Add(int64(size))
	batchrepr.SetCount(q.head[:], n)
	return q.wrap("writing", q.cur.AppendParts(q.parts...))
}

// sync makes everything appended so far durable, the older logs first.
func (q *walQueue) sync() error {
	q.synced = true
	for _, o := range q.rested(math.MaxUint64) {
		q.send(o)
	}
	for _, o := range q.older {
		<-o.done
		if o.err != nil {
			return q.wrap("syncing", o.err)
		}
	}
	q.older = q.older[:0]
	start := time.Now()
	err := q.cur.Sync()
	q.db.stats.walSync.Record(int64(time.Since(start)))
	return q.wrap("syncing", err)
}

func (q *walQueue) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("loam: %s log %06d: %w", doing, q.num, err)
	q.db.fail(err)
	return *q.db.failure.Load()
}

// close syncs and closes the log, waits for the older ones, and removes a log
// that was standing ready. Called once no commit can come any more.
func (q *walQueue) close() error {
	var err error
	if q.cur != nil {
		if q.db.failure.Load() == nil {
			err = q.sync()
		}
		q.cur.Close()
	}
	for _, o := range q.older {
		<-o.done
	}
	q.forget(math.MaxUint64) // after a failure
	if p := q.spare; p != nil {
		q.spare = nil
		p.w.Close()
		if e := q.db.opts.FS.Remove(filepath.Join(q.db.dir, base.FileName(base.FileLog, p.num))); err == nil {
			err = e
		}
	}
	return err
}
