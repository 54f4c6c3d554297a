package formats

import (
	"fmt"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/format/sstable/native"
	"github.com/loamdb/loam/internal/os/vfs"
)

// native: a line `file NUMBER keyspace ID`, then lines as of a table.
func encodeNative(lines []string) ([]byte, error) {
	m := vfs.NewMem()
	f, err := m.Create("table")
	if err != nil {
		return nil, err
	}
	words := strings.Fields(lines[0])
	o := sstable.WriterOptions{Comparer: base.Bytewise, FileNum: number(words[1]),
		Keyspace: base.KeyspaceID(number(words[3]))}
	return writeTable(m, native.NewWriter(f, o), lines[1:])
}

func decodeNative(data []byte) ([]string, error) {
	src, err := memFile(data)
	if err != nil {
		return nil, err
	}
	r, err := native.Open(src, blocktable.Env{Name: "table", Comparer: base.Bytewise})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	lines, err := readTable(r)
	return append([]string{fmt.Sprintf("file %d keyspace %d", r.Number, r.Props().Keyspace)},
		lines...), err
}
