package runner

import (
	"os"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// copying is a way to copy a database. Only do is measured.
type copying struct {
	before func() error // once
	do     func() error
	after  func() error // each time
	file   string       // whose bytes are read or written; "": not counted
}

// copying makes what subject says. It puts copies beside the database's directory.
func (t *thread) copying(subject string) (c copying) {
	dir, destroy := t.r.Dir, t.r.Driver.Destroy
	folder, dump, to := dir+"-kvbench-backups", dir+"-kvbench.dump", dir+"-kvbench-copy"
	backup := func() error { return t.db.(store.BackerUp).Backup(folder) }
	none := func() error { return nil }
	noBackups := func() error { return os.RemoveAll(folder) }
	noCopy := func() error { return destroy(to) }
	noDump := func() error { return os.RemoveAll(dump) }
	again := func() error {
		if err := noBackups(); err != nil {
			return err
		}
		return backup()
	}
	write := func() error { return t.db.(store.Dumper).Dump(dump) }
	switch subject {
	case workload.Checkpoint:
		return copying{none, func() error {
			return t.db.(store.Checkpointer).Checkpoint(to)
		}, noCopy, ""}
	case workload.FirstBackup:
		return copying{noBackups, backup, noBackups, ""}
	case workload.SecondBackup:
		return copying{again, backup, none, ""}
	case workload.Restore:
		return copying{again, func() error {
			return t.db.(store.BackerUp).RestoreBackup(folder, to)
		}, noCopy, ""}
	case workload.Dump:
		return copying{noDump, write, noDump, dump}
	}
	load := func() error { return t.db.(store.Dumper).LoadDump(dump, to) }
	return copying{func() error {
		if err := noDump(); err != nil {
			return err
		}
		return write()
	}, load, noCopy, dump}
}

// copies copies the database again and again, and leaves nothing.
func (t *thread) copies(subject string) {
	c := t.copying(subject)
	defer os.RemoveAll(t.r.Dir + "-kvbench-backups")
	defer os.RemoveAll(t.r.Dir + "-kvbench.dump")
	if !t.away(c.before) {
		return
	}
	for range t.ops {
		if err := c.do(); err != nil {
			t.fail(err)
			return
		}
		if info, err := os.Stat(c.file); err == nil {
			t.bytes += info.Size()
		}
		more := t.tick()
		if !t.away(c.after) || !more {
			return
		}
	}
}
