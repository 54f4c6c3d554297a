package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

// copies are the steps that copy the database as it runs.
var copies = []step{
	{"checkpoint", 10, false, (*World).checkpoint},
	{"back up", 10, false, (*World).backUp},
	{"restore", 8, false, (*World).restore},
	{"dump", 8, false, (*World).dump},
	{"open a killed copy read-only", 8, false, (*World).peek},
}

// saved is a backup and what it has.
type saved struct {
	id     uint64
	m      state
	spaces []space // as they were
}

// visit opens a copy in dir, compares it with the model, and closes it, or moves into it.
func (w *World) visit(what, dir string) error {
	db, err := lsm.Open(dir, w.options(w.fs))
	if err != nil {
		return fmt.Errorf("open %s: %w", what, err)
	}
	if err := w.compare(what, db, w.m); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := db.Verify(context.Background(), nil); err != nil {
		return errors.Join(fmt.Errorf("verify %s: %w", what, err), db.Close())
	}
	if w.rng.IntN(3) > 0 {
		if err := db.Close(); err != nil {
			return err
		}
		return lsm.Destroy(dir, w.options(w.fs))
	}
	w.log("move into %s", dir)
	w.release()
	err = errors.Join(w.db.Close(), db.Close())
	w.dir = dir
	w.harden()
	return errors.Join(err, w.open(), w.all("in the copy"))
}

func (w *World) checkpoint() error {
	w.straighten()
	dir := w.name("checkpoint")
	if err := w.db.Checkpoint(context.Background(), dir); err != nil {
		return err
	}
	return w.visit("checkpoint", dir)
}

func (w *World) openFolder() (err error) {
	if w.folder == nil {
		w.folder, err = backup.Open("backups", &backup.Options{FS: w.fs})
	}
	return err
}

