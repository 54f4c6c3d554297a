package transfer

import (
	"context"
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/backup"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
)

// Export copies the database in dir into a new one in the directory to; see lsm.Export. src and
// dst say how the two are opened.
func Export(ctx context.Context, dir, to string, src, dst store.Options,
	progress func(written, of uint64)) error {
	if ctx == nil {
		return base.Invalidf("Export needs a context")
	}
	dir, err := vfs.Absolute(src.FS, dir)
	if err != nil {
		return err
	}
	if to, err = vfs.Absolute(dst.FS, to); err != nil {
		return err
	}
	from, err := store.Open(dir, src)
	if err != nil {
		return err
	}
	x := export{ctx: ctx, from: from, to: to, opts: dst, progress: progress}
	return errors.Join(base.Protect(x.run), from.Close())
}

type export struct {
	ctx      context.Context
	from     *store.DB
	to       string
	opts     store.Options // of the new database
	progress func(written, of uint64)
}

func (x *export) run() (err error) {
	place := x.from.Place()
	if _, err := fileid.Outside(place.FS, x.to, place.Dir, "the database"); err != nil {
		return err
	}
	of, err := checkExport(x.from, x.opts.Format)
	if err != nil {
		return err
	}
	return backup.Make(x.opts.FS, x.to, !x.opts.NoCreateDirs, x.from.Health().Warn,
		func(s *backup.Stage) (backup.Content, error) {
			db, err := store.Open(s.Dir(), x.opts)
			if err != nil {
				return nil, err
			}
			err = base.Protect(func() error { return x.copyTo(db, of) })
			made, terr := tables(db)
			if err = errors.Join(err, terr, db.Close()); err == nil {
				err = x.look(s)
			}
			return made, err
		})
}

// look makes the files of the closed database the stage's own, and sees that they are a database.
func (x *export) look(s *backup.Stage) error {
	names, err := DatabaseFiles(x.opts.FS, s.Dir())
	if err == nil {
		err = s.Note(names)
	}
	if err != nil {
		return err
	}
	return Check(s.Dir(), x.opts)
}

// DatabaseFiles lists the files in dir that a database needs, whatever it needs them for.
func DatabaseFiles(fsys vfs.FS, dir string) (needed []string, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	cur, err := current.Read(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		switch t, _ := cur.Format.ParseFileName(name); t {
		case base.FileTable, base.FileLog, base.FileManifest, base.FileValues:
			needed = append(needed, name)
		}
	}
	return append(needed, cur.File), nil
}

// Check opens the database in dir, reading only, and each table of it. It does not read their
// entries. A call that made the database asks it last: another program may have been at work there.
func Check(dir string, o store.Options) error {
	o.ReadOnly, o.ErrorIfExists, o.ErrorIfMissing, o.Upgrade = true, false, true, false
	db, err := store.Open(dir, o)
	if err != nil {
		return err
	}
	opened := base.Protect(func() error {
		return eachTable(db, func(m *manifest.FileMeta) error {
			_, err := db.Files().Reader(m)
			return err
		})
	})
	return errors.Join(opened, db.Close())
}

// eachTable calls f with each table of each keyspace, until f fails.
func eachTable(db store.Host, f func(m *manifest.FileMeta) error) error {
	all, err := db.Keyspaces().All(func([]*store.Keyspace) {})
	if err != nil {
		return err
	}
	for _, k := range all {
		if err := eachTableOf(k, f); err != nil {
			return err
		}
	}
	return nil
}

func eachTableOf(k *store.Keyspace, f func(m *manifest.FileMeta) error) error {
	v := k.Version()
	defer v.Unref()
	for _, m := range v.Tables() {
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}

// tables are the files of a database's tables.
func tables(db store.Host) (backup.Content, error) {
	files := backup.Content{}
	err := eachTable(db, func(m *manifest.FileMeta) error {
		files[m.Name()] = int64(m.Size)
		return nil
	})
	return files, err
}

// copyTo writes all entries into tables of db.
func (x *export) copyTo(db store.Host, of uint64) error {
	s, err := NewState(x.from, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	w := NewWriter(x.ctx, db, func(written uint64) {
		if x.progress != nil {
			x.progress(written, of)
		}
	})
	if err := s.Copy(x.ctx, w); err != nil {
		return err
	}
	return w.Flush()
}

// checkExport says what of a database cannot be written in a format, and how many bytes its
// tables have.
func checkExport(db store.Host, format base.Format) (bytes uint64, err error) {
	all, err := db.Keyspaces().All(func([]*store.Keyspace) {})
	if err != nil {
		return 0, err
	}
	for _, k := range all {
		if format == base.LevelDB {
			if k.ID() != base.DefaultKeyspace {
				return 0, base.Invalidf("LevelDB's format has no keyspaces, and the database has "+
					"%q", k.Tree.Name())
			}
			if k.Tree.Expires() {
				return 0, base.Invalidf("values of the database expire, and in LevelDB's format " +
					"they would stay: put them again without a time to live, or wait until they " +
					"have expired; then call CompactRange")
			}
		}
		n, err := checkExportIn(k, format)
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// checkExportIn is checkExport of one keyspace.
func checkExportIn(k *store.Keyspace, format base.Format) (bytes uint64, err error) {
	v := k.Version()
	defer v.Unref()
	for _, f := range v.Tables() {
		for kind := base.Kind(0); f.Kinds>>kind != 0; kind++ {
			if format == base.LevelDB && f.Kinds>>kind&1 != 0 && !kind.InLevelDB() &&
				kind != base.KindValueHandle { // whose values are read
				return 0, base.Invalidf("%s has entries of kind %d, which LevelDB's format "+
					"does not have", f.Name(), kind)
			}
		}
	}
	return v.Size() + v.ValueBytes(), nil
}
