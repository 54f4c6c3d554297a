package mergeop

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/loamdb/loam/internal/base"
)

// node is a JSON value. Objects are parsed once, however deep they nest: a merge takes a time that
// is proportional to the lengths of its arguments. Numbers, strings and arrays keep their spelling,
// and so do objects that no patch has changed; of members with the same name the last one counts.
type node struct {
	text    []byte           // if it is not changed
	members map[string]*node // nil: it is no object
	changed bool
}

// parse parses a JSON value, which fails if text is none.
func parse(text []byte) (*node, error) {
	if !json.Valid(text) {
		return nil, base.Invalidf("not JSON")
	}
	n, _ := cut(text)
	n.text = text
	return n, nil
}

// cut parses the value at the beginning of b, which is part of valid JSON.
func cut(b []byte) (n *node, rest []byte) {
	b, n = trim(b), new(node)
	if b[0] != '{' {
		end := valueLen(b)
		n.text = b[:end]
		return n, b[end:]
	}
	n.members = make(map[string]*node)
	for rest = trim(b[1:]); rest[0] != '}'; {
		end := valueLen(rest)
		var name string
		_ = json.Unmarshal(rest[:end], &name) // it is a string
		n.members[name], rest = cut(trim(rest[end:])[1:])
		if rest = trim(rest); rest[0] == ',' {
			rest = trim(rest[1:])
		}
	}
	rest = rest[1:]
	n.text = b[:len(b)-len(rest)]
	return n, rest
}

func trim(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// valueLen is the length of the value at the beginning of b.
func valueLen(b []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			if quoted = !quoted; !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '[' || c == '{':
			depth++
		case depth == 0 && bytes.IndexByte([]byte(",]} \t\r\n"), c) >= 0: // behind a number
			return i
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}

// append appends n without spaces, the members of changed objects sorted by name. A value that no
// patch has changed is appended as it is.
func (n *node) append(dst []byte) ([]byte, error) {
	if !n.changed {
		return append(dst, n.text...), nil
	}
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	err := n.encode(b, e)
	return b.Bytes(), err
}

// encode writes n to b, to which e writes.
func (n *node) encode(b *bytes.Buffer, e *json.Encoder) error {
	if !n.changed {
		return json.Compact(b, n.text)
	}
	sep := byte('{')
	for _, name := range slices.Sorted(maps.Keys(n.members)) {
		b.WriteByte(sep)
		sep = ','
		if err := e.Encode(name); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // of the newline
		b.WriteByte(':')
		if err := n.members[name].encode(b, e); err != nil {
			return err
		}
	}
	if sep == '{' {
		b.WriteByte(sep)
	}
	return b.WriteByte('}')
}

// patchFull applies merge patches, RFC 7396.
func patchFull(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	target := &node{text: []byte("null")}
	if existing != nil {
		var err error
		if target, err = parse(existing); err != nil {
			return nil, base.Invalidf("the existing value is not JSON")
		}
	}
	for _, p := range operands {
		patch, err := parse(p)
		if err != nil {
			return nil, err
		}
		target = target.patched(patch)
	}
	return target.append(dst)
}

// patched is the function MergePatch of RFC 7396. It may change n.
func (n *node) patched(patch *node) *node {
	if patch.members == nil {
		return patch
	}
	if n == nil || n.members == nil {
		n = &node{members: make(map[string]*node)}
	}
	n.changed = true
	for name, p := range patch.members {
		if string(p.text) == "null" {
			delete(n.members, name)
		} else {
			n.members[name] = n.members[name].patched(p)
		}
	}
	return n
}

// patchPartial joins two patches. There is no patch that does what two do where the left
// one sets a member to something that is no object, or removes it, and the right one
// changes the same member by an object: a patch cannot replace an object by another.
func patchPartial(dst, _, left, right []byte) ([]byte, bool) {
	r, err := parse(right)
	if err != nil {
		return nil, false
	}
	l, err := parse(left)
	if err != nil {
		return nil, false
	}
	if r.members == nil {
		return append(dst, right...), true
	}
	if l.members == nil || !l.joined(r) {
		return nil, false
	}
	out, err := l.append(dst)
	return out, err == nil
}

// joined adds the patch r to the patch n. Where it reports false, n is spoilt.
func (n *node) joined(r *node) bool {
	n.changed = true
	for name, p := range r.members {
		old := n.members[name]
		if p.members == nil || old == nil {
			n.members[name] = p
			continue
		}
		if old.members == nil || !old.joined(p) {
			return false
		}
	}
	return true
}