func (w *World) backUp() error {
	w.straighten()
	if err := w.openFolder(); err != nil {
		return err
	}
	ctx := context.Background()
	info, err := w.folder.Create(ctx, w.db, nil)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	b := saved{id: info.ID, m: w.m.clone()}
	for _, s := range w.spaces {
		b.spaces = append(b.spaces, *s)
	}
	if w.backups = append(w.backups, b); w.rng.IntN(3) == 0 {
		if err := w.folder.Verify(ctx, info.ID, nil); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	if len(w.backups) > 3 {
		i := w.rng.IntN(len(w.backups))
		id := w.backups[i].id
		w.backups = slices.Delete(w.backups, i, i+1)
		if err := w.folder.Delete(id); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		if err := w.folder.Keep(len(w.backups)); err != nil {
			return fmt.Errorf("keep: %w", err)
		}
	}
	list, err := w.folder.List()
	if err != nil || len(list) != len(w.backups) {
		return fmt.Errorf("a folder lists %d backups of %d, %w", len(list), len(w.backups), err)
	}
	return nil
}

// restore restores any backup, compares it with what the database had, and goes on there
// sometimes.
func (w *World) restore() error {
	if len(w.backups) == 0 {
		return nil
	}
	w.straighten()
	if err := w.openFolder(); err != nil {
		return err
	}
	b := choose(w.rng, w.backups...)
	dir := w.name("restored")
	w.log("restore %d", b.id)
	if err := w.folder.Restore(context.Background(), b.id, dir, nil); err != nil {
		return err
	}
	then := *w // the world as it was
	then.spaces, then.m = nil, b.m
	for i := range b.spaces {
		s := b.spaces[i]
		then.spaces = append(then.spaces, &s)
	}
	db, err := lsm.Open(dir, w.options(w.fs))
	if err != nil {
		return err
	}
	if err := then.compare("restored backup", db, b.m); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := db.Close(); err != nil || w.rng.IntN(4) > 0 {
		return err
	}
	w.log("move into %s", dir)
	w.release()
	if err := w.db.Close(); err != nil {
		return err
	}
	w.dir, w.m, w.spaces = dir, b.m.clone(), then.spaces
	w.rewrite()
	return errors.Join(w.open(), w.all("in the restored backup"))
}

// rewrite makes the bookkeeping of the model anew after another state took its place.
func (w *World) rewrite() {
	w.written = map[int][]int{}
	for life := range w.m {
		w.written[life] = make([]int, len(w.m[life]))
	}
	w.harden()
}

// dump writes a dump, verifies it, loads it into a new database, and compares that.
func (w *World) dump() error {
	w.straighten()
	ctx := context.Background()
	var out bytes.Buffer
	info, err := dump.Write(ctx, w.db, &out, nil)
	if err != nil {
		return err
	}
	written := io.Reader(bytes.NewReader(out.Bytes()))
	if keys := w.opts.Encryption; keys != nil {
		if written, err = dump.Decrypt(written, keys); err != nil {
			return err
		}
	}
	if _, err := dump.Verify(ctx, written, nil); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if len(info.Keyspaces) != len(w.living()) {
		return fmt.Errorf("a dump of %d keyspaces has %d", len(w.living()), len(info.Keyspaces))
	}
	dir := w.name("loaded")
	if err := dump.CheckPath(w.db, join(w.dir, "dump")); !errors.Is(err, lsm.ErrInvalidArgument) {
		return fmt.Errorf("a dump within the database: %w", err)
	}
	db, err := lsm.Open(dir, w.options(w.fs))
	if err != nil {
		return err
	}
	if _, err := dump.Load(ctx, db, bytes.NewReader(out.Bytes()), nil); err != nil {
		return errors.Join(fmt.Errorf("load: %w", err), db.Close())
	}
	for _, s := range w.living() {
		if s.life != defaultLife {
			if _, err := db.Keyspace(s.name, s.keyspaceOptions()); err != nil {
				return errors.Join(err, db.Close())
			}
		}
	}
	if err := errors.Join(w.compare("loaded dump", db, w.m), db.Close()); err != nil {
		return err
	}
	return w.visit("loaded dump, opened again", dir)
}

// peek opens what a kill would leave, read-only, and compares it.
func (w *World) peek() error {
	w.straighten()
	fs := w.fs.CrashClone(vfs.KeepAll())
	o := w.options(fs)
	o.ReadOnly = true
	db, err := lsm.Open(w.dir, o)
	if err != nil {
		return err
	}
	err = w.compare("killed copy, read-only", db, w.m)
	if !db.RecoveryReport().WasClean {
		err = errors.Join(err, fmt.Errorf("a kill left damage: %+v", db.RecoveryReport()))
	}
	if e := db.Put([]byte("k"), nil, lsm.NoSync); !errors.Is(e, lsm.ErrReadOnly) {
		err = errors.Join(err, fmt.Errorf("a put into a read-only database: %w", e))
	}
	return errors.Join(err, db.Close())
}

// follow opens a follower, or lets it catch up, and compares it.
func (w *World) follow() (err error) {
	w.straighten()
	ctx := context.Background()
	if w.follower == nil {
		if w.follower, err = lsm.OpenFollower(w.dir, w.options(w.fs)); err != nil {
			return fmt.Errorf("open: %w", err)
		}
	} else if err := w.follower.CatchUp(ctx); err != nil {
		return fmt.Errorf("catch up: %w", err)
	}
	if err := w.compare("follower", w.follower.DB, w.m); err != nil {
		return err
	}
	lag, err := w.follower.Lag(ctx)
	if err != nil || lag.Sequences != 0 {
		return fmt.Errorf("a follower that has caught up lags behind by %+v, %w", lag, err)
	}
	if w.rng.IntN(3) == 0 {
		w.dropFollower()
	}
	return nil
}

// feed is a feed of changes, and the state that it makes.
type feed struct {
	c      *lsm.Changes
	m      state
	spaces map[uint32]*space // by the number of the keyspace
	lives  map[uint32]int
}

// readFeed opens a feed at the present, or reads it to its end and compares what it made.
func (w *World) readFeed() error {
	if w.feed == nil {
		return w.openFeed(w.db.Metrics().LastSequence+1, w.m.clone())
	}
	f := w.feed
	for _, s := range w.living() {
		if s.ks != nil {
			f.spaces[s.ks.ID()], f.lives[s.ks.ID()] = s, s.life
		}
	}
	for {
		change, ok, err := f.c.TryNext()
		if errors.Is(err, lsm.ErrGap) && w.opts.WALRetentionBytes == 0 {
			w.dropFeed()
			return nil
		}
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		n := 0
		for o := range change.Operations() {
			n++
			s, life := f.spaces[o.KeyspaceID], f.lives[o.KeyspaceID]
			if s == nil {
				continue // created and dropped in between
			}
			if f.m[life] == nil {
				f.m[life] = make([]value, len(s.keys))
			}
			if err := f.take(s, life, o, w.now); err != nil {
				return err
			}
		}
		if change.Len() != n || change.Next() != change.Seq+uint64(n) {
			return fmt.Errorf("a change of %d operations has %d, its next one is %d from %d", n,
				change.Len(), change.Next(), change.Seq)
		}
	}
	for life := range w.m {
		if f.m[life] == nil {
			f.m[life] = make([]value, len(w.m[life]))
		}
	}
	if d := differ(f.m, w.m, w.now); d != "" {
		return errors.New(d)
	}
	return nil
}

func (w *World) openFeed(from uint64, m state) error {
	c, err := w.db.Changes(from, &lsm.ChangesOptions{})
	if err != nil {
		return err
	}
	w.feed = &feed{c: c, m: m, spaces: map[uint32]*space{0: w.spaces[0]},
		lives: map[uint32]int{0: defaultLife}}
	for _, s := range w.living() {
		if s.ks != nil {
			w.feed.spaces[s.ks.ID()], w.feed.lives[s.ks.ID()] = s, s.life
		}
	}
	return nil
}

// take applies an operation of a feed at a time. A merge into a value that had expired by its
// commit is handed out as a merge.
func (f *feed) take(s *space, life int, o lsm.Operation, now int64) error {
	values := f.m[life]
	index := func(key []byte) (int, error) {
		if o.Op == lsm.OpDeleteRange && s.order.cmp.Compare(key, []byte(s.order.top)) >= 0 {
			return len(s.keys), nil
		}
		return s.find(key)
	}
	i, err := index(o.Key)
	if err != nil {
		return err
	}
	switch o.Op {
	case lsm.OpPut:
		values[i] = value{ok: true, v: string(o.Value), due: deadline(o.Expires)}
	case lsm.OpDelete:
		values[i] = value{}
	case lsm.OpMerge:
		v := values[i].at(now)
		if v.ok {
			v.v += ","
		}
		values[i] = value{ok: true, v: v.v + string(o.Value), due: v.due}
	case lsm.OpDeleteRange:
		end, err := index(o.Value)
		if err != nil {
			return err
		}
		for ; i < end; i++ {
			values[i] = value{}
		}
	}
	return nil
}
