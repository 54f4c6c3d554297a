package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/lsm"
)

// moment is the database at one time. The page asks for one a second and computes rates.
type moment struct {
	Time      int64  `json:"time"`   // milliseconds since 1970
	Source    string `json:"source"` // "process" or "files"
	PID       int    `json:"pid,omitempty"`
	Directory string `json:"directory"`
	Format    string `json:"format,omitempty"`
	Write     bool   `json:"write"`

	// Keyspaces is missing if the page has a picture of the files.
	Keyspaces []space         `json:"keyspaces,omitempty"`
	Metrics   json.RawMessage `json:"metrics"`
	Events    []inspect.Event `json:"events,omitempty"`
	Last      uint64          `json:"last"` // number of the newest event
	// State names the tables. Picture is missing if the page has the one of this state.
	State   string   `json:"state"`
	Picture *picture `json:"picture,omitempty"`
}

// space is a keyspace.
type space struct {
	Name     string `json:"name"`
	Comparer string `json:"comparator"`
}

// live answers with a moment. Parameters are keyspace; after, the number of the last event that the
// page has; and state, that of its picture.
func (s *server) live(ctx context.Context, q query) (any, error) {
	now := &moment{Source: "process", Directory: s.dir, Write: s.Write}
	var info struct {
		PID       int
		Format    string
		Keyspaces []space
	}
	var events struct {
		Events []inspect.Event
		Last   uint64
	}
	after, _ := strconv.ParseUint(q.Get("after"), 10, 64)
	name := q.keyspace()
	running, err := s.ask(ctx, asked{inspect.Request{Do: "info"}, &info},
		asked{inspect.Request{Do: "metrics", Keyspace: name}, &now.Metrics},
		asked{inspect.Request{Do: "events", Keyspace: name, After: after}, &events})
	switch {
	case !running:
		now.Source = "files"
		err = s.liveFiles(ctx, name, q.Get("state"), now)
	case err == nil:
		now.PID, now.Format, now.Keyspaces = info.PID, info.Format, info.Keyspaces
		now.Events, now.Last = events.Events, events.Last
		err = s.liveProcess(ctx, name, q.Get("state"), now)
		if ended(err) {
			now = &moment{Source: "files", Directory: s.dir, Write: s.Write}
			err = s.liveFiles(ctx, name, q.Get("state"), now)
		}
	}
	now.Time = time.Now().UnixMilli()
	return now, err
}

// counted are the metrics that change with the tables.
type counted struct {
	Levels []struct{ Files, Bytes uint64 }
}

// name sets the state that the metrics describe.
func (n *moment) name(keyspace string) error {
	var m counted
	if err := json.Unmarshal(n.Metrics, &m); err != nil {
		return fmt.Errorf("reading the metrics: %w", err)
	}
	n.State = fmt.Sprint(n.Source, n.PID, keyspace, m.Levels)
	return nil
}

func (s *server) liveProcess(ctx context.Context, name, known string, now *moment) error {
	if err := now.name(name); err != nil {
		return err
	}
	work := func(e inspect.Event) bool { return e.Kind != "write_stall" }
	if now.State == known && !slices.ContainsFunc(now.Events, work) {
		return nil
	}
	var tree struct {
		Levels []struct {
			Files  int
			Tables []struct {
				Number, Bytes     uint64
				Smallest, Largest []byte
				Compacting        bool
			}
		}
	}
	if _, err := s.ask(ctx, asked{inspect.Request{Do: "levels", Keyspace: name},
		&tree}); err != nil {
		return err
	}
	var tables []shown
	p := &picture{}
	for level, l := range tree.Levels {
		p.Left += l.Files - len(l.Tables)
		for _, t := range l.Tables {
			tables = append(tables, shown{level: level, number: t.Number, bytes: t.Bytes,
				first: t.Smallest, last: t.Largest, compacting: t.Compacting})
		}
	}
	i := slices.IndexFunc(now.Keyspaces, func(x space) bool { return x.Name == name })
	comparer := ""
	if i >= 0 {
		comparer = now.Keyspaces[i].Comparer
	}
	p.draw(tables, comparer)
	now.Picture = p
	return nil
}

