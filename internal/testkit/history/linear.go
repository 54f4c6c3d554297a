// Package history runs concurrent clients against a database and checks what
// they saw: that every key behaves like one register (linearizability), and
// that a sum over many keys is constant in every snapshot (the bank).
package history

import (
	"fmt"
	"sort"
)

// Event is one operation on one key as its client saw it. Call and Return are
// readings of one clock that all clients share.
type Event struct {
	Client       int
	Write        bool
	Value        string // written or read; "" for a delete or a missing key
	Call, Return int64
}

func (e Event) String() string {
	verb := "read"
	if e.Write {
		verb = "write"
	}
	return fmt.Sprintf("client %d %s %q [%d,%d]", e.Client, verb, e.Value, e.Call, e.Return)
}

// node is the call or the return of an event in a list ordered by time.
type node struct {
	id         int
	match      *node // of a call: its return
	prev, next *node
}

// Linearizable reports whether the events of one key, which begins missing,
// can be put in an order in which every read gives what the last write wrote,
// and which keeps the order of events that do not overlap. It is Wing and
// Gong's search with Lowe's memory of states already tried.
func Linearizable(events []Event) bool {
	head := timeline(events)
	done := make([]byte, (len(events)+7)/8)
	tried := map[string]bool{}
	type choice struct {
		call  *node
		state string
	}
	var stack []choice
	state := ""
	for n := head.next; head.next != nil; {
		if n.match == nil { // a return that nothing pending can precede
			if len(stack) == 0 {
				return false
			}
			last := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			state = last.state
			done[last.call.id/8] &^= 1 << (last.call.id % 8)
			putBack(last.call)
			n = last.call.next
			continue
		}
		e := &events[n.id]
		after := state
		if e.Write {
			after = e.Value
		}
		if !e.Write && e.Value != state {
			n = n.next
			continue
		}
		done[n.id/8] |= 1 << (n.id % 8)
		key := string(done) + after
		if tried[key] {
			done[n.id/8] &^= 1 << (n.id % 8)
			n = n.next
			continue
		}
		tried[key] = true
		stack = append(stack, choice{n, state})
		state = after
		takeOut(n)
		n = head.next
	}
	return true
}

// timeline links calls and returns by time behind a head.
func timeline(events []Event) *node {
	type point struct {
		at int64
		n  *node
	}
	points := make([]point, 0, 2*len(events))
	for i, e := range events {
		ret := &node{id: i}
		points = append(points, point{e.Call, &node{id: i, match: ret}}, point{e.Return, ret})
	}
	sort.Slice(points, func(i, j int) bool { return points[i].at < points[j].at })
	head := &node{}
	last := head
	for _, p := range points {
		last.next, p.n.prev = p.n, last
		last = p.n
	}
	return head
}

func takeOut(call *node) {
	for _, n := range []*node{call, call.match} {
		n.prev.next = n.next
		if n.next != nil {
			n.next.prev = n.prev
		}
	}
}

func putBack(call *node) {
	for _, n := range []*node{call.match, call} {
		n.prev.next = n
		if n.next != nil {
			n.next.prev = n
		}
	}
}
