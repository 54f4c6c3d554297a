package importers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm"
)

// memory is a source in memory; fail, if it is not nil, is called before each entry.
type memory struct {
	spaces  []string
	entries map[string][]Entry
	fail    func(i int) error
}

func (m *memory) Spaces() []string { return m.spaces }
func (m *memory) Close() error     { return nil }

func (m *memory) Each(space string, visit func(Entry) error) error {
	for i, e := range m.entries[space] {
		if m.fail != nil {
			if err := m.fail(i); err != nil {
				return err
			}
		}
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

// Years in which entries expire.
const (
	never = 0
	past  = 2000
	later = 2090
)

func entry(i, year int) Entry {
	e := Entry{Key: fmt.Appendf(nil, "key %05d", i), Value: fmt.Appendf(nil, "value %d", i)}
	if year != never {
		e.Expires = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return e
}

func trees() *memory {
	m := &memory{spaces: []string{Default, "ash/leaf"}, entries: map[string][]Entry{}}
	for i := range 3000 {
		m.entries[Default] = append(m.entries[Default], entry(i, never))
	}
	m.entries["ash/leaf"] = []Entry{entry(7, later), entry(3, never), entry(5, past)}
	return m
}

// content reads a keyspace.
func content(t *testing.T, dir, space string) map[string]string {
	t.Helper()
	db, err := lsm.Open(dir, &lsm.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k, err := db.Keyspace(space, &lsm.KeyspaceOptions{ErrorIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for key, value := range k.All(nil, nil, &err) {
		got[string(key)] = string(value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// nothingLeft fails if a directory has anything.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}

func TestConvert(t *testing.T) {
	to := filepath.Join(t.TempDir(), "new")
	var last uint64
	r, err := Convert(context.Background(), trees(), to, func(n uint64) { last = n })
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, to, Default); len(got) != 3000 || got["key 02999"] != "value 2999" {
		t.Errorf("%d entries in the default keyspace", len(got))
	}
	if got := content(t, to, "ash/leaf"); len(got) != 2 || got["key 00007"] != "value 7" {
		t.Errorf("ash/leaf has %v", got)
	}
	db, err := lsm.Open(to, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k, _ := db.Keyspace("ash/leaf", nil)
	left, expires, err := k.TTL([]byte("key 00007"))
	if err != nil || !expires || left < 24*365*time.Hour {
		t.Errorf("time to live %v %v %v", left, expires, err)
	}
	if r.Spaces[0].Entries != 3000 || r.Spaces[1].Entries != 2 || r.Spaces[1].Expired != 1 ||
		last != r.Spaces[0].Bytes+r.Spaces[1].Bytes {
		t.Errorf("report %+v, progress %d", r, last)
	}
	if _, err := Convert(context.Background(), trees(), to, nil); !errors.Is(err, lsm.ErrExists) {
		t.Errorf("over a database that is there: %v", err)
	}
	if _, err := Convert(context.Background(), trees(), "", nil); !errors.Is(err,
		lsm.ErrInvalidArgument) {
		t.Errorf("into no name: %v", err)
	}
}

// TestConvertNothing: the report about a source without spaces has an empty list of them, and the
// name of the new database may have parts that mean nothing.
func TestConvertNothing(t *testing.T) {
	dir := t.TempDir()
	r, err := Convert(t.Context(), &memory{}, dir+"/x/../new/.", nil)
	text, failed := json.Marshal(r)
	if err != nil || failed != nil || string(text) != `{"keyspaces":[]}` {
		t.Errorf("%s, %v, %v", text, err, failed)
	}
	if got := content(t, filepath.Join(dir, "new"), Default); len(got) > 0 {
		t.Errorf("%d entries", len(got))
	}
}

// TestConvertPanics: a panic of the source is an error, and nothing is left.
func TestConvertPanics(t *testing.T) {
	dir := t.TempDir()
	m := trees()
	m.fail = func(i int) error {
		if i == 1500 {
			panic("a damaged page")
		}
		return nil
	}
	_, err := Convert(context.Background(), m, filepath.Join(dir, "new"), nil)
	if err == nil || !strings.Contains(err.Error(), "a damaged page") {
		t.Error(err)
	}
	nothingLeft(t, dir)
}

// TestConvertFails lets the source fail at its first, a middle and its last entry, and the context
// end at each: the error comes back and nothing is left.
func TestConvertFails(t *testing.T) {
	broken := errors.New("broken")
	for _, at := range []int{0, 1500, 2999} {
		dir := t.TempDir()
		m := trees()
		m.fail = func(i int) error {
			if i == at {
				return broken
			}
			return nil
		}
		if _, err := Convert(context.Background(), m, filepath.Join(dir, "new"), nil); !errors.Is(
			err, broken) {
			t.Errorf("entry %d: %v", at, err)
		}
		nothingLeft(t, dir)
		ctx, cancel := context.WithCancel(context.Background())
		m.fail = func(i int) error {
			if i == at {
				cancel()
			}
			return nil
		}
		if _, err := Convert(ctx, m, filepath.Join(dir, "new"), nil); !errors.Is(
			err, context.Canceled) {
			t.Errorf("cancelled at entry %d: %v", at, err)
		}
		nothingLeft(t, dir)
	}
}

// TestConvertStopsVerifying ends the context once all is written.
func TestConvertStopsVerifying(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	c := conversion{ctx: ctx, from: trees(), progress: func(uint64) {}}
	if err := c.write(filepath.Join(dir, "new")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.verify(filepath.Join(dir, "new")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestConvertDiffers: a key that the source has twice, and a database that changes before it is
// read, are found.
func TestConvertDiffers(t *testing.T) {
	dir := t.TempDir()
	m := trees()
	m.entries[Default][1].Key = m.entries[Default][0].Key
	_, err := Convert(context.Background(), m, filepath.Join(dir, "new"), nil)
	if !errors.Is(err, ErrDiffers) {
		t.Errorf("a key twice: %v", err)
	}
	nothingLeft(t, dir)

	one, three, seven := []byte("key 00001"), []byte("key 00003"), []byte("key 00007")
	value := []byte("value 7")
	for what, change := range map[string]func(db *lsm.DB, leaf *lsm.Keyspace) error{
		"one less":  func(db *lsm.DB, _ *lsm.Keyspace) error { return db.Delete(one, 0) },
		"one more":  func(db *lsm.DB, _ *lsm.Keyspace) error { return db.Put([]byte("x"), nil, 0) },
		"a value":   func(db *lsm.DB, _ *lsm.Keyspace) error { return db.Put(one, nil, 0) },
		"a border":  func(db *lsm.DB, _ *lsm.Keyspace) error { return border(db) },
		"expiring":  func(_ *lsm.DB, k *lsm.Keyspace) error { return k.Delete(seven, 0) },
		"for ever":  func(_ *lsm.DB, k *lsm.Keyspace) error { return k.Put(seven, value, 0) },
		"space 2's": func(_ *lsm.DB, k *lsm.Keyspace) error { return k.Delete(three, 0) },
	} {
		c := conversion{ctx: context.Background(), from: trees(), progress: func(uint64) {}}
		at := filepath.Join(t.TempDir(), "new")
		if err := c.write(at); err != nil {
			t.Fatal(err)
		}
		if err := c.verify(at); err != nil {
			t.Fatal(err)
		}
		db, err := lsm.Open(at, nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := db.Keyspace("ash/leaf", nil)
		if err = errors.Join(err, change(db, leaf), db.Close()); err != nil {
			t.Fatal(err)
		}
		if err := c.verify(at); !errors.Is(err, ErrDiffers) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// border moves a byte from a value to its key.
func border(db *lsm.DB) error {
	return errors.Join(db.Delete([]byte("key 00001"), 0),
		db.Put([]byte("key 00001v"), []byte("alue 1"), 0))
}

// TestCompareExpiring: entries whose time came may be gone, none may be new.
func TestCompareExpiring(t *testing.T) {
	was, now := total{name: "a"}, total{name: "a"}
	first := entry(1, later)
	was.add(first)
	was.add(entry(2, later+1))
	now.add(entry(2, later+1))
	if err := was.compare(&now, first.Expires.Add(-1)); !errors.Is(err, ErrDiffers) {
		t.Errorf("before the time of the first: %v", err)
	}
	if err := was.compare(&now, first.Expires); err != nil {
		t.Errorf("after it: %v", err)
	}
	for i := range 2 {
		now.add(entry(3+i, later))
	}
	if err := was.compare(&now, first.Expires); !errors.Is(err, ErrDiffers) {
		t.Errorf("with entries that were not there: %v", err)
	}
}

// TestConvertStage: what a killed conversion left is replaced, what others have under that name is
// not touched.
func TestConvertStage(t *testing.T) {
	dir := t.TempDir()
	to, stage := filepath.Join(dir, "new"), filepath.Join(dir, "new.importing")
	c := conversion{ctx: context.Background(), from: trees(), progress: func(uint64) {}}
	if err := errors.Join(os.Mkdir(stage, 0o700), os.WriteFile(filepath.Join(stage, mark), nil,
		0o600), c.write(stage)); err != nil {
		t.Fatal(err)
	}
	small := &memory{spaces: []string{Default},
		entries: map[string][]Entry{Default: {entry(1, never)}}}
	if _, err := Convert(context.Background(), small, to, nil); err != nil {
		t.Fatal(err)
	}
	if got := content(t, to, Default); len(got) != 1 {
		t.Errorf("%d entries", len(got))
	}
	if _, err := os.Stat(filepath.Join(to, mark)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark is there: %v", err)
	}
	for what, make := range map[string]func() error{
		"a file":     func() error { return os.WriteFile(stage, []byte("x"), 0o600) },
		"a link":     func() error { return os.Symlink(to, stage) },
		"a document": func() error { return errors.Join(os.Mkdir(stage, 0o700), note(stage)) },
		"a database": func() error { return c.write(stage) },
	} {
		other := filepath.Join(dir, "other")
		stage = other + ".importing"
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if _, err := Convert(context.Background(), small, other, nil); !errors.Is(err,
			lsm.ErrExists) {
			t.Errorf("%s: %v", what, err)
		}
		if what == "a database" {
			if got := content(t, stage, Default); len(got) < 2 {
				t.Errorf("%s: %d entries", what, len(got))
			}
		}
		if _, err := os.Stat(stage); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := content(t, to, Default); len(got) != 1 {
			t.Errorf("%s: the other database has %d entries", what, len(got))
		}
		if err := os.RemoveAll(stage); err != nil {
			t.Fatal(err)
		}
	}
}

func note(dir string) error {
	return os.WriteFile(filepath.Join(dir, "note.txt"), []byte("x"), 0o600)
}

func TestName(t *testing.T) {
	for in, want := range map[string]string{"ash": "ash", "Bäume/ß": "Bäume/ß", "a\x00b": "a%00b",
		"\xff\xfe": "%FF%FE", "100%": "100%25", "�": "�", "a\nb\x7f": "a%0Ab%7F",
		"a\u0085": "a%C2%85", "\u200b\u2028": "\u200b\u2028"} {
		got, err := Name([]byte(in))
		if got != want || err != nil {
			t.Errorf("Name(%q) = %q, %v; want %q", in, got, err, want)
		}
		m := &memory{spaces: []string{got}}
		if _, err := Convert(t.Context(), m, filepath.Join(t.TempDir(), "new"), nil); err != nil {
			t.Errorf("the keyspace of %q: %v", in, err)
		}
	}
	for _, in := range []string{"", strings.Repeat("x", 256), strings.Repeat("\x00", 86)} {
		if got, err := Name([]byte(in)); !errors.Is(err, ErrUnsupported) {
			t.Errorf("Name(%.10q) = %q, %v", in, got, err)
		}
	}
	var n Names
	if err := errors.Join(n.Add("a"), n.Add("b")); err != nil {
		t.Error(err)
	}
	if err := n.Add("a"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a name twice: %v", err)
	}
}