func (s *server) liveFiles(ctx context.Context, name, known string, now *moment) error {
	err := s.follower.with(ctx, func(db *lsm.Follower) error {
		k, err := db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
		if err == nil {
			now.Metrics, err = json.Marshal(k.Metrics())
		}
		return err
	})
	if err == nil {
		err = now.name(name)
	}
	if err != nil || now.State == known {
		return err
	}
	d, err := examine.Open(s.FS, s.dir)
	if err != nil {
		return err
	}
	now.Format = d.Format.String()
	p, comparer := &picture{}, ""
	for _, k := range d.State.Keyspaces() {
		now.Keyspaces = append(now.Keyspaces, space{facts.NameOf(k), k.Comparer})
		if facts.NameOf(k) == name {
			comparer = k.Comparer
		}
	}
	var tables []shown
	for _, t := range facts.Tables(d) {
		switch {
		case t.Keyspace != name:
		case len(tables) == inspect.MaxTables:
			p.Left++
		default:
			tables = append(tables, shown{level: t.Level, number: t.Number, bytes: t.Bytes,
				first: t.First, last: t.Last})
		}
	}
	p.draw(tables, comparer)
	now.Picture = p
	return nil
}

// shown is a table of a picture.
type shown struct {
	level         int
	number, bytes uint64
	first, last   []byte
	compacting    bool
}

// picture is where the tables lie between the first key and the last one.
type picture struct {
	// Levels have tables in the order of their numbers.
	Levels [manifest.NumLevels][]placed `json:"levels"`
	// Ordered is true if places are places of keys. Without a built-in comparer it is false, and
	// the tables of a level lie side by side.
	Ordered bool `json:"ordered"`
	// Left is how many tables are not shown.
	Left int `json:"left,omitempty"`
}

// placed is a table: number, bytes, the two ends of its place, of whole, and 1 while it is an input
// of a compaction.
type placed [5]uint64

// whole is where the place of the last key ends.
const whole = 100_000

func (p *picture) draw(tables []shown, comparer string) {
	slices.SortFunc(tables, func(a, b shown) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	place := sideBySide(tables)
	if cmp, _ := base.ComparerNamed(comparer); cmp != nil {
		p.Ordered = true
		place = byKeys(tables, cmp)
	}
	for i, t := range tables {
		if t.level < 0 || t.level >= len(p.Levels) {
			continue
		}
		at := placed{t.number, t.bytes, uint64(place[i][0] * whole), uint64(place[i][1] * whole), 0}
		if t.compacting {
			at[4] = 1
		}
		p.Levels[t.level] = append(p.Levels[t.level], at)
	}
}

// sideBySide gives every table a place of its own within its level, as wide as its bytes.
func sideBySide(tables []shown) [][2]float64 {
	sums, most := map[int]float64{}, 1.0
	for _, t := range tables {
		sums[t.level] += float64(t.bytes)
		most = max(most, sums[t.level])
	}
	place, at := make([][2]float64, len(tables)), map[int]float64{}
	for i, t := range tables {
		place[i][0] = at[t.level] / most
		at[t.level] += float64(t.bytes)
		place[i][1] = at[t.level] / most
	}
	return place
}

// byKeys spreads the bytes of each table evenly over the keys, the first and last ones of tables,
// that it spans, and between them. A key's place is how many bytes lie before it.
func byKeys(tables []shown, cmp *base.Comparer) [][2]float64 {
	keys := make([][]byte, 0, 2*len(tables))
	for _, t := range tables {
		keys = append(keys, t.first, t.last)
	}
	slices.SortFunc(keys, cmp.Cmp)
	keys = slices.CompactFunc(keys, func(a, b []byte) bool { return cmp.Cmp(a, b) == 0 })
	// Part 2i is key i, part 2i+1 what lies between it and the next one.
	parts := make([][2]int, len(tables))
	change := make([]float64, 2*len(keys)+1)
	total := 0.0
	for i, t := range tables {
		first, _ := slices.BinarySearchFunc(keys, t.first, cmp.Cmp)
		last, _ := slices.BinarySearchFunc(keys, t.last, cmp.Cmp)
		last = max(first, last) // ends in the wrong order are damage
		parts[i] = [2]int{2 * first, 2*last + 1}
		share := float64(t.bytes) / float64(2*(last-first)+1)
		change[parts[i][0]] += share
		change[parts[i][1]] -= share
		total += float64(t.bytes)
	}
	before, height, sum := make([]float64, len(change)), 0.0, 0.0
	for i := range change {
		before[i] = sum / max(total, 1)
		height += change[i]
		sum += height
	}
	place := make([][2]float64, len(tables))
	for i, p := range parts {
		place[i] = [2]float64{min(1, max(0, before[p[0]])), min(1, max(0, before[p[1]]))}
	}
	return place
}
