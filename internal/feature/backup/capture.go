package backup

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/store/wal"
)

// Source is an open database that is copied.
type Source struct {
	FS  vfs.FS // of Dir
	Dir string
	// Keys are those of FS, nil unless the database is encrypted. Its files are copied as they are
	// on disk, through FS below the encryption.
	Keys   *seal.Keys
	Format base.Format
	// Comparer is that of the default keyspace, Comparers knows those of all.
	Comparer  *base.Comparer
	Comparers func(name string) *base.Comparer
	Files     *files.Set
	// KeepKeyspaces runs f while no keyspace is created or dropped.
	KeepKeyspaces func(f func() error) error
	// HoldLogs keeps obsolete logs among Logs until release.
	HoldLogs func() (release func())
	// Logs lists the logs that are not obsolete, or are held, oldest first, at one moment without a
	// commit under way.
	Logs func() ([]wal.Part, error)
	// SyncFull makes a log but the last one durable, and tells whether its file does not
	// change any more.
	SyncFull func(num uint64) bool
	ReadOnly bool          // Logs are files that a crash may have torn
	Clock    func() uint64 // the newest time by which entries had expired, see manifest.Options
	Warn     func(what string, err error)
}

// image is one state of a database, and what holds its files.
type image struct {
	state  *manifest.State
	tables []table
	logs   []wal.Part
	values []whole       // logs and value files that only references need: they do not change
	end    record.LogEnd // up to where the copy's logs are whole
	pin    *files.Pin
}

// table is a table of an image.
type table struct {
	meta     *manifest.FileMeta
	from, to string // its names in the source and in the copy
	size     int64  // of the file
}

// capture takes the state of the moment. The caller releases its pin.
func (s *Source) capture() (*image, error) {
	// What the MANIFEST names when it is read was not obsolete when everything was pinned.
	all, err := s.Files.Pin()
	if err != nil {
		return nil, err
	}
	defer all.Release()
	img := &image{}
	if err := s.KeepKeyspaces(func() error { return s.read(img) }); err != nil {
		return nil, err
	}
	if err := s.locate(img); err != nil {
		return nil, err
	}
	img.pin, err = s.Files.Pin(img.names(s.Format)...)
	return img, err
}

// maxReads is how often a MANIFEST is read again that ended before its size. On FUSE a file that
// grows has its new size for fstat(2) a moment before its bytes for read(2).
const maxReads = 20

// read reads the MANIFEST and then takes the logs, so that no table has what the logs lack.
// Memtables are flushed meanwhile, so the logs that this MANIFEST needs are held.
func (s *Source) read(img *image) error {
	release := s.HoldLogs()
	defer release()
	cur, err := current.Read(s.FS, s.Dir)
	if err != nil {
		return err
	}
	// An edit that is being written may look torn: the state before it is as good.
	res, err := manifest.ReadManifest(s.FS, s.Dir, cur.Manifest, s.Format)
	for n := 0; n < maxReads && errors.Is(err, io.ErrUnexpectedEOF); n++ {
		time.Sleep(time.Millisecond)
		res, err = manifest.ReadManifest(s.FS, s.Dir, cur.Manifest, s.Format)
	}
	if err == nil {
		err = res.State.Complete(s.Format)
	}
	if err != nil {
		return err
	}
	logs, err := s.Logs()
	if err != nil {
		return err
	}
	st := &res.State
	img.state = st
	img.logs = slices.DeleteFunc(logs, func(l wal.Part) bool {
		return l.Num < st.LogNum && l.Num != st.PrevLogNum
	})
	for _, l := range st.ValueLogs() {
		if !l.InFile && slices.ContainsFunc(img.logs, func(p wal.Part) bool {
			return p.Num == l.Log
		}) {
			continue
		}
		name := l.File().FileName(s.Format)
		info, err := s.raw().Stat(s.path(name))
		if err != nil {
			return err
		}
		img.values = append(img.values, whole{name, info.Size()})
	}
	img.end = st.Durable
	if n := len(img.logs); n > 0 && !s.ReadOnly {
		img.end = record.LogEnd{Num: img.logs[n-1].Num, End: img.logs[n-1].Size}
	}
	return nil
}

