package bbolt

import (
	"encoding/binary"
	"fmt"
	"os"
)

// A page has its number, 8 bytes; flags, 2 bytes; how many elements it has, 2 bytes; 4 bytes more.
// An element of a branch page has 8 bytes about its key, and the number of a page, 8 bytes.
const (
	pageHead   = 16
	pageFlags  = 8
	pageCount  = 10
	element    = 16
	branchPage = 1
	leafPage   = 2
)

// pages are those of a file. Its trees are walked before bbolt reads them: it would follow a page
// that refers to itself without end.
type pages struct {
	file *os.File
	size int64
	seen []bool
}

func openPages(path string, size int) (*pages, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return &pages{f, int64(size), make([]bool, info.Size()/int64(size))}, nil
}

// check fails unless the pages below one are those of a tree. 0 is a bucket inside of a page.
func (p *pages) check(number uint64) error {
	if number == 0 {
		return nil
	}
	have := uint64(len(p.seen))
	if number >= have {
		return fmt.Errorf("the file is cut: it has %d pages, and page %d is in use", have, number)
	}
	if p.seen[number] {
		return fmt.Errorf("page %d is damaged: it is in two places of the trees", number)
	}
	p.seen[number] = true
	head := make([]byte, pageHead)
	if _, err := p.file.ReadAt(head, int64(number)*p.size); err != nil {
		return err
	}
	switch binary.NativeEndian.Uint16(head[pageFlags:]) {
	case leafPage:
		return nil
	case branchPage:
	default:
		return fmt.Errorf("page %d is damaged: it is no part of a tree", number)
	}
	elements := make([]byte, element*int(binary.NativeEndian.Uint16(head[pageCount:])))
	if _, err := p.file.ReadAt(elements, int64(number)*p.size+pageHead); err != nil {
		return err
	}
	for ; len(elements) > 0; elements = elements[element:] {
		if err := p.check(binary.NativeEndian.Uint64(elements[element-8:])); err != nil {
			return err
		}
	}
	return nil
}
