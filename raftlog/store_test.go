package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// entries are those from first to last.
func entries(first, last, term uint64) (logs []*raft.Log) {
	for i := first; ; i++ {
		if logs = append(logs, entry(i, term, 40)); i == last {
			return logs
		}
	}
}

// holds checks which indexes a Store has, each with its term, and that a reopened one has the same.
func holds(t *testing.T, s **Store, dir string, want ...*raft.Log) {
	t.Helper()
	m := newModel()
	for _, l := range want {
		m.logs[l.Index] = l
	}
	for range 2 {
		if err := m.diff(*s); err != nil {
			t.Fatal(err)
		}
		must(t, (*s).Close())
		*s = open(t, dir, &small)
	}
}

func TestDeleteRange(t *testing.T) {
	for _, c := range []struct {
		name      string
		low, high uint64
		first     []uint64 // pairs of first and last index that stay
	}{
		{"prefix", 10, 14, []uint64{15, 19}},
		{"one at the beginning", 10, 10, []uint64{11, 19}},
		{"prefix from below", 1, 12, []uint64{13, 19}},
		{"suffix", 15, 19, []uint64{10, 14}},
		{"one at the end", 19, 19, []uint64{10, 18}},
		{"suffix to above", 18, 40, []uint64{10, 17}},
		{"middle", 12, 15, []uint64{10, 11, 16, 19}},
		{"one in the middle", 12, 12, []uint64{10, 11, 13, 19}},
		{"all", 10, 19, nil},
		{"everything", 0, math.MaxUint64, nil},
		{"below", 1, 9, []uint64{10, 19}},
		{"above", 20, math.MaxUint64, []uint64{10, 19}},
		{"reversed", 15, 14, []uint64{10, 19}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, &small)
			must(t, s.StoreLogs(entries(10, 19, 1)), s.DeleteRange(c.low, c.high))
			var want []*raft.Log
			for i := 0; i < len(c.first); i += 2 {
				want = append(want, entries(c.first[i], c.first[i+1], 1)...)
			}
			holds(t, &s, dir, want...)
			must(t, s.Close())
		})
	}
}

// TestNeighborsOfGaps removes what lies beside gaps: the bounds are those of entries.
func TestNeighborsOfGaps(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &small)
	defer func() { must(t, s.Close()) }()
	a, b, c := entries(1, 5, 1), entries(11, 15, 2), entries(101, 105, 3)
	must(t, s.StoreLogs(a), s.StoreLogs(b), s.StoreLogs(c))
	holds(t, &s, dir, append(append(a, b...), c...)...)
	must(t, s.DeleteRange(1, 7)) // ends in a gap
	holds(t, &s, dir, append(b, c...)...)
	must(t, s.DeleteRange(50, 200)) // begins in one
	holds(t, &s, dir, b...)
	must(t, s.StoreLog(entry(500, 4, 1)), s.DeleteRange(12, 499))
	holds(t, &s, dir, b[0], entry(500, 4, 1))
}

// TestEntriesAreReplaced stores indexes that are there: the others stay.
func TestEntriesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &small)
	defer func() { must(t, s.Close()) }()
	must(t, s.StoreLogs(entries(1, 10, 1)), s.StoreLogs(entries(6, 7, 2)))
	holds(t, &s, dir, slices.Concat(entries(1, 5, 1), entries(6, 7, 2), entries(8, 10, 1))...)
	must(t, s.StoreLogs(entries(9, 12, 3)))
	holds(t, &s, dir, slices.Concat(entries(1, 5, 1), entries(6, 7, 2), entries(8, 8, 1),
		entries(9, 12, 3))...)
	// As raft does it: the conflict is removed, and then stored.
	must(t, s.DeleteRange(2, 12), s.StoreLogs(entries(2, 4, 4)))
	holds(t, &s, dir, append(entries(1, 1, 1), entries(2, 4, 4)...)...)
	must(t, s.DeleteRange(1, 4), s.StoreLogs(entries(9, 9, 5)), s.StoreLogs(entries(4, 5, 6)))
	holds(t, &s, dir, append(entries(4, 5, 6), entries(9, 9, 5)...)...)
}

func TestHighIndexes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &small)
	defer func() { must(t, s.Close()) }()
	must(t, s.StoreLogs(entries(1<<63-2, 1<<63+2, 7)))
	holds(t, &s, dir, entries(1<<63-2, 1<<63+2, 7)...)
	must(t, s.StoreLogs(entries(math.MaxUint64-1, math.MaxUint64, 8)))
	must(t, s.DeleteRange(1<<63, math.MaxUint64-1))
	want := append(entries(1<<63-2, 1<<63-1, 7), entry(math.MaxUint64, 8, 40))
	holds(t, &s, dir, want...)
	must(t, s.DeleteRange(1<<63-1, math.MaxUint64))
	holds(t, &s, dir, want[0])
	must(t, s.DeleteRange(0, math.MaxUint64))
	holds(t, &s, dir)
}

