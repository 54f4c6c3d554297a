package formats

import (
	"fmt"
	"math"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/colblk"
)

var packings = []string{"none", "values", "heap"}

// block: `packing none`, `values` or `heap`, with Snappy, then `entry "key" SEQ:KIND "value"`.
func encodeBlock(lines []string) ([]byte, error) {
	o := colblk.Options{Comparer: base.Bytewise, Codec: base.CodecSnappy}
	for i, name := range packings {
		if lines[0] == "packing "+name {
			o.Packing = colblk.Packing(i)
		}
	}
	var w colblk.Writer
	defer w.Free()
	if err := w.Reset(o); err != nil {
		return nil, err
	}
	for _, line := range lines[1:] {
		words, err := fields(line)
		if err != nil {
			return nil, err
		}
		seq, kind, _ := strings.Cut(words[2], ":")
		t := base.MakeTrailer(base.SeqNum(number(seq)), base.Kind(number(kind)))
		if err := w.Add([]byte(words[1]), t, base.CodecRaw, []byte(words[3])); err != nil {
			return nil, err
		}
	}
	return w.Finish(nil, w.Len())
}

func decodeBlock(data []byte) (lines []string, err error) {
	v, err := colblk.Open(data, base.Bytewise)
	if err != nil {
		return nil, err
	}
	if err := v.CheckOrder(base.Bytewise); err != nil {
		return nil, err
	}
	var heap block.Buffer
	defer heap.Free()
	packing := 0
	if data[12]&0x40 != 0 {
		packing = 2
	} else if data[13]&0x7f != 0 || data[10]&0xf0 != 0 {
		packing = 1
	}
	lines = append(lines, "packing "+packings[packing])
	for i := range v.Len() {
		value, err := v.AppendValue(nil, i, nil, math.MaxInt32, &heap)
		if err != nil {
			return nil, err
		}
		t := v.Trailer(i)
		lines = append(lines, fmt.Sprintf("entry %q %d:%d %q", v.AppendKey(nil, i), t.Seq(),
			t.Kind(), value))
	}
	return lines, nil
}
