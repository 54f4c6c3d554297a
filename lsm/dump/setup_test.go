package dump_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/feature/transfer"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

var ctx = context.Background()

// backward is an order of a program's own.
var backward = &lsm.Comparer{Name: "test.backward", Compare: func(a, b []byte) int {
	return bytes.Compare(b, a)
}}

// start is when the clock of databases stands still.
const start = 1_700_000_000

type clock struct{ seconds atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(start+c.seconds.Load(), 0) }

func options(fsys vfs.FS, format lsm.Format, c *clock) *lsm.Options {
	return &lsm.Options{FS: fsys, Format: format, WriteBufferSize: 64 << 10,
		Comparers: []*lsm.Comparer{backward}, Clock: c.now}
}

func mustOpen(t testing.TB, dir string, o *lsm.Options) *lsm.DB {
	t.Helper()
	db, err := lsm.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // which may have been closed
	return db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// model is what a database has: keyspaces, keys, and values with the time that they have left.
type model map[string]map[string]string

func live(value string, left time.Duration) string { return fmt.Sprintf("%v %s", left, value) }

// contents reads a database.
func contents(t testing.TB, db *lsm.DB) model {
	t.Helper()
	m := model{}
	for _, name := range db.Keyspaces() {
		m[name] = map[string]string{}
		var k lsm.Store = db
		ttl := db.TTL
		if name != "default" {
			space, err := db.Keyspace(name, nil)
			must(t, err)
			k, ttl = space, space.TTL
		}
		it := k.Iter(nil)
		for ok := it.First(); ok; ok = it.Next() {
			left, _, err := ttl(it.Key())
			must(t, err)
			m[name][string(it.Key())] = live(string(it.Value()), left)
		}
		must(t, it.Close())
	}
	return m
}

func sameModel(t testing.TB, got, want model) {
	t.Helper()
	for name, space := range want {
		if !maps.Equal(got[name], space) {
			t.Errorf("keyspace %q has %d entries, want %d", name, len(got[name]), len(space))
			for _, key := range slices.Sorted(maps.Keys(space)) {
				if got[name][key] != space[key] {
					t.Fatalf("key %q has %.40q, want %.40q", key, got[name][key], space[key])
				}
			}
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d keyspaces, want %d", len(got), len(want))
	}
}

// fill writes at random and tells what must be there then. Without kinds there are puts and deletes
// in one keyspace only.
func fill(t testing.TB, db *lsm.DB, rng *rand.Rand, n int, kinds bool) model {
	t.Helper()
	spaces := []string{"default"}
	if kinds {
		spaces = []string{"default", "users", "backward", "empty", "größe"}
	}
	m := model{}
	for _, name := range spaces {
		m[name] = map[string]string{}
	}
	for range n {
		name := spaces[rng.IntN(len(spaces))]
		if name == "empty" {
			name = "default"
		}
		writeOne(t, db, rng, m[name], name, kinds)
		if rng.IntN(n/4+1) == 0 {
			must(t, db.Flush())
		}
	}
	if kinds {
		openSpace(t, db, "empty")
	}
	return m
}

func openSpace(t testing.TB, db *lsm.DB, name string) *lsm.Keyspace {
	t.Helper()
	o := &lsm.KeyspaceOptions{}
	if name == "backward" {
		o.Comparer = backward
	}
	if name == "users" {
		o.MergeOperator = lsm.MergeOperatorNamed("append:,")
	}
	k, err := db.Keyspace(name, o)
	must(t, err)
	return k
}

// writeOne makes one write.
func writeOne(t testing.TB, db *lsm.DB, rng *rand.Rand, m map[string]string, name string,
	kinds bool) {
	t.Helper()
	key := fmt.Sprintf("key%03d", rng.IntN(200))
	if rng.IntN(50) == 0 {
		key = ""
	}
	value := strings.Repeat(fmt.Sprint("v", rng.IntN(1000)), rng.IntN(20))
	if rng.IntN(40) == 0 {
		value = strings.Repeat(value, 1000)
	}
	what := rng.IntN(10)
	if !kinds {
		if what == 0 {
			must(t, db.Delete([]byte(key), lsm.NoSync))
			delete(m, key)
			return
		}
		must(t, db.Put([]byte(key), []byte(value), lsm.NoSync))
		m[key] = live(value, 0)
		return
	}
	k := openSpace(t, db, name)
	switch {
	case what == 0:
		must(t, k.Delete([]byte(key), lsm.NoSync))
		delete(m, key)
	case what == 1 && name != "backward":
		limit := key + "5"
		must(t, k.DeleteRange([]byte(key), []byte(limit), lsm.NoSync))
		maps.DeleteFunc(m, func(at, _ string) bool { return key <= at && at < limit })
	case what == 2:
		ttl := time.Duration(1+rng.IntN(1000)) * time.Second
		must(t, k.PutTTL([]byte(key), []byte(value), ttl, lsm.NoSync))
		m[key] = live(value, ttl)
	case what < 6 && name == "users":
		must(t, k.Merge([]byte(key), []byte(value), lsm.NoSync))
		if old, ok := m[key]; ok {
			m[key] = old + "," + value
		} else {
			m[key] = live(value, 0)
		}
	default:
		must(t, k.Put([]byte(key), []byte(value), lsm.NoSync))
		m[key] = live(value, 0)
	}
}

// written is a dump of a database, whose blocks are small.
func written(t testing.TB, db *lsm.DB, blockBytes int, codec block.Codec) []byte {
	t.Helper()
	var b bytes.Buffer
	s, err := transfer.Dump(ctx, db.Inside(), &b,
		transfer.DumpOptions{Codec: codec, BlockBytes: blockBytes})
	must(t, err)
	if int64(b.Len()) != s.Size {
		t.Fatalf("%d bytes, said are %d", b.Len(), s.Size)
	}
	return b.Bytes()
}

// mustLoad loads a dump.
func mustLoad(t testing.TB, db *lsm.DB, b []byte) *dump.Info {
	t.Helper()
	info, err := dump.Load(ctx, db, bytes.NewReader(b), nil)
	must(t, err)
	return info
}