func TestEntriesKeepTheirFields(t *testing.T) {
	s := open(t, t.TempDir(), &small)
	defer func() { must(t, s.Close()) }()
	at := time.Date(2262, 4, 12, 1, 2, 3, 999999999, time.FixedZone("east", 3600))
	logs := []*raft.Log{
		{Index: 1},
		{Index: 2, Term: math.MaxUint64, Type: 255, Data: []byte{0}, Extensions: []byte{0, 0}},
		{Index: 3, Term: 1, AppendedAt: at, Data: bytes.Repeat([]byte{1}, DefaultMaxEntrySize)},
		{Index: 4, AppendedAt: time.Date(1, 1, 2, 0, 0, 0, 1, time.UTC), Extensions: []byte("e")},
		{Index: 5, AppendedAt: time.Unix(0, 0)},
	}
	m := newModel()
	for _, l := range logs {
		m.logs[l.Index] = l
	}
	must(t, s.StoreLogs(logs), m.diff(s))
	l := *logs[1] // fields that the next entry lacks are emptied
	must(t, s.GetLog(1, &l))
	if l.Term != 0 || l.Data != nil || l.Extensions != nil || !l.AppendedAt.IsZero() {
		t.Errorf("entry 1 is %+v", l)
	}
}

// TestEntriesAreCopies changes what was stored and what was read.
func TestEntriesAreCopies(t *testing.T) {
	s := open(t, t.TempDir(), &small)
	defer func() { must(t, s.Close()) }()
	given, want := entry(6, 1, 40), entry(6, 1, 40)
	must(t, s.StoreLog(given))
	var got raft.Log
	for range 2 {
		clear(given.Data)
		clear(given.Extensions)
		must(t, s.GetLog(6, &got))
		if !bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Extensions, want.Extensions) {
			t.Fatalf("entry 6 is %v", got)
		}
		given = &got
		_ = append(got.Extensions, "overruns"...)
		if !bytes.Equal(got.Data, want.Data) {
			t.Fatal("Extensions has room in Data")
		}
	}
}

func TestBatchesAreRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, &Options{MaxEntrySize: 100})
	must(t, err)
	must(t, s.StoreLogs(entries(1, 3, 1)), s.StoreLogs(nil),
		s.StoreLog(&raft.Log{Index: 4, Data: make([]byte, 90), Extensions: make([]byte, 10)}),
		s.DeleteRange(4, 4))
	large := &raft.Log{Index: 5, Data: make([]byte, 90), Extensions: make([]byte, 11)}
	for _, c := range []struct {
		logs []*raft.Log
		want error
		text string
	}{
		{[]*raft.Log{entry(4, 1, 1), large}, ErrEntryTooLarge,
			"entry 5 has 101 bytes, and Options.MaxEntrySize is 100"},
		{[]*raft.Log{entry(4, 1, 1), nil}, lsm.ErrInvalidArgument, "is nil"},
		{[]*raft.Log{{}}, lsm.ErrInvalidArgument, "index 0"},
		{[]*raft.Log{entry(4, 1, 1), entry(4, 1, 1)}, lsm.ErrInvalidArgument, "above 4"},
		{[]*raft.Log{entry(5, 1, 1), entry(4, 1, 1)}, lsm.ErrInvalidArgument, "above 5"},
	} {
		err := s.StoreLogs(c.logs)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %v with %q", err, c.want, c.text)
		}
	}
	holds(t, &s, dir, entries(1, 3, 1)...)
	must(t, s.Close())
}

func TestStable(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &small)
	for _, key := range []string{"CurrentTerm", ""} {
		v, err := s.Get([]byte(key))
		if v != nil || err != ErrNotFound || err.Error() != "not found" {
			t.Errorf("Get of %q: %q, %v", key, v, err)
		}
		if n, err := s.GetUint64([]byte(key)); n != 0 || err == nil || err.Error() != "not found" {
			t.Errorf("GetUint64 of %q: %d, %v", key, n, err)
		}
	}
	must(t, s.Set(nil, nil), s.Set([]byte("LastVoteCand"), []byte("a:1")),
		s.SetUint64([]byte("CurrentTerm"), 1<<63), s.SetUint64([]byte("CurrentTerm"), 1<<63+1))
	for range 2 {
		empty, err1 := s.Get([]byte{})
		vote, err2 := s.Get([]byte("LastVoteCand"))
		term, err3 := s.GetUint64([]byte("CurrentTerm"))
		if must(t, err1, err2, err3); len(empty) != 0 || string(vote) != "a:1" || term != 1<<63+1 {
			t.Errorf("%q, %q, %d", empty, vote, term)
		}
		if _, err := s.GetUint64([]byte("LastVoteCand")); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("a number of 3 bytes: %v", err)
		}
		must(t, s.DeleteRange(0, math.MaxUint64), s.Close())
		s = open(t, dir, &small)
	}
	must(t, s.Close())
}

