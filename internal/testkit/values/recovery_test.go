package values

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// recovering are options with which a recovery writes several tables.
func recovering(o *lsm.Options) { o.WriteBufferSize = 256 << 10 }

// unflushed writes values that no table has, in a log or two, and closes nothing.
func unflushed(t *testing.T, fsys vfs.FS) *database {
	d := open(t, fsys, nil, func(o *lsm.Options) { o.WriteBufferSize = 4 << 20 })
	b := lsm.NewBatch()
	for i := range 100 {
		key, value := fmt.Sprintf("key %03d", i), valueOf(i, 9000+i)
		d.put(key, value)
		b.Put([]byte("batch "+key), value[:8000])
		d.want["batch "+key] = value[:8000]
		if i%7 == 0 {
			d.must(d.Write(b, lsm.NoSync))
			b.Clear()
		}
		if i%10 == 0 {
			d.put("small "+key, value[:least-1])
			d.put("key 050", valueOf(1000+i, 9000)) // older than what follows, from 50 on newer
		}
	}
	d.must(d.Write(b, lsm.NoSync))
	return d
}

// TestRecoveryRefers: a recovery makes references to the logs that it reads, and copies no value.
func TestRecoveryRefers(t *testing.T) {
	mem := vfs.NewMem()
	d := unflushed(t, mem)
	killed, want := mem.Clone(), maps.Clone(d.want)
	d.must(d.Close())
	for _, tc := range []struct {
		name string
		fsys *vfs.Mem
	}{{"closed", mem}, {"killed", killed}} {
		d := open(t, tc.fsys, maps.Clone(want), recovering)
		m := d.Metrics()
		tables := uint64(0)
		for _, l := range m.Levels {
			tables += l.Bytes
		}
		if all := uint64(d.wantBytes()); m.Values.Bytes < all-100<<10 || tables > 150<<10 {
			t.Errorf("%s: %d bytes of %d are referred to, tables have %d", tc.name, m.Values.Bytes,
				all, tables)
		}
		check(t, d, d.want)
		d.must(d.Verify(t.Context(), nil))
		d.put("key 001", valueOf(5000, 100_000))
		// It is killed again, and what no sync made durable is lost.
		after := tc.fsys.CrashClone(vfs.CrashOptions{})
		d.must(d.Close())
		d = open(t, after, maps.Clone(want), recovering)
		check(t, d, d.want)
		d.must(d.Close())
		d = open(t, tc.fsys, nil, recovering)
		value, err := d.Get([]byte("key 001"), nil)
		if d.must(err); !bytes.Equal(value, valueOf(5000, 100_000)) {
			t.Errorf("%s: another value", tc.name)
		}
		d.must(d.DeleteRange([]byte("a"), []byte("z"), lsm.NoSync))
		d.must(d.CompactRange(nil, nil))
		d.must(d.Close())
		d = open(t, tc.fsys, nil, recovering)
		d.must(d.Close())
		if left := logs(t, tc.fsys, "db"); len(left) > 1 {
			t.Errorf("%s: logs stay: %v", tc.name, left)
		}
	}
}

// forgetful is a Mem that forgets, as Linux does, what a log has not written when a sync of it
// fails: reads have it, and later syncs succeed without effect.
type forgetful struct {
	vfs.FS
	fails bool
}

type forgetfulLog struct {
	vfs.Log
	fs *forgetful
}

type forgetfulFile struct{ vfs.ReadFile }

// Below keeps names as they are given, see vfs.Absolute.
func (f *forgetful) Below() vfs.FS { return f.FS }

func (f *forgetful) CreateLog(name string, ahead int64) (vfs.Log, error) {
	l, err := f.FS.CreateLog(name, ahead)
	if err == nil && path.Ext(name) == ".wal" {
		return forgetfulLog{l, f}, nil
	}
	return l, err
}

func (f *forgetful) Open(name string) (vfs.ReadFile, error) {
	r, err := f.FS.Open(name)
	if err == nil && path.Ext(name) == ".wal" {
		return forgetfulFile{r}, nil
	}
	return r, err
}

func (l forgetfulLog) Sync() error {
	if l.fs.fails {
		return syscall.EIO
	}
	return l.Log.Sync()
}

func (forgetfulFile) Sync() error  { return nil }
func (forgetfulFile) OnDisk() bool { return false }

// TestRecoveryAfterAFailedSync: the opening after a sync of the log failed keeps what it reads, and
// a Sync makes all of that durable, although the log is not.
func TestRecoveryAfterAFailedSync(t *testing.T) {
	mem := vfs.NewMem()
	fsys := &forgetful{FS: mem, fails: true}
	d := unflushed(t, fsys)
	want := maps.Clone(d.want)
	if err := d.Put([]byte("failed"), nil, lsm.Sync); !errors.Is(err, lsm.ErrReadOnly) {
		t.Fatal(err)
	}
	if err := d.Close(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	fsys.fails = false
	d = open(t, fsys, nil, recovering)
	d.must(d.Delete([]byte("failed"), lsm.Sync))
	check(t, d, want)
	after := mem.CrashClone(vfs.DropAll())
	d.must(d.Close())
	d = open(t, after, nil, recovering)
	check(t, d, want)
	d.must(d.Verify(t.Context(), nil))
	d.must(d.Close())
}
