package replica

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/internal/snapstream"
)

// A disk is the SnapshotStore of its node. It keeps one snapshot.
var _ raft.SnapshotStore = (*disk)(nil)

func (k *disk) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration,
	membersIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if err := k.settle(); err != nil {
		return nil, err
	}
	name := k.next("snap")
	return &sink{of: k, dir: k.path(name), meta: raft.SnapshotMeta{Version: version, ID: name,
		Index: index, Term: term, Configuration: members, ConfigurationIndex: membersIndex}}, nil
}

func (k *disk) List() ([]*raft.SnapshotMeta, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []*raft.SnapshotMeta
	for _, m := range k.state.Snapshots {
		c := *m
		out = append(out, &c)
	}
	return out, nil
}

// snapshotAt is the snapshot that ends with the entry of an index, nil if there is none.
func (k *disk) snapshotAt(index uint64) *raft.SnapshotMeta {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.state.Snapshots, func(m *raft.SnapshotMeta) bool {
		return m.Index == index
	})
	if i < 0 {
		return nil
	}
	return k.state.Snapshots[i]
}

// Open streams a snapshot, as package snapstream describes. It stays until the stream is closed.
func (k *disk) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	k.mu.Lock()
	i := slices.IndexFunc(k.state.Snapshots, func(m *raft.SnapshotMeta) bool { return m.ID == id })
	if i < 0 {
		k.mu.Unlock()
		return nil, nil, fmt.Errorf("replica: no snapshot %q", id)
	}
	meta := *k.state.Snapshots[i]
	k.reading[id]++
	k.mu.Unlock()
	s := &source{of: k, dir: k.path(id), meta: &meta}
	size, err := s.pack()
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	meta.Size = size
	return &meta, s, nil
}

// keep keeps the newer one of a snapshot and the one before, and removes the other unless a stream
// reads it. The older one comes second where the node made it while a leader sent the newer one.
func (k *disk) keep(m *raft.SnapshotMeta) error {
	k.mu.Lock()
	all := append([]*raft.SnapshotMeta{m}, k.state.Snapshots...)
	slices.SortStableFunc(all, func(a, b *raft.SnapshotMeta) int {
		return cmp.Compare(b.Index, a.Index)
	})
	s := k.state
	s.Snapshots = all[:1]
	err := k.save(s)
	if err != nil {
		k.doubtful = append(k.doubtful, m.ID)
	}
	var unused []string
	for _, o := range all[1:] {
		if err == nil && k.reading[o.ID] == 0 {
			unused = append(unused, o.ID)
		}
	}
	k.mu.Unlock()
	for _, name := range unused {
		k.remove(name)
	}
	return err
}

// settle removes snapshots that the next opening would want if the state that names them was stored
// after all, once a state without them is. An opening itself removes those that do not count.
func (k *disk) settle() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.doubtful) > 0 {
		if err := k.save(k.state); err != nil {
			return err
		}
		k.remove(k.doubtful[0])
		k.doubtful = k.doubtful[1:]
	}
	return nil
}

// sink takes a snapshot: the node's own by checkpoint, a leader's as a stream.
type sink struct {
	of       *disk
	dir      string
	meta     raft.SnapshotMeta
	stream   *io.PipeWriter // nil before the first Write
	unpacked chan error     // what became of the stream
}

func (s *sink) ID() string { return s.meta.ID }

// checkpoint makes the snapshot of the present state, which has the entries of the snapshot and
// perhaps further ones. It is on stable storage then.
func (s *sink) checkpoint(db *lsm.DB) error { return db.Checkpoint(context.Background(), s.dir) }

func (s *sink) Write(p []byte) (int, error) {
	if s.stream == nil {
		var r *io.PipeReader
		r, s.stream = io.Pipe()
		s.unpacked = make(chan error, 1)
		go func() {
			err := snapstream.Unpack(s.of.fs, r, s.dir)
			_ = r.CloseWithError(err) // a Write that waits fails with it
			s.unpacked <- err
		}()
	}
	return s.stream.Write(p)
}

