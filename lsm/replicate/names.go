package replicate

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The names of objects. A generation is an unbroken history: snapshots, and segments of the
// changes from its begin on.
//
//	owner                                                    who writes
//	verified                                                 the last restore that was tried
//	GENERATION/begin                                         what it is a generation of
//	GENERATION/log/FIRST-LAST-TIME-DIGEST-p                  a segment, p: after it is a point
//	GENERATION/snapshot/SEQUENCE-TIME/000000, 000001 ...     parts of a dump
//	GENERATION/snapshot/SEQUENCE-TIME/whole                  the last object of a snapshot
//	GENERATION/snapshot/SEQUENCE-TIME/dropped                its parts go: it is not whole
//
// Sequence numbers have 20 digits and times, in milliseconds since 1970, 13. A generation is its
// time and 8 random hexadecimal digits.
const (
	ownerName    = "owner"
	verifiedName = "verified"
	beginName    = "/begin"
	wholeName    = "/whole"
	droppedName  = "/dropped"
)

var objectName = regexp.MustCompile(`^(\d{13}-[0-9a-f]{8})/(?:(begin)|` +
	`log/(\d{20})-(\d{20})-(\d{13})-([0-9a-f]{16})-([pq])|` +
	`snapshot/(\d{20})-(\d{13})/(\d{6,}|dropped|whole))$`)

// segment is the name of a segment of the log.
type segment struct {
	name        string
	first, last uint64 // sequence numbers; last is first-1 where only keyspaces changed
	time        int64  // when last was the newest, in milliseconds
	digest      string
	// point reports that the database was in the state after last: a list of keyspaces that
	// changes together with later segments does not make a state before them.
	point bool
}

func segmentName(gen string, s segment) string {
	kind := "q"
	if s.point {
		kind = "p"
	}
	return fmt.Sprintf("%s/log/%020d-%020d-%013d-%s-%s", gen, s.first, s.last, s.time, s.digest,
		kind)
}

// snapshot is a snapshot of a generation.
type snapshot struct {
	dir   string // its parts are below
	seq   uint64
	time  int64
	parts int
	// dropped says that a runner began to delete the parts: a whole that another one stored
	// meanwhile does not count.
	dropped, whole bool
}

func snapshotDir(gen string, seq uint64, at int64) string {
	return fmt.Sprintf("%s/snapshot/%020d-%013d", gen, seq, at)
}

func partName(dir string, i int) string { return fmt.Sprintf("%s/%06d", dir, i) }

// generation is what the target has of one.
type generation struct {
	id        string
	begun     bool        // the object begin is there
	segments  []segment   // by first, last and time
	snapshots []*snapshot // by sequence number and time
	names     []string    // of all objects
}

// end is the time of the last object. That of begin is in the generation's name.
func (g *generation) end() (at int64) {
	at, _ = strconv.ParseInt(g.id[:strings.IndexByte(g.id, '-')], 10, 64)
	for _, s := range g.segments {
		at = max(at, s.time)
	}
	for _, s := range g.snapshots {
		at = max(at, s.time)
	}
	return at
}

// newest is the last whole snapshot, nil if there is none.
func (g *generation) newest() (s *snapshot) {
	for _, o := range g.snapshots {
		if o.whole {
			s = o
		}
	}
	return s
}

// catalog is what a target has, oldest generation first. Names of other objects are passed over.
func catalog(ctx context.Context, t Target) ([]*generation, error) { return list(ctx, t, "") }

// list is the part of the catalog whose names begin with prefix.
func list(ctx context.Context, t Target, prefix string) ([]*generation, error) {
	names, err := t.List(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("listing the target: %w", err)
	}
	slices.Sort(names)
	var all []*generation
	for _, name := range names {
		m := objectName.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if len(all) == 0 || all[len(all)-1].id != m[1] {
			all = append(all, &generation{id: m[1]})
		}
		all[len(all)-1].add(name, m)
	}
	for _, g := range all {
		slices.SortStableFunc(g.segments, func(a, b segment) int {
			return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last),
				cmp.Compare(a.time, b.time))
		})
	}
	return all, nil
}

func (g *generation) add(name string, m []string) {
	num := func(i int) uint64 {
		n, _ := strconv.ParseUint(m[i], 10, 64) // too large for 64 bits: the largest one
		return n
	}
	g.names = append(g.names, name)
	switch {
	case m[2] != "":
		g.begun = true
	case m[3] != "":
		g.segments = append(g.segments, segment{name: name, first: num(3), last: num(4),
			time: int64(num(5)), digest: m[6], point: m[7] == "p"})
	default:
		dir := name[:strings.LastIndexByte(name, '/')]
		n := len(g.snapshots)
		if n == 0 || g.snapshots[n-1].dir != dir {
			g.snapshots = append(g.snapshots, &snapshot{dir: dir, seq: num(8),
				time: int64(num(9))})
			n++
		}
		switch s := g.snapshots[n-1]; m[10] {
		case droppedName[1:]:
			s.dropped = true
		case wholeName[1:]:
			s.whole = !s.dropped // whose name comes before
		default:
			s.parts++
		}
	}
}

// chain selects the segments that continue a state after sequence number pos, each after the one
// before. Where two replicators wrote side by side, segments may overlap: of those that continue,
// the one that goes farthest is taken. hole is the first sequence number that is missing where
// later segments are there, 0 if none is.
func chain(segments []segment, pos uint64) (in []segment, end, hole uint64) {
	for i := 0; i < len(segments); {
		best := -1
		for ; i < len(segments) && segments[i].first <= pos+1; i++ {
			switch s := segments[i]; {
			case s.last == pos && s.first == pos+1:
				in = append(in, s)
			case s.last > pos && (best < 0 || s.last > segments[best].last):
				best = i
			}
		}
		if best < 0 {
			if i < len(segments) {
				return in, pos, pos + 1
			}
			break
		}
		in = append(in, segments[best])
		pos = segments[best].last
	}
	return in, pos, 0
}

// follow is chain of the segments of replicators that took over from each other: current ones,
// unless the clocks of two hosts hide which these are.
func follow(segments []segment, pos uint64) (in []segment, end, hole uint64) {
	in, end, hole = chain(current(segments), pos)
	if hole != 0 {
		return chain(segments, pos)
	}
	return in, end, hole
}

// current leaves out the segments that a replicator stored after another one had taken over: that
// one sent what they have again, and goes by its own lists of keyspaces.
func current(segments []segment) []segment {
	if !overlap(segments) {
		return segments
	}
	byTime := slices.Clone(segments)
	slices.SortStableFunc(byTime, func(a, b segment) int { return cmp.Compare(b.time, a.time) })
	late := map[string]bool{}
	first := uint64(1<<64 - 1) // of the segments that are newer
	for i := 0; i < len(byTime); {
		time, next := byTime[i].time, first
		for ; i < len(byTime) && byTime[i].time == time; i++ {
			switch s := byTime[i]; {
			case s.last >= first:
				late[s.name] = true
			case s.first <= s.last:
				next = min(next, s.first)
			}
		}
		first = next
	}
	return slices.DeleteFunc(slices.Clone(segments), func(s segment) bool { return late[s.name] })
}

// overlap reports whether two replicators wrote side by side: two segments have an operation.
func overlap(segments []segment) bool {
	end := uint64(0)
	for _, s := range segments {
		if s.first <= s.last && s.first <= end {
			return true
		}
		end = max(end, s.last)
	}
	return false
}

// moment is the time that names have.
func moment(ms int64) time.Time { return time.UnixMilli(ms) }
