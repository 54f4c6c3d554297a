package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
)

// A marker is a file in the directory of a database into which a dump is being loaded. It is there,
// and durable, before the first entry is written, and until all of them are durable. It says which
// dump that is, and how far it is in the database.
type marker struct {
	id     [16]byte
	blocks bool // a block is in the database: the one that begins at last, and those before
	last   point
}

const markerMagic = "LOAMLOAD"

func (m *marker) encode() []byte {
	b := append([]byte(markerMagic), m.id[:]...)
	if !m.blocks {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = binary.AppendUvarint(b, uint64(m.last.offset))
		b = binary.LittleEndian.AppendUint64(b, m.last.sum)
		b = binary.AppendUvarint(b, m.last.counts.Blocks)
		b = binary.AppendUvarint(b, m.last.counts.Bytes)
		b = binary.AppendUvarint(b, uint64(len(m.last.counts.Entries)))
		for _, n := range m.last.counts.Entries {
			b = binary.AppendUvarint(b, n)
		}
	}
	return binary.LittleEndian.AppendUint32(b, base.CRC(b))
}

// decode reads a marker. ok is false if it is damaged.
func (m *marker) decode(b []byte) (ok bool) {
	n := len(b) - 4
	if n < len(markerMagic) || string(b[:len(markerMagic)]) != markerMagic ||
		base.CRC(b[:n]) != binary.LittleEndian.Uint32(b[n:]) {
		return false
	}
	c := base.Cutter{B: b[len(markerMagic):n]}
	copy(m.id[:], c.Bytes(len(m.id)))
	if flag := c.Bytes(1); c.Bad || flag[0] == 0 {
		return !c.Bad
	}
	m.blocks = true
	m.last.offset = int64(c.Uvarint())
	if p := c.Bytes(8); p != nil {
		m.last.sum = binary.LittleEndian.Uint64(p)
	}
	m.last.counts.Blocks, m.last.counts.Bytes = c.Uvarint(), c.Uvarint()
	for n := c.Uvarint(); n > 0 && !c.Bad; n-- {
		m.last.counts.Entries = append(m.last.counts.Entries, c.Uvarint())
	}
	return !c.Bad && len(c.B) == 0 && m.last.offset > 0
}

// Files of markers. What a crash leaves of the second one is replaced.
const (
	markerName = base.LoadName
	markerTemp = base.LoadTempName
)

// maxMarker is the size in bytes of the largest marker that is read.
const maxMarker = maxPayload

// readMarker reads the marker of a database. found is false where there is none.
func readMarker(db store.Host) (m marker, found bool, err error) {
	err = db.WhileOpen(func(func() error) error {
		f, err := current.OpenRegular(db.Place().FS, db.Place().Dir, markerName)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		found = true
		damaged := base.Corruptf("load marker", "it is damaged: how far the load came is not "+
			"known. Begin anew, with an empty database").At(markerName, 0, f.Size())
		if f.Size() > maxMarker {
			return damaged
		}
		b := make([]byte, f.Size())
		if err := base.ReadFull(f, b, 0); err != nil {
			return fmt.Errorf("reading %s: %w", markerName, err)
		}
		if !m.decode(b) {
			return damaged
		}
		return nil
	})
	return m, found, err
}

// writeMarker replaces the marker of a database. It is durable then.
func writeMarker(db store.Host, m *marker) error {
	return db.WhileOpen(func(func() error) error {
		fsys, dir := db.Place().FS, db.Place().Dir
		temp := filepath.Join(dir, markerTemp)
		if err := vfs.RemoveIfThere(fsys, temp); err != nil {
			return err
		}
		if err := current.WriteFile(fsys, temp, m.encode()); err != nil {
			return err
		}
		if err := fsys.Rename(temp, filepath.Join(dir, markerName)); err != nil {
			return errors.Join(err, vfs.RemoveIfThere(fsys, temp))
		}
		return fsys.SyncDir(dir)
	})
}

// removeMarker removes the marker of a database, durably.
func removeMarker(db store.Host) error {
	return db.WhileOpen(func(func() error) error {
		fsys, dir := db.Place().FS, db.Place().Dir
		if err := vfs.RemoveIfThere(fsys, filepath.Join(dir, markerName)); err != nil {
			return err
		}
		return fsys.SyncDir(dir)
	})
}
