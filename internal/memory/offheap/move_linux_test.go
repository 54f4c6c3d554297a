//go:build !unmap

package offheap

import (
	"bytes"
	"testing"
)

// extentOf makes an extent of so many pieces that begin with id and their number, with room for
// another one.
func extentOf(t *testing.T, id byte, pieces int) *Extent {
	t.Helper()
	e, err := NewExtent(max(pieces, 1)*MoveSize, (pieces+1)*MoveSize)
	if err != nil {
		t.Fatal(err)
	}
	if !e.Movable() {
		e.Free()
		t.Skip("the kernel does not map at chosen addresses")
	}
	for i := range pieces {
		copy(e.mem[i*MoveSize:], []byte{id, byte(i)})
		e.mem[(i+1)*MoveSize-1] = id
	}
	return e
}

// TestPagesMove moves the pieces of one extent to another one, the last ones first, which has them
// behind its own. What is in use are the bytes of both.
func TestPagesMove(t *testing.T) {
	before := InUse()
	const pieces = 3
	from, to := extentOf(t, 'a', pieces), extentOf(t, 'b', 1)
	to.Free()
	to, err := NewExtent(MoveSize, (pieces+2)*MoveSize)
	if err != nil {
		t.Fatal(err)
	}
	copy(to.mem, "own")
	if err := from.Grow(pieces*MoveSize + 1); err != nil { // behind a whole piece
		t.Fatal(err)
	}
	for i := range pieces + 1 {
		if err := to.Grow((i + 2) * MoveSize); err != nil {
			t.Fatal(err)
		}
		if moved := to.TakeLast(from); moved != (i < pieces) {
			t.Fatalf("piece %d: moved %v", i, moved)
		}
		if left := max(pieces-1-i, 0) * MoveSize; from.Len() != left {
			t.Fatalf("piece %d: %d bytes are left, want %d", i, from.Len(), left)
		}
		if n := InUse() - before; n != int64(from.Len()+to.Len()) {
			t.Fatalf("%d bytes are in use, want %d and %d", n, from.Len(), to.Len())
		}
	}
	for i := range pieces + 1 {
		piece := to.mem[(i+1)*MoveSize : (i+2)*MoveSize]
		want := []byte{'a', byte(pieces - 1 - i)}
		if i == pieces {
			want = []byte{0, 0}
		}
		if !bytes.HasPrefix(piece, want) || piece[MoveSize-1] != want[0] {
			t.Errorf("piece %d is that of %q, want %q", i, piece[:2], want)
		}
	}
	if !bytes.HasPrefix(to.mem, []byte("own")) {
		t.Error("the first piece is not its own")
	}
	from.Free()
	again := extentOf(t, 'c', pieces) // at the addresses of from, perhaps
	again.Free()
	to.Free()
	if n := InUse() - before; n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// TestRefusedMove has the kernel refuse a move, as there is no memory to move: the extent goes
// on with memory of its own, and nothing moves any more.
func TestRefusedMove(t *testing.T) {
	defer movesFailed.Store(false)
	before := InUse()
	from, to := extentOf(t, 'a', 1), extentOf(t, 'b', 1)
	unmapPages(from.mem)
	if err := to.Grow(2 * MoveSize); err != nil {
		t.Fatal(err)
	}
	if to.TakeLast(from) || to.Len() != MoveSize || to.Movable() || from.Movable() {
		t.Fatalf("moved what is not there: %d bytes, movable: %v", to.Len(), to.Movable())
	}
	from.Free()
	if err := to.Grow(2 * MoveSize); err != nil {
		t.Fatal(err)
	}
	to.mem[2*MoveSize-1] = 1
	if !bytes.HasPrefix(to.mem, []byte{'b', 0}) || to.mem[MoveSize] != 0 {
		t.Error("other memory after the refusal")
	}
	to.Free()
	if n := InUse() - before; n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}