func TestCommitIndex(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &small)
	commit := func(want uint64) {
		t.Helper()
		if got, err := s.GetCommitIndex(); got != want || err != nil {
			t.Errorf("commit index %d, %v, want %d", got, err, want)
		}
	}
	reopen := func() {
		t.Helper()
		must(t, s.Close())
		s = open(t, dir, &small)
	}
	must(t, s.StageCommitIndex(3))
	commit(0)
	must(t, s.StoreLogs(entries(1, 2, 1)))
	commit(2) // never above the last entry
	must(t, s.StoreLogs(entries(3, 9, 1)), s.StageCommitIndex(8))
	commit(3) // staged is not stored
	reopen()
	commit(3)
	must(t, s.StoreLogs(entries(10, 10, 1)))
	commit(3) // the process forgot what was staged only
	must(t, s.StageCommitIndex(9), s.StoreLogs(entries(11, 12, 1)), s.DeleteRange(12, 12))
	commit(9)
	must(t, s.DeleteRange(11, 11))
	commit(3)
	must(t, s.DeleteRange(1, 10))
	commit(0)
	must(t, s.StoreLogs(entries(1, 20, 2)))
	commit(0) // a commit index staged for other entries does not apply to these
	reopen()
	commit(0)
	must(t, s.Close())
}

