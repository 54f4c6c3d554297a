package replicate

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// pruneIsDue reports whether objects are to be looked for that no restore needs: once after each
// snapshot.
func (r *runner) pruneIsDue() bool {
	return r.o.Keep > 0 && !r.pruned && !r.snapshot.IsZero()
}

// prune deletes what no restore of a kept state needs.
func (r *runner) prune(ctx context.Context, _ *job) error {
	all, err := catalog(ctx, r.target)
	if err == nil {
		err = r.owns(ctx)
	}
	if err == nil {
		err = r.remove(ctx, obsolete(all, r.o.Clock().Add(-r.o.Keep).UnixMilli()))
	}
	return err
}

// remove deletes objects, in this order.
func (r *runner) remove(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := r.target.Delete(ctx, name); err != nil {
			return fmt.Errorf("deleting object %s: %w", name, err)
		}
	}
	return nil
}

// obsolete lists the objects that restores of states from a time on do not need, in the order in
// which they are to be deleted: the last object of a snapshot before its parts, and snapshots
// before segments, so that a half of them is never taken for a replica.
func obsolete(all []*generation, since int64) (names []string) {
	p, err := choose(all, since, "")
	if err != nil {
		return nil // nothing covers the time, or it is damaged: all may be needed
	}
	for _, g := range all {
		old := g.id < p.gen.id && g.end() <= since
		if !old && g != p.gen {
			continue
		}
		var snapshots, segments []string
		for _, s := range g.snapshots {
			if old || s.seq < p.snapshot.seq {
				snapshots = append(snapshots, g.objectsOf(s)...)
			}
		}
		for _, s := range g.segments {
			if old || s.last <= p.snapshot.seq && s.time <= p.snapshot.time {
				segments = append(segments, s.name)
			}
		}
		names = append(append(names, snapshots...), segments...)
		if old && g.begun {
			names = append(names, g.id+beginName)
		}
	}
	return names
}

// objectsOf lists the objects of a snapshot, the last one first.
func (g *generation) objectsOf(s *snapshot) (names []string) {
	for _, name := range g.names {
		if strings.HasPrefix(name, s.dir+"/") {
			names = append(names, name)
		}
	}
	slices.Reverse(names)
	return names
}
