package formats

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/feature/transfer"
	"github.com/loamdb/loam/internal/format/block"
)

// dump: `id HEX`, `created N`, `sequence N`, keyspaces with their comparers, `merge` operators and
// `expires`, then blocks of `put "k" "v"`, with `until N` behind those that expire.
func encodeDump(lines []string) ([]byte, error) {
	var (
		out    bytes.Buffer
		h      transfer.Header
		spaces []transfer.Space
		e      *transfer.Encoder
		at     int
	)
	begin := func(codec block.Codec) (err error) {
		if e == nil {
			// Each entry that is longer than a block has one of its own.
			e, err = transfer.NewEncoder(&out, transfer.DumpOptions{Codec: codec, BlockBytes: 20},
				h, func(*transfer.Encoder) {})
			err = cmp.Or(err, e.Begin(spaces))
		}
		return err
	}
	for _, line := range lines {
		words, err := fields(line)
		if err != nil {
			return nil, err
		}
		switch words[0] {
		case "id":
			_, err = hex.Decode(h.ID[:], []byte(words[1]))
		case "created":
			h.Created = number(words[1])
		case "sequence":
			h.Seq = number(words[1])
		case "keyspace":
			s := transfer.Space{Name: words[1], Comparer: &base.Comparer{Name: words[3]},
				Expires: words[len(words)-1] == "expires"}
			if len(words) > 5 {
				s.Merge = &mergeop.Operator{Name: words[5]}
			}
			spaces = append(spaces, s)
		case "block":
			at = int(number(words[1]))
			codec := block.None
			if len(words) > 2 {
				codec = block.Snappy
			}
			err = begin(codec)
		case "put":
			until := uint64(0)
			if len(words) > 3 {
				until = number(words[4])
			}
			err = e.Put(at, []byte(words[1]), []byte(words[2]), until)
		}
		if err != nil {
			return nil, err
		}
	}
	err := e.End()
	return out.Bytes(), err
}

func decodeDump(data []byte) (lines []string, err error) {
	r := bytes.NewReader(data)
	d, err := transfer.NewDecoder(r)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	lines = []string{fmt.Sprintf("id %x", d.Header.ID), fmt.Sprintf("created %d", d.Header.Created),
		fmt.Sprintf("sequence %d", d.Header.Seq)}
	for _, s := range d.Header.Spaces {
		line := fmt.Sprintf("keyspace %q comparer %q", s.Name, s.Comparer)
		if s.MergeOperator != "" {
			line += fmt.Sprintf(" merge %q", s.MergeOperator)
		}
		if s.Expires {
			line += " expires"
		}
		lines = append(lines, line)
	}
	for more := true; more; {
		at, first := len(data)-r.Len(), true
		more, err = d.Next(func(space int, e transfer.Entry) error {
			if first {
				lines = append(lines, fmt.Sprintf("block %d", space)+strings.Repeat(" snappy",
					int(data[at+1])))
			}
			first = false
			line := fmt.Sprintf("put %q %q", e.Key, e.Value)
			if e.Deadline != 0 {
				line += fmt.Sprintf(" until %d", e.Deadline)
			}
			lines = append(lines, line)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return lines, nil
}
