// Package meeting tells the directory of a node from another one that came with the node's name: a
// node without its log could vote for a leader that lacks what the node has acknowledged.
package meeting

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
)

// Node is the name of a node and the mark of its directory.
type Node struct{ ID, Mark string }

// NewMark returns the mark of a new directory, which no other one has.
func NewMark() string { return rand.Text() }

// Introduce writes a node: its ID and its mark, each behind a byte with its length.
func Introduce(w io.Writer, n Node) error {
	b := append([]byte{byte(len(n.ID))}, n.ID...)
	b = append(append(b, byte(len(n.Mark))), n.Mark...)
	_, err := w.Write(b)
	return err
}

// Listen reads what Introduce writes.
func Listen(r io.Reader) (n Node, err error) {
	if n.ID, err = text(r); err == nil {
		n.Mark, err = text(r)
	}
	return n, err
}

func text(r io.Reader) (string, error) {
	var size [1]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "", err
	}
	b := make([]byte, size[0])
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// Book is the members whose directories a node has met: marks by ID.
type Book map[string]string

// ErrOther says that a member came with another directory. Errors that name it begin with its text.
var ErrOther = errors.New("the cluster has a node of this name already, with another directory")

// Note returns the book with a member: the same one if it has the member. It fails with ErrOther
// where the member had another mark.
func (b Book) Note(n Node) (Book, error) {
	switch b[n.ID] {
	case n.Mark:
		return b, nil
	case "":
		with := Book{n.ID: n.Mark}
		maps.Copy(with, b)
		return with, nil
	}
	return b, fmt.Errorf("%w: remove %q, and give the new one a name that no node ever had",
		ErrOther, n.ID)
}

// Keep returns the book without nodes that are no members: the same one if all are.
func (b Book) Keep(member func(id string) bool) Book {
	kept := Book{}
	for id, mark := range b {
		if member(id) {
			kept[id] = mark
		}
	}
	if len(kept) == len(b) {
		return b
	}
	return kept
}
