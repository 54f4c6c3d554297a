package wal

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// TestInstalled: a log that tells of an edit needs a MANIFEST with its number, whatever became of
// the first attempts to write that.
func TestInstalled(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("db"))
	refuse := -1 // how many appends succeed until all are refused; negative: all succeed
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		switch {
		case op.Kind != vfs.OpAppend || refuse < 0:
			return vfs.Outcome{}
		case refuse == 0:
			return vfs.Outcome{Err: base.ErrNoSpace}
		}
		refuse--
		return vfs.Outcome{}
	})
	for at := -1; at <= 1; at++ {
		for _, rotates := range []bool{false, true} {
			next := uint64(0)
			s := New(Options{FS: fsys, Dir: "db", Format: base.Native,
				NewFileNum: func() uint64 { next++; return next },
				Fail:       func(err error) error { t.Error(err); return err },
				Panicked:   func(r any) error { t.Error(r); return nil },
			})
			first, err := s.Rotate(0)
			must(t, err)
			nums := []uint64{first}
			must(t, s.Append([][]byte{batch(1, 1)}))
			refuse = at
			s.Installed(3)
			refuse = -1
			if rotates {
				num, err := s.Rotate(3)
				must(t, err)
				nums = append(nums, num)
			}
			must(t, s.Append([][]byte{batch(4, 1)}))
			left := mem.CrashClone(vfs.KeepAll())
			must(t, s.Close(false))
			for last := base.SeqNum(0); last <= 4; last++ {
				r := &Replay{FS: left, Dir: "db", Format: base.Native, Last: last,
					Apply: func(uint64, []byte) error { return nil }}
				err := r.Run(nums, first)
				if damaged := errors.Is(err, base.ErrCorruption); damaged != (last < 3) ||
					err != nil && !damaged {
					t.Errorf("refused at %d, rotates: %v, the MANIFEST ends at %d: %v", at,
						rotates, last, err)
				}
			}
			for _, num := range nums {
				_ = mem.Remove("db/" + base.Native.FileName(base.FileLog, num))
			}
		}
	}
}

// TestRotationWithoutRoomForTheMarker: where the log has no room to say that numbers are in no log,
// the next log begins only if a replay does not need that. Nothing of it is dropped.
func TestRotationWithoutRoomForTheMarker(t *testing.T) {
	for _, format := range []base.Format{base.Native, base.LevelDB} {
		mem, refused := vfs.NewMem(), ""
		must(t, mem.MkdirAll("db"))
		fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpAppend && op.Name == refused {
				return vfs.Outcome{Err: base.ErrNoSpace}
			}
			return vfs.Outcome{}
		})
		next := uint64(0)
		s := New(Options{FS: fsys, Dir: "db", Format: format,
			NewFileNum: func() uint64 { next++; return next },
			Fail:       func(err error) error { t.Error(err); return err },
			Panicked:   func(r any) error { t.Error(r); return nil },
		})
		first, err := s.Rotate(0)
		must(t, err)
		must(t, s.Append([][]byte{batch(1, 1)}))
		refused = s.path(first)
		_, err = s.Rotate(3)
		if (err == nil) != (format == base.Native) || err != nil &&
			!errors.Is(err, base.ErrNoSpace) {
			t.Errorf("%v: %v", format, err)
		}
		refused = ""
		_, err = s.Rotate(3)
		must(t, err)
		must(t, s.Append([][]byte{batch(4, 1)}))
		must(t, s.Close(true))
		entries := 0
		r := &Replay{FS: mem, Dir: "db", Format: format,
			Apply: func(uint64, []byte) error { entries++; return nil }}
		nums, err := Logs(TailOptions{FS: mem, Dir: "db", Format: format})
		must(t, errors.Join(err, r.Run(nums, first)))
		if entries != 2 || len(r.Report.Dropped) > 0 {
			t.Errorf("%v: %d entries, dropped: %v", format, entries, r.Report.Dropped)
		}
	}
}
