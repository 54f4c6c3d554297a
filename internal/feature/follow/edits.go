package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/owner"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Edits reads the MANIFEST of a database that another process may be writing. It changes nothing,
// and is for one goroutine at a time.
type Edits struct {
	fs  vfs.FS
	dir string

	current  current.Pointer
	modified time.Time // of the file that names the MANIFEST; zero: not known
	file     vfs.ReadFile
	edits    *record.Tail
	state    *manifest.State
	begun    int
	id       identity // of the MANIFEST
	damaged  bool     // the MANIFEST is read from its beginning again
	loaded   bool     // see takeLoaded
}

// NewEdits returns the Edits of the database in dir. It reads nothing yet.
func NewEdits(fsys vfs.FS, dir string) *Edits { return &Edits{fs: fsys, dir: dir} }

// Format is the format of the directory, as of the last Poll.
func (t *Edits) Format() base.Format { return t.current.Format }

// Begun is how many MANIFESTs have been begun. Every opening of the writer begins one.
func (t *Edits) Begun() int { return t.begun }

// State is what the edits so far add up to. It does not change any more.
func (t *Edits) State() *manifest.State { return t.state.Clone() }

// spaces tells the keyspaces of two states apart: IDs are never given out again.
type spaces struct {
	n      int
	newest base.KeyspaceID
}

// spaces are those of State.
func (t *Edits) spaces() spaces { return spaces{len(t.state.Others), t.state.MaxKeyspace} }

// oldestLog is that of State.
func (t *Edits) oldestLog() uint64 { return oldestLog(t.state) }

// takeLoaded reports whether an edit since the call before has a table of an ingest in LevelDB's
// format, whose entries have no sequence numbers.
func (t *Edits) takeLoaded() bool {
	loaded := t.loaded
	t.loaded = false
	return loaded
}

// Close gives the descriptor back.
func (t *Edits) Close() error {
	if t.file == nil {
		return nil
	}
	f := t.file
	t.file = nil
	return f.Close()
}

// The number and the intervals of retries when CURRENT is missing or names a missing MANIFEST: its
// writer is about to replace it.
const (
	pollTries = 20
	pollWait  = time.Millisecond
)

// Poll reads on. changed says that State is another one. An edit that is not whole is "not
// yet". Poll fails as Load does; after an error it may be called again.
func (t *Edits) Poll() (changed bool, err error) {
	for try := range pollTries {
		if try > 0 {
			time.Sleep(pollWait)
		}
		if changed, err = t.poll(); !errors.Is(err, fs.ErrNotExist) ||
			errors.Is(err, base.ErrCorruption) {
			return changed, err
		}
	}
	// The database may be created while its absence is explained: only one that is still missing
	// afterwards is.
	why := t.missing()
	if changed, err = t.poll(); !errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, base.ErrCorruption) {
		return changed, err
	}
	return false, why
}

// missing explains that CURRENT, or the MANIFEST that it names, is not there.
func (t *Edits) missing() error {
	names, err := t.fs.List(t.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", base.ErrDoesNotExist, err)
	case err != nil:
		return fmt.Errorf("listing %s: %w", t.dir, err)
	}
	if err := owner.Check(t.fs, t.dir); err != nil {
		return err
	}
	if cur, err := current.Read(t.fs, t.dir); err == nil {
		return cur.Missing()
	}
	return current.CheckMissing(t.fs, t.dir, names)
}

func (t *Edits) poll() (changed bool, err error) {
	cur, err := current.Read(t.fs, t.dir)
	if err != nil {
		return false, err
	}
	info, err := t.fs.Stat(filepath.Join(t.dir, cur.File))
	if err != nil {
		return false, err
	}
	now, err := t.fs.Stat(filepath.Join(t.dir, cur.Manifest))
	if err != nil {
		return false, err
	}
	if t.file == nil || t.damaged || cur != t.current || t.isAnother(now) ||
		!info.ModTime().Equal(t.modified) {
		return true, t.start(cur, info.ModTime(), now)
	}
	before := t.state.Edits
	err = t.read(t.edits, t.state, cur, false)
	t.damaged = errors.Is(err, base.ErrCorruption)
	return t.state.Edits != before, err
}

