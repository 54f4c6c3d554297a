package world

import (
	"fmt"
	"maps"
	"slices"
)

// value is what a key has.
type value struct {
	ok  bool
	v   string
	due int64 // when it expires, in seconds; 0: never
}

// at is the value that reads see at a time.
func (v value) at(now int64) value {
	if v.due != 0 && v.due <= now {
		return value{}
	}
	return v
}

// state is the values of the keys of all keyspaces, by the life of the keyspace. A keyspace
// that is created again under its name has another life.
type state map[int][]value

func (s state) clone() state {
	c := maps.Clone(s)
	for life, values := range c {
		c[life] = slices.Clone(values)
	}
	return c
}

// kind is what an op does.
type kind uint8

const (
	put kind = iota
	del
	merge
	delRange
)

// op is a write of one key, or of the keys from:to.
type op struct {
	kind     kind
	life     int
	from, to int
	v        string
	ttl      int64 // of a put, in seconds; 0: it stays
}

func (o op) String() string {
	v := o.v
	if len(v) > 12 {
		v = fmt.Sprintf("%s..%d", v[:12], len(v))
	}
	s := fmt.Sprintf("%s %d.%d", []string{"put", "del", "merge", "delrange"}[o.kind], o.life,
		o.from)
	if o.kind == delRange {
		s += fmt.Sprintf(":%d", o.to)
	}
	if o.ttl != 0 {
		s += fmt.Sprintf(" ttl %d", o.ttl)
	}
	return s + " " + v
}

// writes reports whether the op is more than a delete of a range without keys.
func (o op) writes() bool { return o.kind != delRange || o.from < o.to }

// covers reports whether the op writes key i.
func (o op) covers(i int) bool {
	return i == o.from && o.kind != delRange || o.kind == delRange && o.from <= i && i < o.to
}

// apply writes an op at a time. A keyspace that the state does not have is passed over.
func (s state) apply(o op, now int64) {
	values, ok := s[o.life]
	if !ok {
		return
	}
	switch o.kind {
	case put:
		values[o.from] = value{ok: true, v: o.v}
		if o.ttl > 0 {
			values[o.from].due = now + o.ttl
		}
	case del:
		values[o.from] = value{}
	case merge:
		v := values[o.from].at(now)
		if v.ok {
			v.v += ","
		}
		values[o.from] = value{ok: true, v: v.v + o.v, due: v.due}
	case delRange:
		for i := o.from; i < o.to; i++ {
			values[i] = value{}
		}
	}
}

// commit is ops that were written together, at one time.
type commit struct {
	ops []op
	now int64
}

// differ describes the first key at which two states differ for reads at a time, within the
// lives of want; "" if none does.
func differ(got, want state, now int64) string {
	for life, values := range want {
		for i := range values {
			var g value
			if i < len(got[life]) {
				g = got[life][i].at(now)
			}
			if w := values[i].at(now); g != w {
				return fmt.Sprintf("keyspace life %d, key %d: %v, want %v", life, i, g, w)
			}
		}
	}
	return ""
}

// String is the value in short; "none" if there is none.
func (v value) String() string {
	if !v.ok {
		return "none"
	}
	s := fmt.Sprintf("%.40q", v.v)
	if len(v.v) > 40 {
		s += fmt.Sprintf("..%d", len(v.v))
	}
	if v.due != 0 {
		s += fmt.Sprintf(" until %d", v.due)
	}
	return s
}
