package backup

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Stats says what a copy is made of.
type Stats struct {
	TablesLinked uint64 // tables that it shares with the source
	TablesCopied uint64 // tables that were copied, because links do not reach there
	BytesCopied  uint64 // of tables and logs
}

// Checkpoint makes dir, which is on no path into the database, a database with the state of
// the moment. It is durable when Checkpoint returns; nothing is there if it failed. stop is asked
// now and then, and after the last read of the source: its error ends the call.
func (s *Source) Checkpoint(dir string, stop func() error) (st Stats, err error) {
	to, err := target(s.FS, dir, s.Dir, "the database")
	if err != nil {
		return st, err
	}
	c := copier{src: s, stop: stop, made: Content{}}
	err = Make(s.raw(), to, false, s.Warn, func(stage *Stage) (Content, error) {
		img, err := s.capture()
		if err != nil {
			return nil, err
		}
		defer img.pin.Release()
		c.fs = stage.fs
		return c.made, stage.explain(c.fill(img, stage.dir))
	})
	return c.stats, err
}

// target makes a path absolute and refuses those in the directory source, which what says
// the name of.
func target(fsys vfs.FS, dir, source, what string) (string, error) {
	if dir == "" {
		return "", base.Invalidf("a copy needs the name of a directory")
	}
	return fileid.Outside(fsys, dir, source, what)
}

// copier makes the files of one copy.
type copier struct {
	src   *Source
	fs    vfs.FS // of the copy's directory; has the source's, too
	stop  func() error
	made  Content
	stats Stats
}

// fill makes the files of the copy in dir. All are durable then, CURRENT last.
func (c *copier) fill(img *image, dir string) error {
	for i := range img.tables {
		if err := c.stop(); err != nil {
			return err
		}
		if err := c.table(&img.tables[i], dir); err != nil {
			return err
		}
	}
	for _, v := range img.values {
		if err := c.stop(); err != nil {
			return err
		}
		size := v.size
		if c.src.Keys != nil {
			size = vfs.WholeFile // Rekey may replace it
		}
		if err := c.logFile(v.name, size, true, dir); err != nil {
			return err
		}
	}
	for i, l := range img.logs {
		full := i < len(img.logs)-1 && c.src.SyncFull(l.Num)
		name := c.src.Format.FileName(base.FileLog, l.Num)
		if err := c.logFile(name, l.Size, full, dir); err != nil {
			return err
		}
	}
	// The end of the database gives up the files that were read.
	if err := c.stop(); err != nil {
		return err
	}
	if err := c.src.writeManifest(img, c.fs, dir); err != nil {
		return err
	}
	cur, err := current.Read(c.fs, dir)
	c.made[current.FileOf(c.src.Format)], c.made[cur.Manifest] = 1, 1
	return err
}

// table gives a table a second name in dir, or copies it.
func (c *copier) table(t *table, dir string) error {
	from, to := c.src.path(t.from), filepath.Join(dir, t.to)
	c.made[t.to] = int64(t.meta.Size) // at least
	err := vfs.Link(c.fs, from, to)
	if err == nil {
		c.stats.TablesLinked++
		return nil
	}
	if !errors.Is(err, vfs.ErrCannotLink) {
		return err
	}
	if err := c.copyTable(t, from, to); err != nil {
		return err
	}
	c.stats.TablesCopied++
	return nil
}

// copyTable copies a table and compares its checksum.
func (c *copier) copyTable(t *table, from, to string) error {
	size := int64(t.meta.Size)
	if c.src.Keys != nil {
		size = vfs.WholeFile
	}
	sum, err := c.copyFile(from, to, size)
	if err != nil {
		return fmt.Errorf("copying %s: %w", t.from, err)
	}
	if c.src.Keys != nil {
		buf := make([]byte, min(t.meta.Size, vfs.CopyChunk))
		return c.src.checkSealed(t, buf, c.stop)
	}
	return t.checkSum(sum)
}

// logFile copies a log or a value file, or gives it a second name in dir if it is full: nothing is
// written to its file any more.
func (c *copier) logFile(name string, size int64, full bool, dir string) error {
	from, to := c.src.path(name), filepath.Join(dir, name)
	c.made[name] = max(size, 0)
	if full {
		err := vfs.Link(c.fs, from, to)
		if !errors.Is(err, vfs.ErrCannotLink) {
			return err
		}
	}
	if _, err := c.copyFile(from, to, size); err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	return nil
}

// copyFile makes a durable copy of the first size bytes of a file, and returns their checksum.
func (c *copier) copyFile(from, to string, size int64) (sum uint32, err error) {
	err = vfs.Copy(c.src.raw(), from, c.fs, to, size, func(piece []byte) error {
		sum = base.CRCUpdate(sum, piece)
		c.stats.BytesCopied += uint64(len(piece))
		return c.stop()
	})
	return sum, err
}
