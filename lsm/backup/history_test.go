package backup_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// history is a random life of a folder with backups of two databases.
type history struct {
	t      *testing.T
	r      *rand.Rand
	mem    *vfs.Mem
	dbs    map[string]*lsm.DB
	folder *backup.Folder

	mu     sync.Mutex
	faulty int // one in so many calls of the folder fails; 0: none
	faults *rand.Rand

	made     map[uint64]content // backups that are there
	doubtful map[uint64]bool    // those of which a deletion failed
	lost     []content          // of creations that failed
	last     uint64             // the largest number seen
	n        int                // names given out
	count    map[string]int
	trace    []string
}

type content map[string]string

// TestHistories creates, keeps, deletes, verifies and restores backups at random, while calls of
// the file system fail with and without effect, beside power cuts, databases that are restored in
// place and checkpoints that take their place. What Create said is there has its contents until a
// deletion, and no longer; no number is given out twice; no file is left that no backup needs.
func TestHistories(t *testing.T) {
	for i := range seed.Scale(2, 6, 60) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			from := uint64(seed.Of(t))
			h := &history{t: t, r: rand.New(rand.NewPCG(from, 1)),
				faults: rand.New(rand.NewPCG(from, 2)), mem: vfs.NewMem(),
				made: map[uint64]content{}, doubtful: map[uint64]bool{}, count: map[string]int{}}
			h.open()
			for range 60 {
				h.step()
				h.check()
				if t.Failed() {
					t.Fatal(strings.Join(h.trace, "\n"))
				}
			}
			h.end()
			t.Log(h.count)
		})
	}
}

func (h *history) hook(op vfs.Op) (out vfs.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.faulty == 0 || op.Kind == vfs.OpLock || h.faults.IntN(h.faulty) != 0 {
		return out
	}
	out.Err = []error{syscall.EIO, syscall.EIO, syscall.ENOSPC, syscall.EMFILE}[h.faults.IntN(4)]
	out.Done = h.faults.IntN(2) == 0
	h.trace = append(h.trace, fmt.Sprintf("%v: %v %v", op, out.Err, out.Done))
	if op.N > 0 {
		out.Short = h.faults.IntN(int(op.N) + 1)
	}
	return out
}

// fail has calls fail until it is called with 0.
func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trace = append(h.trace, fmt.Sprintf(format, args...))
}

func (h *history) fail(faulty int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faulty = faulty
}

func (h *history) open() {
	h.dbs = map[string]*lsm.DB{}
	for _, name := range []string{"a", "b"} {
		h.dbs[name] = mustOpen(h.t, name, small(h.mem))
	}
	h.openFolder()
}

func (h *history) openFolder() {
	fsys := vfs.NewFault(h.mem, h.hook)
	if h.r.IntN(3) == 0 {
		h.fail(1 + h.r.IntN(60))
		f, err := backup.Open("backups", &backup.Options{FS: fsys})
		h.fail(0)
		if err == nil {
			h.count["opened beside faults"]++
			_ = f.Close()
		}
	}
	h.folder = mustFolder(h.t, "backups", fsys)
}

func (h *history) db() (string, *lsm.DB) {
	name := []string{"a", "b"}[h.r.IntN(2)]
	return name, h.dbs[name]
}

func (h *history) id() uint64 {
	ids := []uint64{h.last + 1}
	for id := range h.last + 1 {
		if _, ok := h.made[id]; ok {
			ids = append(ids, id, id, id)
		}
	}
	return ids[h.r.IntN(len(ids))]
}