// end ends the stream, if there is one, and returns what became of it.
func (s *sink) end(cause error) error {
	if s.stream == nil {
		return nil
	}
	_ = s.stream.CloseWithError(cause) // never fails
	s.stream = nil
	return <-s.unpacked
}

// Close makes the snapshot count.
func (s *sink) Close() error {
	err := s.end(nil)
	if err != nil {
		s.of.remove(s.meta.ID)
	} else {
		err = s.of.keep(&s.meta)
	}
	if err != nil {
		return fmt.Errorf("replica: snapshot %s: %w", s.meta.ID, err)
	}
	return nil
}

// Cancel removes what there is of the snapshot.
func (s *sink) Cancel() error {
	_ = s.end(errors.New("cancelled")) // it is not to be whole
	s.of.remove(s.meta.ID)
	return nil
}

// source is the stream of a snapshot.
type source struct {
	of    *disk
	dir   string
	meta  *raft.SnapshotMeta
	files []snapstream.File
	sum   hash.Hash32
	part  io.Reader    // what is being read
	file  lsm.ReadFile // below part; nil: none
	ended bool         // the sum was sent
	done  bool
}

// pack begins the stream and returns its size in bytes.
func (s *source) pack() (size int64, err error) {
	if err := s.find(""); err != nil {
		return 0, err
	}
	head := snapstream.AppendHead(nil, s.files)
	for _, f := range s.files {
		size += f.Size
	}
	s.sum = snapstream.NewSum()
	s.part = bytes.NewReader(head)
	return size + int64(len(head)) + int64(s.sum.Size()), nil
}

// find lists the files in a directory of the snapshot, without LOCK, which an opening makes.
func (s *source) find(dir string) error {
	names, err := s.of.fs.List(filepath.Join(s.dir, filepath.FromSlash(dir)))
	if err != nil {
		return err
	}
	for _, n := range names {
		name := path.Join(dir, n)
		info, err := s.of.fs.Stat(filepath.Join(s.dir, filepath.FromSlash(name)))
		if err == nil && info.IsDir() {
			err = s.find(name)
		} else if err == nil && name != "LOCK" {
			s.files = append(s.files, snapstream.File{Name: name, Size: info.Size()})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *source) Read(p []byte) (int, error) {
	for {
		n, err := s.part.Read(p)
		if !s.ended {
			s.sum.Write(p[:n])
		}
		if n > 0 || err == nil && len(p) == 0 {
			return n, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if s.ended {
			return 0, io.EOF
		}
		if err := s.advance(); err != nil {
			return 0, err
		}
	}
}

// advance goes to the next file, or to the sum.
func (s *source) advance() error {
	if err := s.closeFile(); err != nil {
		return err
	}
	if len(s.files) == 0 {
		s.part = bytes.NewReader(binary.LittleEndian.AppendUint32(nil, s.sum.Sum32()))
		s.ended = true
		return nil
	}
	f, err := s.of.fs.Open(filepath.Join(s.dir, filepath.FromSlash(s.files[0].Name)))
	if err != nil {
		return err
	}
	if f.Size() != s.files[0].Size {
		return errors.Join(fmt.Errorf("%s has %d bytes, and had %d", s.files[0].Name, f.Size(),
			s.files[0].Size), f.Close())
	}
	s.file, s.part = f, io.NewSectionReader(f, 0, f.Size())
	s.files = s.files[1:]
	return nil
}

func (s *source) closeFile() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// Close ends the stream, and removes the snapshot if there is a newer one and no other stream.
func (s *source) Close() error {
	err := s.closeFile()
	if s.done {
		return err
	}
	s.done = true
	k, id := s.of, s.meta.ID
	k.mu.Lock()
	k.reading[id]--
	unused := k.reading[id] == 0 && !k.counts(id)
	if k.reading[id] == 0 {
		delete(k.reading, id)
	}
	k.mu.Unlock()
	if unused {
		k.remove(id)
	}
	return err
}
