package meeting_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/loamdb/loam/replica/internal/meeting"
)

// TestBook: a member has one mark until it is forgotten.
func TestBook(t *testing.T) {
	var b meeting.Book
	for _, n := range []meeting.Node{{"a", "1"}, {"b", "2"}, {"a", "1"}} {
		var err error
		if b, err = b.Note(n); err != nil {
			t.Fatal(err)
		}
	}
	same, err := b.Note(meeting.Node{ID: "b", Mark: "3"})
	if !errors.Is(err, meeting.ErrOther) || len(same) != 2 || same["b"] != "2" {
		t.Errorf("%v, %v", same, err)
	}
	b = b.Keep(func(id string) bool { return id != "b" })
	b, err = b.Note(meeting.Node{ID: "b", Mark: "3"})
	if err != nil || len(b) != 2 || b["a"] != "1" || b["b"] != "3" {
		t.Errorf("%v, %v", b, err)
	}
	if one, other := meeting.NewMark(), meeting.NewMark(); one == other {
		t.Error("two directories have one mark")
	}
}

// TestIntroduce reads what is written, and no part of it.
func TestIntroduce(t *testing.T) {
	var w bytes.Buffer
	if err := meeting.Introduce(&w, meeting.Node{ID: "node", Mark: "mark"}); err != nil {
		t.Fatal(err)
	}
	all := w.Bytes()
	for i := range all {
		if n, err := meeting.Listen(bytes.NewReader(all[:i])); err == nil {
			t.Errorf("of %d bytes: %v", i, n)
		}
	}
	r := bytes.NewReader(append(all, 'x'))
	n, err := meeting.Listen(r)
	rest, _ := io.ReadAll(r) // it does not fail
	if err != nil || n.ID != "node" || n.Mark != "mark" || string(rest) != "x" {
		t.Errorf("%v, %v, then %q", n, err, rest)
	}
}