// isAnother reports whether now is another file than the MANIFEST being read.
func (t *Edits) isAnother(now fs.FileInfo) bool {
	id := identityOf(now)
	return id != t.id && fileid.Steady(t.fs, filepath.Join(t.dir, t.current.Manifest), id.ID)
}

// start reads another MANIFEST from its beginning.
func (t *Edits) start(cur current.Pointer, modified time.Time, info fs.FileInfo) error {
	f, err := current.OpenRegular(t.fs, t.dir, cur.Manifest)
	if err != nil {
		return err
	}
	state, edits := &manifest.State{}, record.NewTail(f, cur.Manifest, 0)
	if err = t.read(edits, state, cur, true); err == nil {
		err = state.Complete(cur.Format)
	}
	if err != nil {
		if state.Edits == 0 {
			err = manifest.CheckLog(f, cur.Manifest, cur.Format, err)
		}
		return errors.Join(base.LocateCorruption(err, cur.Manifest, 0, edits.End()), f.Close())
	}
	if t.file != nil {
		err = t.file.Close()
	}
	t.current, t.modified, t.file, t.edits, t.state, t.damaged =
		cur, modified, f, edits, state, false
	t.id = identityOf(info)
	t.begun++
	return err
}

// read adds the edits that are there to a state. first says that the MANIFEST is read from its
// beginning: it may have been damaged for long, so the bytes after the last whole edit are examined
// at once.
func (t *Edits) read(edits *record.Tail, state *manifest.State, cur current.Pointer,
	first bool) error {
	for {
		rec, err := edits.Next()
		if errors.Is(err, record.ErrNotYet) {
			if !first && !edits.Suspect() && state.Edits > 0 {
				return nil
			}
			if rec, err = t.examine(edits, cur); rec == nil {
				return err
			}
		} else if err != nil {
			return fmt.Errorf("reading %s: %w", cur.Manifest, err)
		}
		var e manifest.Edit
		if err = e.Decode(rec, cur.Format); err == nil {
			err = state.Apply(&e)
		}
		if err != nil {
			return locate(err, cur.Manifest, edits)
		}
		t.loaded = t.loaded || cur.Format == base.LevelDB &&
			slices.ContainsFunc(e.Added, func(a manifest.AddedFile) bool {
				return a.Meta.Smallest.Trailer.Seq() == 0
			})
	}
}

// examine tells a torn edit, which was never acknowledged, from damage. It may find an edit that
// was written meanwhile.
func (t *Edits) examine(edits *record.Tail, cur current.Pointer) (rec []byte, err error) {
	info, err := t.fs.Stat(filepath.Join(t.dir, cur.Manifest))
	if err != nil {
		return nil, err
	}
	if _, err = edits.Examine(info.Size()); !errors.Is(err, base.ErrCorruption) {
		return nil, err
	}
	time.Sleep(pollWait)
	if rec, again := edits.Next(); !errors.Is(again, record.ErrNotYet) {
		return rec, again
	}
	return nil, err
}

// locate names the file in an error that is about the last edit read.
func locate(err error, name string, edits *record.Tail) error {
	if errors.Is(err, base.ErrCorruption) {
		return base.LocateCorruption(err, name, edits.Start(), edits.End()-edits.Start())
	}
	return fmt.Errorf("reading %s: %w", name, err)
}

// checkTorn fails if the last edit is damaged, which Poll takes for one that is not whole yet:
// Open's own check. A log is deleted after the edit that makes it obsolete is whole, so that the
// names are listed first.
func (t *Edits) checkTorn() error {
	names, err := t.fs.List(t.dir)
	if err != nil {
		return err
	}
	res, err := manifest.ReadManifest(t.fs, t.dir, t.current.Manifest, t.current.Format)
	if err != nil {
		return nil // a newer MANIFEST is in force, or Poll fails next
	}
	return manifest.CheckTorn(res, t.current.Format, t.current.Manifest, names)
}
