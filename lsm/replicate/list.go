package replicate

import (
	"context"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// Info describes a generation of a target: a history without a gap.
type Info struct {
	// Generation is its name.
	Generation string
	// Directory and Host are where the database was when it began; empty if that is damaged.
	Directory, Host string
	// Snapshots are the times of whole snapshots, oldest first. Without one nothing can be
	// restored.
	Snapshots []time.Time
	// First and Last are the times of the first and the last state that can be restored; zero if
	// there is none.
	First, Last time.Time
	// Sequence is the sequence number of the last state.
	Sequence uint64
	// Objects is the number of objects.
	Objects int
	// Err names a missing object, as far as a listing shows it; nil if none is missing.
	Err error
}

// List describes the generations of a target, oldest first. It reads no data: Restore does.
func List(ctx context.Context, t Target) ([]Info, error) {
	if ctx == nil || t == nil {
		return nil, base.Invalidf("List needs a context and a target")
	}
	all, err := catalog(ctx, t)
	if err != nil {
		return nil, err
	}
	var list []Info
	for _, g := range all {
		i := Info{Generation: g.id, Objects: len(g.names)}
		var b begun
		if err := getJSON(ctx, t, g.id+beginName, &b); err != nil {
			i.Err = err
		}
		i.Directory, i.Host = b.Directory, b.Host
		for _, s := range g.snapshots {
			if s.whole {
				i.Snapshots = append(i.Snapshots, moment(s.time))
			}
		}
		if len(i.Snapshots) > 0 {
			i.First = i.Snapshots[0]
			p, err := choose([]*generation{g}, 1<<63-1, "")
			if err == nil {
				i.Last, i.Sequence = moment(p.time), p.seq
			} else {
				i.Err = err
			}
		}
		list = append(list, i)
	}
	return list, nil
}
