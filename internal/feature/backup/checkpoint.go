package backup

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/wal"
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
	stage, err := NewStage(s.FS, to, false, s.Warn)
	if err != nil {
		return st, err
	}
	done := false
	defer func() { // also when a file system panics
		if !done {
			stage.Abort()
		}
	}()
	c := copier{src: s, fs: stage.fs, stop: stop, made: Content{}}
	img, err := s.capture()
	if err != nil {
		return st, err
	}
	defer img.pin.Release()
	if err := c.fill(img, stage.dir); err != nil {
		return c.stats, stage.explain(err)
	}
	err = stage.Commit(c.made)
	done = err == nil
	return c.stats, err
}

// target makes a path absolute and refuses those in the directory source, which what says
// the name of.
func target(fsys vfs.FS, dir, source, what string) (string, error) {
	if dir == "" {
		return "", fmt.Errorf("%w: a copy needs the name of a directory", base.ErrInvalidArgument)
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
	buf   []byte
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
	for i, l := range img.logs {
		if err := c.log(l, i == len(img.logs)-1, dir); err != nil {
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
	c.made[t.to] = int64(t.meta.Size)
	err := vfs.Link(c.fs, from, to)
	if err == nil {
		c.stats.TablesLinked++
		return nil
	}
	if !errors.Is(err, vfs.ErrCannotLink) {
		return err
	}
	sum, err := c.copyFile(from, to, int64(t.meta.Size))
	if err != nil {
		return fmt.Errorf("copying %s: %w", t.from, err)
	}
	if err := t.checkSum(sum); err != nil {
		return err
	}
	c.stats.TablesCopied++
	return nil
}

// log copies a log, or gives it a second name in dir if nothing is written to its file any
// more.
func (c *copier) log(l wal.Part, last bool, dir string) error {
	name := c.src.Format.FileName(base.FileLog, l.Num)
	from, to := c.src.path(name), filepath.Join(dir, name)
	c.made[name] = l.Size
	if !last && c.src.SyncFull(l.Num) {
		err := vfs.Link(c.fs, from, to)
		if !errors.Is(err, vfs.ErrCannotLink) {
			return err
		}
	}
	if _, err := c.copyFile(from, to, l.Size); err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	return nil
}

// copyChunk is how many bytes are copied at a time.
const copyChunk = 1 << 20

// copyFile makes a durable copy of the first size bytes of a file, and returns their checksum.
func (c *copier) copyFile(from, to string, size int64) (sum uint32, err error) {
	in, err := c.src.FS.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := c.fs.Create(to)
	if err != nil {
		return 0, err
	}
	sum, err = c.transfer(in, out, size)
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return sum, err
}

func (c *copier) transfer(in vfs.ReadFile, out vfs.WriteFile, size int64) (sum uint32, err error) {
	if c.buf == nil {
		c.buf = make([]byte, copyChunk)
	}
	for off := int64(0); off < size; {
		if err := c.stop(); err != nil {
			return 0, err
		}
		b := c.buf[:min(size-off, copyChunk)]
		in.Prefetch(off+int64(len(b)), copyChunk)
		if err := base.ReadFull(in, b, off); err != nil {
			return 0, err
		}
		sum = base.CRCUpdate(sum, b)
		if _, err := out.Write(b); err != nil {
			return 0, err
		}
		off += int64(len(b))
		c.stats.BytesCopied += uint64(len(b))
	}
	return sum, nil
}