func (h *history) step() {
	name, db := h.db()
	if h.r.IntN(2) == 0 {
		h.fail(1 + h.r.IntN(60))
	}
	defer h.fail(0)
	switch n := h.r.IntN(20); {
	case n < 6:
		h.write(db)
	case n < 12:
		h.create(db)
	case n < 14:
		h.delete()
	case n < 15:
		h.keep()
	case n < 16:
		id := h.id()
		_, there := h.made[id]
		err := h.folder.Verify(ctx, id, nil)
		if h.faulty == 0 && (err == nil) != there && !h.doubtful[id] {
			h.t.Errorf("verifying %d: %v", id, err)
		}
		h.count["verify"]++
	case n < 17:
		h.restore(h.id())
	case n < 18:
		h.inPlace(name)
	case n < 19:
		h.fail(0)
		must(h.t, h.folder.Close())
		h.openFolder()
	default:
		h.cut()
	}
}

func (h *history) write(db *lsm.DB) {
	from := h.r.IntN(3000)
	for i := from; i < from+1+h.r.IntN(600); i++ {
		must(h.t, db.Put(key(i), fmt.Appendf(value(i), "-%d", h.r.IntN(10)), lsm.NoSync))
	}
	if h.r.IntN(3) == 0 {
		must(h.t, db.CompactRange(nil, nil))
	}
	must(h.t, db.Write(lsm.NewBatch(), lsm.Sync))
}

func (h *history) create(db *lsm.DB) {
	want := content(dump(h.t, db))
	info, err := h.folder.Create(ctx, db, nil)
	h.note("create %d: %v", info.ID, err)
	if err != nil {
		h.count["create failed"]++
		h.lost = append(h.lost, want)
		return
	}
	h.count["create"]++
	if info.ID <= h.last {
		h.t.Errorf("backup %d after %d", info.ID, h.last)
	}
	h.last = info.ID
	h.made[info.ID] = want
}

func (h *history) delete() {
	id := h.id()
	_, there := h.made[id]
	err := h.folder.Delete(id)
	h.note("delete %d: %v", id, err)
	switch {
	case err == nil && !there:
		h.t.Errorf("deleted %d, which is not there", id)
	case err == nil || h.doubtful[id] && errors.Is(err, lsm.ErrDoesNotExist):
		delete(h.made, id)
		delete(h.doubtful, id)
		h.count["delete"]++
	case there && h.faulty == 0 && !h.doubtful[id]:
		h.t.Errorf("deleting %d: %v", id, err)
	case there:
		h.doubtful[id] = true
		h.count["delete failed"]++
	}
}

func (h *history) keep() {
	n := h.r.IntN(4)
	list, err := h.folder.List()
	must(h.t, err)
	err = h.folder.Keep(n)
	h.note("keep %d: %v", n, err)
	if err != nil && h.faulty == 0 {
		h.t.Error(err)
	}
	h.count["keep"]++
	kept := map[string]int{}
	for i := len(list) - 1; i >= 0; i-- {
		id := list[i].ID
		if kept[list[i].Database]++; kept[list[i].Database] <= n {
			continue
		}
		if err == nil {
			delete(h.made, id)
			delete(h.doubtful, id)
		} else if h.made[id] != nil {
			h.doubtful[id] = true
		}
	}
}

func (h *history) restore(id uint64) {
	h.n++
	to := fmt.Sprint("copy", h.n)
	err := h.folder.Restore(ctx, id, to, nil)
	if err != nil {
		if h.faulty == 0 && h.made[id] != nil && !h.doubtful[id] {
			h.t.Errorf("restoring %d: %v", id, err)
		}
		if _, serr := h.mem.Stat(to); serr == nil && len(tree(h.t, h.mem, to)) > 0 &&
			!strings.Contains(err.Error(), "stays") {
			h.t.Errorf("of backup %d there is %v, after %v", id, tree(h.t, h.mem, to), err)
		}
		h.count["restore failed"]++
		return
	}
	h.same(to, h.made[id], id)
	h.count["restore"]++
}

// same compares a database with a model, and destroys it.
func (h *history) same(dir string, want content, id uint64) {
	h.t.Helper()
	o := small(h.mem)
	db := mustOpen(h.t, dir, o)
	if got := content(dump(h.t, db)); !maps.Equal(got, want) {
		h.t.Errorf("backup %d has %d entries, want %d", id, len(got), len(want))
	}
	must(h.t, db.Close())
	must(h.t, lsm.Destroy(dir, o))
}