func TestClosed(t *testing.T) {
	s := open(t, t.TempDir(), &small)
	must(t, s.StoreLogs(entries(1, 2, 1)), s.Close())
	var l raft.Log
	_, first := s.FirstIndex()
	_, last := s.LastIndex()
	_, commit := s.GetCommitIndex()
	_, get := s.Get([]byte("k"))
	_, number := s.GetUint64([]byte("k"))
	for i, err := range []error{first, last, commit, get, number, s.GetLog(1, &l),
		s.StoreLog(entry(3, 1, 1)), s.StoreLogs(entries(3, 4, 1)), s.DeleteRange(1, 2),
		s.DeleteRange(7, 8), s.Set([]byte("k"), nil), s.SetUint64([]byte("k"), 1),
		s.StageCommitIndex(1), s.Close()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// TestForeignDirectories opens databases of others, which stay what they are.
func TestForeignDirectories(t *testing.T) {
	made := func(d *lsm.Options, write func(db *lsm.DB) error) string {
		dir := t.TempDir()
		db, err := lsm.Open(dir, d)
		must(t, err)
		must(t, write(db), db.Close())
		return dir
	}
	nothing := func(*lsm.DB) error { return nil }
	other := t.TempDir()
	must(t, os.WriteFile(filepath.Join(other, "data.mdb"), make([]byte, 4096), 0o600),
		os.WriteFile(filepath.Join(other, "CURRENT"), []byte("MANIFEST-000005\n"), 0o600),
		os.WriteFile(filepath.Join(other, "OPTIONS-000007"), []byte("[Version]\n"), 0o600))
	for name, c := range map[string]struct {
		dir  string
		want error
	}{
		"a database": {made(nil, func(db *lsm.DB) error {
			return db.Put([]byte("key"), []byte("value"), lsm.Sync)
		}), ErrNotARaftLog},
		"keyspaces": {made(nil, func(db *lsm.DB) error {
			_, err := db.Keyspace("key", nil)
			return err
		}), ErrNotARaftLog},
		"LevelDB": {made(&lsm.Options{Format: lsm.FormatLevelDB}, func(db *lsm.DB) error {
			return db.Put([]byte("key"), []byte("value"), lsm.Sync)
		}), ErrNotARaftLog},
		"empty, of LevelDB": {made(&lsm.Options{Format: lsm.FormatLevelDB}, nothing),
			ErrNotARaftLog},
		"another encoding": {made(nil, func(db *lsm.DB) error {
			return db.Put([]byte(versionKey), []byte("file"), lsm.Sync)
		}), ErrNotARaftLog},
		"a newer version": {made(nil, func(db *lsm.DB) error {
			return db.Put([]byte(versionKey), []byte{version + 1}, lsm.Sync)
		}), lsm.ErrNewerFormat},
		"another engine": {other, lsm.ErrNotADatabase},
		"other order": {made(&lsm.Options{Comparer: lsm.ReverseBytewiseComparer}, nothing),
			lsm.ErrComparerMismatch},
	} {
		before := contents(t, c.dir)
		if _, err := Open(c.dir, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if after := contents(t, c.dir); after != before {
			t.Errorf("%s: it has %s, and had %s", name, after, before)
		}
	}
	s := open(t, made(nil, nothing), nil) // an empty database becomes a Raft log
	must(t, s.StoreLog(entry(1, 1, 1)), s.Close())
}

// contents is what a database has, or the files of a directory without one.
func contents(t *testing.T, dir string) string {
	for _, c := range []*lsm.Comparer{lsm.BytewiseComparer, lsm.ReverseBytewiseComparer} {
		db, err := lsm.Open(dir, &lsm.Options{ReadOnly: true, Comparer: c})
		if errors.Is(err, lsm.ErrComparerMismatch) {
			continue
		}
		if err != nil {
			files, err := os.ReadDir(dir)
			must(t, err)
			return fmt.Sprint(files)
		}
		text := fmt.Sprint(db.Keyspaces())
		for k, v := range db.All(nil, nil, &err) {
			text += fmt.Sprintf(" %q=%q", k, v)
		}
		must(t, err, db.Close())
		return text
	}
	return ""
}

func TestOptionsAreRefused(t *testing.T) {
	for i, o := range []Options{
		{MaxEntrySize: -1}, {MaxEntrySize: 1<<30 + 1},
		{Database: &lsm.Options{Format: lsm.FormatLevelDB}},
		{Database: &lsm.Options{Comparer: lsm.ReverseBytewiseComparer}},
		{Database: &lsm.Options{Comparers: []*lsm.Comparer{lsm.ReverseBytewiseComparer}}},
		{Database: &lsm.Options{DefaultTTL: time.Hour}},
		{Database: &lsm.Options{CompactionFilter: &lsm.CompactionFilter{}}},
		{Database: &lsm.Options{MergeOperator: &lsm.MergeOperator{}}},
		{Database: &lsm.Options{BlockSize: -1}},
	} {
		dir := filepath.Join(t.TempDir(), "raft")
		if _, err := Open(dir, &o); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("options %d: %v", i, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("options %d: a directory was made", i)
		}
	}
}

// TestReadOnly reads a log, and creates none.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &small)
	if _, err := Open(dir, nil); !errors.Is(err, lsm.ErrLocked) {
		t.Errorf("a second opening: %v", err)
	}
	must(t, s.StoreLogs(entries(1, 4, 1)), s.Close())
	s = open(t, dir, &lsm.Options{ReadOnly: true})
	holdsNow := newModel()
	for _, l := range entries(1, 4, 1) {
		holdsNow.logs[l.Index] = l
	}
	must(t, holdsNow.diff(s))
	if err := s.StoreLog(entry(5, 1, 1)); !errors.Is(err, lsm.ErrReadOnly) {
		t.Errorf("StoreLog: %v", err)
	}
	must(t, holdsNow.diff(s), s.Close())
	empty := t.TempDir()
	db, err := lsm.Open(empty, nil)
	must(t, err)
	must(t, db.Close())
	_, err = Open(empty, &Options{Database: &lsm.Options{ReadOnly: true}})
	if !errors.Is(err, ErrNotARaftLog) {
		t.Errorf("an empty database: %v", err)
	}
}

// TestMalformedValues decodes all prefixes of a value, and changes of its bytes.
func TestMalformedValues(t *testing.T) {
	l := entry(6, 300, 0)
	whole := appendHeader(nil, l, 5)
	var got raft.Log
	if _, err := decode(&got, 6, whole); err != nil || got.Term != 300 || got.Data != nil {
		t.Fatalf("%v, %+v", err, got)
	}
	for n := range whole {
		if _, err := decode(&got, 6, whole[:n:n]); !errors.Is(err, lsm.ErrCorruption) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	for i := range whole {
		for _, b := range []byte{0, 0x7f, 0x80, 0xff} {
			changed := bytes.Clone(whole)
			changed[i] = b
			_, _ = decode(&got, 6, changed) // does not panic
		}
	}
	if _, err := decode(&got, 6, append([]byte{0x80}, whole[1:]...)); err == nil {
		t.Error("an unknown flag is decoded")
	}
}
