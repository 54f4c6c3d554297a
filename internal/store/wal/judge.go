package wal

import (
	"errors"
	"io"
	"io/fs"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/record"
)

// Needs is what a MANIFEST says of the logs.
type Needs struct {
	// ParseOwnName returns the type and the number of a name that can be a file of the database.
	ParseOwnName       func(name string) (base.FileType, uint64)
	LogNum, PrevLogNum uint64                     // see Replay.Needed
	LastSeq            base.SeqNum                // the largest sequence number
	Synced             record.LogEnd              // up to where the logs are durable
	Keyspaces          func(base.KeyspaceID) bool // that batches may name; nil: none
}

// Judge reads the logs that a MANIFEST needs as Open does, without the entries. It fails where Open
// fails, and returns the report and the end of the replay.
//
// Beside a writer Judge may fail although nothing is damaged; package follow says how it finds that
// out.
func Judge(o TailOptions, n Needs) (Report, Place, error) {
	r := Replay{
		FS: o.FS, Dir: o.Dir, Format: o.Format, Last: n.LastSeq, Synced: n.Synced,
		Keyspaces: n.Keyspaces, Apply: func(uint64, []byte) error { return nil },
	}
	nums, err := r.Needed(n.ParseOwnName, n.LogNum, n.PrevLogNum)
	if err == nil {
		err = r.Run(nums, n.LogNum)
	}
	return r.Report, r.End, err
}

// JudgeLog reads one log as Open does, and returns its damage as an error. The first synced bytes
// of the log are durable. The log is not compared with a MANIFEST. JudgeLog may run beside the
// writer of the log: what it read before it was written is not damaged when it is read again.
func JudgeLog(o TailOptions, num uint64, synced int64) error {
	var damage *base.Corruption
	short := false
	for {
		r := Replay{
			FS: o.FS, Dir: o.Dir, Format: o.Format, Synced: record.LogEnd{Num: num, End: synced},
			Last:      base.MaxSeqNum,
			Keyspaces: func(base.KeyspaceID) bool { return true },
			Apply:     func(uint64, []byte) error { return nil },
		}
		if o.Format != base.Native {
			r.Keyspaces = nil
		}
		err := r.Run([]uint64{num}, num)
		if d := r.Report.Dropped; err == nil && o.Format != base.Native && len(d) > 0 &&
			r.Report.TornBytes == 0 {
			err = base.Corruptf("log record", "%s", d[0].Reason).At(d[0].File, d[0].Offset,
				d[0].Bytes)
		}
		var c *base.Corruption
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF) && !short:
			short = true // it was closed meanwhile, and lost what was allocated ahead
			continue
		case !errors.As(err, &c), damage != nil && c.Offset == damage.Offset:
			return err
		}
		damage = c
	}
}
