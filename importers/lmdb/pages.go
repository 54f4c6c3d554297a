//go:build cgo

package lmdb

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/PowerDNS/lmdb-go/lmdb"
)

// checkWhole fails where the file ends before a page that the transaction can reach. LMDB maps the
// file, and a read behind its end ends the process.
//
// A file may be shorter than its meta page says: a page that was allocated and freed in one
// transaction is not written. So the trees are walked, if the file is short.
func checkWhole(path string, env *lmdb.Env, tx *lmdb.Txn) error {
	info, err := env.Info()
	if err != nil {
		return err
	}
	stat, err := env.Stat()
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Stat()
	if err != nil {
		return err
	}
	p := &pages{file: f, size: int64(stat.PSize), have: uint64(size.Size()) / uint64(stat.PSize)}
	if p.have > uint64(info.LastPNO) || strconv.IntSize != 64 { // fields have other places then
		return nil
	}
	p.seen = make([]bool, p.have)
	for i := range uint64(2) {
		meta, err := p.read(i)
		if err != nil {
			return err
		}
		if word(meta[metaTxn:]) == uint64(tx.ID()) {
			return p.check(word(meta[metaMain+dbRoot:]))
		}
	}
	return nil // a writer is at work, which keeps its file whole
}

// Places in a page, as mdb.c has them on machines of 64 bits.
const (
	pageFlags = 10 // 2 bytes
	pageLower = 12 // 2 bytes: where the list of nodes ends
	pageCount = 12 // 4 bytes: of the first overflow page, how many they are
	pageNodes = 16 // 2 bytes each: where a node is
	nodeFlags = 4
	nodeKey   = 6 // its length
	nodeHead  = 8
	dbRoot    = 40
	dbSize    = 48
	metaMain  = pageNodes + 24 + dbSize
	metaTxn   = metaMain + dbSize + 8
)

// Flags of pages and of nodes.
const (
	branchPage = 1
	leafPage   = 2
	fixedPage  = 0x20 // P_LEAF2: a leaf of keys alone
	bigNode    = 1
	treeNode   = 2 // F_SUBDATA
)

// noPage is the root of an empty tree.
const noPage = math.MaxUint64

// pages are those of a file.
type pages struct {
	file *os.File
	size int64
	have uint64 // whole pages
	seen []bool
}

func half(b []byte) int    { return int(binary.NativeEndian.Uint16(b)) }
func word(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

func (p *pages) read(number uint64) ([]byte, error) {
	if number >= p.have {
		return nil, fmt.Errorf("the file is cut: it has %d pages, and page %d is in use", p.have,
			number)
	}
	b := make([]byte, p.size)
	_, err := p.file.ReadAt(b, int64(number)*p.size)
	return b, err
}

// check reads the tree below a page.
func (p *pages) check(number uint64) error {
	if number == noPage {
		return nil
	}
	b, err := p.read(number)
	if err != nil {
		return err
	}
	if p.seen[number] {
		return fmt.Errorf("page %d is damaged: it is in two places of the trees", number)
	}
	p.seen[number] = true
	flags, lower := half(b[pageFlags:]), half(b[pageLower:])
	if flags&(branchPage|leafPage) == 0 || lower > len(b) {
		return fmt.Errorf("page %d is damaged", number)
	}
	if flags&fixedPage != 0 {
		return nil
	}
	for at := pageNodes; at+2 <= lower; at += 2 {
		place := half(b[at:])
		if place+nodeHead > len(b) {
			return fmt.Errorf("page %d is damaged", number)
		}
		if err := p.checkNode(number, b[place:], flags&branchPage != 0); err != nil {
			return err
		}
	}
	return nil
}

// checkNode reads what a node of a page refers to.
func (p *pages) checkNode(number uint64, node []byte, branch bool) error {
	flags, low := half(node[nodeFlags:]), uint64(binary.NativeEndian.Uint32(node))
	if branch {
		return p.check(low | uint64(flags)<<32)
	}
	if flags&(bigNode|treeNode) == 0 {
		return nil
	}
	data := nodeHead + half(node[nodeKey:])
	if data+dbSize > len(node) && (flags&treeNode != 0 || data+8 > len(node)) {
		return fmt.Errorf("page %d is damaged", number)
	}
	if flags&treeNode != 0 {
		return p.check(word(node[data+dbRoot:]))
	}
	first := word(node[data:])
	b, err := p.read(first)
	if err == nil {
		_, err = p.read(first + uint64(binary.NativeEndian.Uint32(b[pageCount:])) - 1)
	}
	return err
}
