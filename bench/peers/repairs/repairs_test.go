package main

import (
	"strings"
	"testing"
)

// TestLoamLosesLeast holds Loam's repair to the others: on the same directory none keeps more,
// unless it keeps damaged values, and Loam never makes up an entry and never fails.
func TestLoamLosesLeast(t *testing.T) {
	t.Chdir("..")
	rows, err := compare(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		loam := r.results["Loam"]
		for _, name := range []string{"LevelDB", "goleveldb"} {
			if other, ok := r.results[name]; ok && other.wrong == 0 &&
				other.total() < loam.total() {
				t.Errorf("%s: Loam %v, %s %v", r.damage, loam, name, other)
			}
		}
		for _, name := range []string{"Loam", "Loam, native"} {
			if l := r.results[name]; l.failed != "" || l.wrong > 0 {
				t.Errorf("%s: %s: %v", r.damage, name, l)
			}
		}
	}
	if table := markdown(rows); !strings.Contains(table, "| MANIFEST missing | ") {
		t.Error(table)
	}
}

// TestJudge: each way in which a repaired database can differ is counted as its own.
func TestJudge(t *testing.T) {
	got := map[string]string{}
	for i := range keys {
		if p := newest(i); p >= 0 {
			got[keyOf(i)] = valueOf(i, p)
		}
	}
	if r := judge(got); r.total() != 0 {
		t.Fatal(r)
	}
	deleted, replaced := 17, 13 // by the last phase
	delete(got, keyOf(1))
	got[keyOf(deleted)] = valueOf(deleted, 0)
	got[keyOf(replaced)] = valueOf(replaced, 0)
	got[keyOf(2)] = "v"
	got["other"] = ""
	if r := judge(got); r.String() != "1 lost, 1 old, 1 risen, 2 wrong" {
		t.Error(r)
	}
}