// locate finds the names of the tables. An upgrade may have left names of LevelDB's, which
// native ones replace in the copy.
func (s *Source) locate(img *image) error {
	names, err := s.FS.List(s.Dir)
	if err != nil {
		return err
	}
	for _, k := range img.state.Keyspaces() {
		for num, f := range k.Files {
			namings := s.Format.TableNamings()
			if num < img.state.LevelDBBelow {
				namings = append(namings, base.LevelDB.TableNamings()...)
			}
			i := slices.IndexFunc(namings, func(t base.TableNaming) bool {
				_, ok := slices.BinarySearch(names, t.Name(num))
				return ok
			})
			if i < 0 {
				return base.Corruptf("manifest", "the table is missing").At(
					namings[0].Name(num), -1, 0)
			}
			t := table{meta: f.Meta, from: namings[i].Name(num), to: namings[i].Name(num),
				size: int64(f.Meta.Size)}
			if s.Format == base.Native {
				t.to = base.NamedLoam.Name(num)
			}
			if err := s.measure(&t); err != nil {
				return err
			}
			img.tables = append(img.tables, t)
		}
	}
	sort.Slice(img.tables, func(i, j int) bool {
		return img.tables[i].meta.Num < img.tables[j].meta.Num
	})
	return nil
}

// raw is FS below the encryption.
func (s *Source) raw() vfs.FS { return seal.Raw(s.FS) }

// measure sets the size of the file of an encrypted table, and refuses a file that was cut off: a
// link to it would be one, too.
func (s *Source) measure(t *table) error {
	info, err := s.raw().Stat(s.path(t.from))
	switch {
	case err != nil:
		return err
	case info.Size() < int64(t.meta.Size):
		return t.sizeWrong(info.Size())
	case s.Keys != nil:
		t.size = info.Size()
	}
	return nil
}

// checkSealed reads what is in the file of an encrypted table, and compares the checksum of that
// with the MANIFEST's, which does not know the bytes on disk.
func (s *Source) checkSealed(t *table, buf []byte, stop func() error) error {
	if s.Keys == nil {
		return nil
	}
	in, err := s.FS.Open(s.path(t.from))
	if err != nil {
		return err
	}
	defer in.Close()
	if in.Size() != int64(t.meta.Size) {
		return t.sizeWrong(in.Size())
	}
	sum := uint32(0)
	err = base.ReadChunks(in, in.Size(), buf, func(b []byte) error {
		sum = base.CRCUpdate(sum, b)
		return stop()
	})
	if err != nil {
		return err
	}
	return t.checkSum(sum)
}

// sizeWrong is the damage of a table's file of another size.
func (t *table) sizeWrong(size int64) error {
	return base.Corruptf("table file", "the file has %d bytes, the manifest says %d", size,
		t.meta.Size).At(t.from, 0, size)
}

// whole is a file that does not change.
type whole struct {
	name string
	size int64
}

// names lists the files of the source that the image needs.
func (img *image) names(f base.Format) []string {
	names := img.logNames(f)
	for _, t := range img.tables {
		names = append(names, t.from)
	}
	return append(names, base.CurrentName) // a Pin without names keeps everything
}

// logNames lists the logs, and the files that are needed for values only.
func (img *image) logNames(f base.Format) (names []string) {
	for _, v := range img.values {
		names = append(names, v.name)
	}
	for _, l := range img.logs {
		names = append(names, f.FileName(base.FileLog, l.Num))
	}
	return names
}

// writeManifest writes the image's MANIFEST and CURRENT into dir, which has the image's other
// files, or will have them. Both are durable then.
func (s *Source) writeManifest(img *image, fsys vfs.FS, dir string) error {
	names := img.logNames(s.Format)
	for _, t := range img.tables {
		names = append(names, t.to)
	}
	slices.Sort(names)
	if s.Keys != nil {
		fsys = seal.Over(fsys, dir, s.Keys)
	}
	set, err := manifest.FromState(manifest.Options{
		FS: fsys, Dir: dir, Format: s.Format, Comparer: s.Comparer, Comparers: s.Comparers,
		Durable: func() record.LogEnd { return img.end }, Clock: s.Clock,
	}, img.state, names)
	if err != nil {
		return err
	}
	return errors.Join(set.StartManifest(), set.Close())
}

// checkSum compares the checksum of a table's file with that of the MANIFEST, if it has one.
func (t *table) checkSum(sum uint32) error {
	if !t.meta.HasChecksum || sum == t.meta.Checksum {
		return nil
	}
	return base.Corruptf("table file", "the file has the checksum %08x, the manifest says %08x",
		sum, t.meta.Checksum).At(t.from, 0, int64(t.meta.Size))
}

func (s *Source) path(name string) string { return filepath.Join(s.Dir, name) }
