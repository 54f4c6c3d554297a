package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// keys is how many keys are ever written; about 4 MB.
const keys = 40000

// phase is a part of the history: one key in puts gets a new value, one in deletes of the others is
// deleted, in random order. Each phase is in tables of its own, the last one in the log.
type phase struct {
	puts, deletes int
	compact       bool
}

var phases = []phase{{1, 0, true}, {3, 5, false}, {7, 11, false}, {13, 17, false}}

// op is a put, or a delete without a value.
type op struct{ key, value string }

func keyOf(i int) string { return fmt.Sprintf("key%05d", i) }

// valueOf is the value that phase p gives to a key: its number, and letters that do not compress.
func valueOf(i, p int) string {
	r := rand.New(rand.NewPCG(uint64(i), uint64(p)))
	b := fmt.Appendf(nil, "%d:", p)
	for range 80 {
		b = append(b, 'a'+byte(r.IntN(26)))
	}
	return string(b)
}

// ops are the operations of a phase.
func (p phase) ops(number int) []op {
	var all []op
	for _, i := range rand.New(rand.NewPCG(1, uint64(number))).Perm(keys) {
		switch {
		case i%p.puts == 0:
			all = append(all, op{keyOf(i), valueOf(i, number)})
		case p.deletes > 0 && i%p.deletes == 0:
			all = append(all, op{key: keyOf(i)})
		}
	}
	return all
}

// newest is what a key holds after all phases: the phase of its value; -1: deleted.
func newest(i int) int {
	for p := len(phases) - 1; ; p-- {
		switch {
		case i%phases[p].puts == 0:
			return p
		case phases[p].deletes > 0 && i%phases[p].deletes == 0:
			return -1
		}
	}
}

// result counts the differences of a repaired database from the one before the damage.
type result struct {
	lost  int // keys that are missing
	old   int // keys with an earlier value than the newest
	risen int // deleted keys that are there again
	wrong int // entries that were never written
	// failed says why there is no database.
	failed string
}

func (r result) String() string {
	if r.failed != "" {
		return r.failed
	}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{r.lost, "lost"}, {r.old, "old"}, {r.risen, "risen"}, {r.wrong, "wrong"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// total counts all keys that are not as they were; a failure is all of them.
func (r result) total() int {
	if r.failed != "" {
		return keys
	}
	return r.lost + r.old + r.risen + r.wrong
}

// judge compares the entries of a database with the history.
func judge(got map[string]string) (r result) {
	seen := 0
	for i := range keys {
		value, there := got[keyOf(i)]
		if there {
			seen++
		}
		want := newest(i)
		switch {
		case !there && want >= 0:
			r.lost++
		case !there || want >= 0 && value == valueOf(i, want):
		case !written(i, value):
			r.wrong++
		case want < 0:
			r.risen++
		default:
			r.old++
		}
	}
	r.wrong += len(got) - seen
	return r
}

// written reports whether any phase gave the value to the key.
func written(i int, value string) bool {
	for p := range phases {
		if i%phases[p].puts == 0 && value == valueOf(i, p) {
			return true
		}
	}
	return false
}
