package mergeop

import (
	"bytes"
	"encoding/json"

	"github.com/loamdb/loam/internal/base"
)

// object is a JSON object whose members are not parsed. Numbers and strings keep their
// spelling; of members with the same name the last one counts.
type object map[string]json.RawMessage

var null = json.RawMessage("null")

// parseObject returns the object in text, or nil if text is another JSON value.
func parseObject(text []byte) (object, error) {
	if !json.Valid(text) {
		return nil, base.Invalidf("not JSON")
	}
	return asObject(text), nil
}

// asObject is parseObject of text that is known to be valid.
func asObject(text []byte) object {
	var o object
	if text = bytes.TrimLeft(text, " \t\r\n"); text[0] != '{' || json.Unmarshal(text, &o) != nil {
		return nil
	}
	return o
}

// append appends o without spaces, its members sorted by name.
func (o object) append(dst []byte) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// patchFull applies merge patches, RFC 7396.
func patchFull(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	target := null
	if existing != nil {
		if !json.Valid(existing) {
			return nil, base.Invalidf("the existing value is not JSON")
		}
		target = existing
	}
	for _, p := range operands {
		patch, err := parseObject(p)
		if err != nil {
			return nil, err
		}
		if patch == nil {
			target = p
			continue
		}
		if target, err = patched(target, patch); err != nil {
			return nil, err
		}
	}
	return append(dst, target...), nil
}

// patched is the function MergePatch of RFC 7396 for a patch that is an object.
func patched(target json.RawMessage, patch object) (json.RawMessage, error) {
	o := asObject(target)
	if o == nil {
		o = object{}
	}
	for name, p := range patch {
		if string(p) == "null" {
			delete(o, name)
			continue
		}
		sub := asObject(p)
		if sub == nil {
			o[name] = p
			continue
		}
		old, ok := o[name]
		if !ok {
			old = null
		}
		v, err := patched(old, sub)
		if err != nil {
			return nil, err
		}
		o[name] = v
	}
	return o.append(nil)
}

// patchPartial joins two patches. There is no patch that does what two do where the left
// one sets a member to something that is no object, or removes it, and the right one
// changes the same member by an object: a patch cannot replace an object by another.
func patchPartial(dst, _, left, right []byte) ([]byte, bool) {
	r, err := parseObject(right)
	if err != nil || !json.Valid(left) {
		return nil, false
	}
	if r == nil {
		return append(dst, right...), true
	}
	l := asObject(left)
	if l == nil || !joined(l, r) {
		return nil, false
	}
	out, err := l.append(dst)
	return out, err == nil
}

// joined adds the patch r to the patch l. Where it reports false, l is spoilt.
func joined(l, r object) bool {
	for name, p := range r {
		sub, old := asObject(p), l[name]
		if sub == nil || old == nil {
			l[name] = p
			continue
		}
		into := asObject(old)
		if into == nil || !joined(into, sub) {
			return false
		}
		v, err := into.append(nil)
		if err != nil {
			return false
		}
		l[name] = v
	}
	return true
}
