package mergeop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/loamdb/loam/internal/base"
)

// The operators that are known by name, under RocksDB's names where it has them.
var (
	uint64Add = Operator{Name: "uint64add", Full: addFull, Partial: addPartial}
	int64Add  = Operator{Name: "int64add", Full: addFull, Partial: addPartial}
	maxOf     = Operator{
		Name: "max",
		Full: func(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
			return best(dst, existing, operands, 1)
		},
		Partial: func(_, _, left, right []byte) ([]byte, bool) {
			return better(left, right, 1), true
		},
	}
	minOf = Operator{
		Name: "min",
		Full: func(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
			return best(dst, existing, operands, -1)
		},
		Partial: func(_, _, left, right []byte) ([]byte, bool) {
			return better(left, right, -1), true
		},
	}
	jsonMerge = Operator{Name: "json_merge", Full: patchFull, Partial: patchPartial}
)

// appendName begins the names of the operators that append. What follows the colon is the
// delimiter; without a colon it is a comma.
const appendName = "append"

// Named finds one of the operators that are known by name; if there is none of that name,
// nil and the names there are.
func Named(name string) (o *Operator, names []string) {
	if delimiter, ok := strings.CutPrefix(name, appendName); ok &&
		(delimiter == "" || delimiter[0] == ':') {
		return appendWith(name, strings.TrimPrefix(delimiter, ":"), delimiter == ""), nil
	}
	for _, o := range []*Operator{&uint64Add, &int64Add, &maxOf, &minOf, &jsonMerge} {
		if o.Name == name {
			return o, nil
		}
		names = append(names, o.Name)
	}
	return nil, append(names, appendName, appendName+":DELIMITER")
}

// addend is the integer of eight bytes, little-endian, as RocksDB's uint64add has it.
func addend(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, base.Invalidf("an integer has 8 bytes, not %d", len(b))
	}
	return binary.LittleEndian.Uint64(b), nil
}

// addFull adds, modulo 1<<64: signed and unsigned sums have the same bits.
func addFull(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	var sum uint64
	if existing != nil {
		v, err := addend(existing)
		if err != nil {
			return nil, fmt.Errorf("the existing value: %w", err)
		}
		sum = v
	}
	for _, o := range operands {
		v, err := addend(o)
		if err != nil {
			return nil, err
		}
		sum += v
	}
	return binary.LittleEndian.AppendUint64(dst, sum), nil
}

func addPartial(dst, _, left, right []byte) ([]byte, bool) {
	a, errA := addend(left)
	b, errB := addend(right)
	if errA != nil || errB != nil {
		return nil, false
	}
	return binary.LittleEndian.AppendUint64(dst, a+b), true
}

// better is the larger of two values, in the order of their bytes, or with sign -1 the
// smaller one.
func better(a, b []byte, sign int) []byte {
	if sign*bytes.Compare(b, a) > 0 {
		return b
	}
	return a
}

func best(dst, existing []byte, operands [][]byte, sign int) ([]byte, error) {
	if existing == nil && len(operands) == 0 {
		return nil, errors.New("nothing to choose from")
	}
	if existing == nil {
		existing = operands[0]
	}
	for _, o := range operands {
		existing = better(existing, o, sign)
	}
	return append(dst, existing...), nil
}

// appendWith makes the operator that appends operands to the existing value, with a
// delimiter between them.
func appendWith(name, delimiter string, comma bool) *Operator {
	if comma {
		delimiter = ","
	}
	return &Operator{
		Name: name,
		Full: func(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
			dst = append(dst, existing...)
			for i, o := range operands {
				if i > 0 || existing != nil {
					dst = append(dst, delimiter...)
				}
				dst = append(dst, o...)
			}
			return dst, nil
		},
		Partial: func(dst, _, left, right []byte) ([]byte, bool) {
			return append(append(append(dst, left...), delimiter...), right...), true
		},
	}
}
