package main

import (
	"bytes"
	"debug/elf"
	"errors"
)

// preferOwnSymbols sets DT_SYMBOLIC in a shared library. The release build
// carries snappy, zstd and lz4 of its own and exports them; without the mark
// the dynamic linker binds its calls to those of other engines in the process,
// which are of other versions.
func preferOwnSymbols(lib []byte) error {
	f, err := elf.NewFile(bytes.NewReader(lib))
	if err != nil {
		return err
	}
	defer f.Close()
	if marked, err := f.DynValue(elf.DT_SYMBOLIC); err != nil || len(marked) > 0 {
		return err
	}
	s := f.SectionByType(elf.SHT_DYNAMIC)
	if s == nil || f.Class != elf.ELFCLASS64 {
		return errors.New("no dynamic section of a 64-bit library")
	}
	const entry = 16 // tag and value
	if s.Offset > uint64(len(lib)) || s.Size > uint64(len(lib))-s.Offset {
		return errors.New("the dynamic section ends behind the library")
	}
	table := lib[s.Offset : s.Offset+s.Size]
	for ; len(table) >= 2*entry; table = table[entry:] {
		if f.ByteOrder.Uint64(table) != uint64(elf.DT_NULL) {
			continue
		}
		if f.ByteOrder.Uint64(table[entry:]) != uint64(elf.DT_NULL) { // the end must stay one
			break
		}
		f.ByteOrder.PutUint64(table, uint64(elf.DT_SYMBOLIC))
		return nil
	}
	return errors.New("no spare entry in the dynamic section")
}