// inPlace puts a backup of a database, or a checkpoint of the other one, in its place.
func (h *history) inPlace(name string) {
	h.fail(0)
	h.n++
	from := fmt.Sprint("next", h.n)
	if h.r.IntN(2) == 0 {
		must(h.t, h.dbs["ab"[1-strings.Index("ab", name):][:1]].Checkpoint(ctx, from))
		h.count["checkpoint in place"]++
	} else {
		id := h.id()
		if h.made[id] == nil || h.doubtful[id] {
			return
		}
		must(h.t, h.folder.Restore(ctx, id, from, nil))
		h.count["restored in place"]++
	}
	must(h.t, h.dbs[name].Close())
	must(h.t, lsm.Destroy(name, small(h.mem)))
	_ = h.mem.Remove(path.Join(name, "LOCK"))
	_ = h.mem.Remove(name)
	must(h.t, h.mem.Rename(from, name))
	must(h.t, h.mem.SyncDir("."))
	h.dbs[name] = mustOpen(h.t, name, small(h.mem))
}

// cut takes the power away.
func (h *history) cut() {
	h.fail(0)
	keep := []vfs.CrashOptions{vfs.KeepAll(), vfs.DropAll(), vfs.RandomBlocks(h.r)}[h.r.IntN(3)]
	after := h.mem.CrashClone(keep)
	must(h.t, h.folder.Close())
	for _, db := range h.dbs {
		must(h.t, db.Close())
	}
	h.mem = after
	h.open()
	h.count["cut"]++
	h.note("cut")
	for id := range h.doubtful { // it is there or not, from now on
		if h.folder.Verify(ctx, id, nil) != nil {
			delete(h.made, id)
		}
		delete(h.doubtful, id)
	}
}

// check compares the list with the model.
func (h *history) check() {
	h.t.Helper()
	h.fail(0)
	list, err := h.folder.List()
	must(h.t, err)
	listed := map[uint64]bool{}
	for _, info := range list {
		listed[info.ID] = true
		if info.Err != nil {
			h.t.Errorf("%+v", info)
		}
		if h.made[info.ID] == nil {
			h.found(info.ID)
		}
	}
	for id := range h.made {
		if !listed[id] && !h.doubtful[id] {
			h.t.Errorf("backup %d of %d is not in the list", id, h.last)
		}
	}
}

// found takes a backup whose creation failed: a cut brought it back, whole.
func (h *history) found(id uint64) {
	h.n++
	to := fmt.Sprint("found", h.n)
	must(h.t, h.folder.Restore(ctx, id, to, nil))
	db := mustOpen(h.t, to, small(h.mem))
	got := content(dump(h.t, db))
	must(h.t, db.Close())
	must(h.t, lsm.Destroy(to, small(h.mem)))
	known := false
	for _, c := range h.lost {
		known = known || maps.Equal(c, got)
	}
	if !known {
		h.t.Errorf("backup %d was never made", id)
	}
	h.made[id] = got
	h.last = max(h.last, id)
	h.count["found"]++
}

// end restores every backup, and deletes all.
func (h *history) end() {
	must(h.t, h.folder.Close())
	h.folder = mustFolder(h.t, "backups", h.mem)
	for id := range h.doubtful {
		if h.folder.Verify(ctx, id, nil) != nil {
			delete(h.made, id)
		}
	}
	clear(h.doubtful)
	h.check()
	for id := range h.made {
		h.restore(id)
	}
	must(h.t, h.folder.Keep(0))
	if names := objects(h.t, h.mem, "backups"); len(names) > 0 {
		h.t.Errorf("left are %q", names)
	}
	must(h.t, h.folder.Close())
	for _, db := range h.dbs {
		must(h.t, db.Close())
	}
}
