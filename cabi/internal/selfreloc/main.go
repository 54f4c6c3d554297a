// Selfreloc has a library of Linux apply its packed relocations itself, by cabi/relocate.c:
//
//	go run ./cabi/internal/selfreloc libloam.so
//
// Loaders before glibc 2.36 do not read them, and the linker has the library ask for a newer one.
// The tags of the table in the dynamic section are changed to others, which no loader reads, and
// the version GLIBC_ABI_DT_RELR is taken out. A library whose linker packs none stays as it is.
package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// Tags of the dynamic section: those of the linker, and what relocate.c looks for.
const (
	tagRELRSize  = 35
	tagRELR      = 36
	tagRELREntry = 37
	tagTable     = 0x60004c52
	tagSize      = 0x60004c53
	tagEntry     = 0x60004c54
)

const neededVersion = "GLIBC_ABI_DT_RELR"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./cabi/internal/selfreloc LIBRARY")
		os.Exit(2)
	}
	if err := convertFile(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "selfreloc:", err)
		os.Exit(1)
	}
}

func convertFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := convert(data)
	if err != nil || !changed {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

var le = binary.LittleEndian

// convert changes a library of 64 bits in place, and reports if there was something to change.
func convert(data []byte) (bool, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return false, err
	}
	if f.Class != elf.ELFCLASS64 || f.ByteOrder != binary.ByteOrder(le) {
		return false, errors.New("the library is not one of a 64-bit little-endian processor")
	}
	dynamic := f.SectionByType(elf.SHT_DYNAMIC)
	if dynamic == nil {
		return false, errors.New("the library has no dynamic section")
	}
	tags := map[uint64]uint64{tagRELR: tagTable, tagRELRSize: tagSize, tagRELREntry: tagEntry}
	found := 0
	for at := dynamic.Offset; at+16 <= dynamic.Offset+dynamic.FileSize; at += 16 {
		if own := tags[le.Uint64(data[at:])]; own != 0 {
			le.PutUint64(data[at:], own)
			found++
		}
	}
	if found == 0 {
		return false, nil
	}
	if found != len(tags) {
		return false, fmt.Errorf("the dynamic section has %d of %d tags of packed relocations",
			found, len(tags))
	}
	init, err := f.DynValue(elf.DT_INIT)
	if s := f.Section(".init"); err != nil || len(init) != 1 || s != nil && s.Addr == init[0] {
		return false, errors.New("DT_INIT is not loam_relocate; link with -Wl,-init=loam_relocate")
	}
	return true, dropVersion(f, data)
}

// dropVersion takes neededVersion out of what the library needs of others: lists of lists, whose
// items name the next one by its distance.
func dropVersion(f *elf.File, data []byte) error {
	s := f.SectionByType(elf.SHT_GNU_VERNEED)
	if s == nil {
		return nil
	}
	strings, err := f.Sections[s.Link].Data()
	if err != nil {
		return err
	}
	for library, next := s.Offset, uint64(1); next != 0; library += next {
		next = uint64(le.Uint32(data[library+12:]))
		count := le.Uint16(data[library+2:])
		link := data[library+8:] // the distance to the item, from item
		item := library + uint64(le.Uint32(link))
		for from := library; count > 0; {
			name := strings[le.Uint32(data[item+8:]):]
			step := le.Uint32(data[item+12:])
			if end := bytes.IndexByte(name, 0); string(name[:end]) == neededVersion {
				if count == 1 && from == library {
					return fmt.Errorf("%s is all that a library is needed for", neededVersion)
				}
				if step == 0 {
					le.PutUint32(link, 0)
				} else {
					le.PutUint32(link, uint32(item-from)+step)
				}
				le.PutUint16(data[library+2:], le.Uint16(data[library+2:])-1)
				return nil
			}
			if step == 0 {
				break
			}
			link, from, item = data[item+12:], item, item+uint64(step)
		}
	}
	return nil
}
