package mergeop

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit/script"
)

// TestScript runs testdata/script. The commands:
//
//	operator NAME         the operator of the commands that follow
//	value existing=V (operands)
//	                      what it makes of an existing value and operands, oldest first. It gets
//	                      the operands at once, newest first, and joined in pairs where it can:
//	                      all have to agree
//
// uint64add and int64add have numbers as values.
func TestScript(t *testing.T) {
	var op *Operator
	script.Run(t, "testdata/script", func(c *script.Command) string {
		switch c.Name {
		case "operator":
			var names []string
			if op, names = Named(c.Args()[0].Key); op == nil {
				return "known are " + strings.Join(names, ", ")
			}
		case "value":
			return value(c, op)
		default:
			return c.Unknown()
		}
		return ""
	})
}

func value(c *script.Command, op *Operator) string {
	numbers := strings.HasSuffix(op.Name, "64add")
	encode := func(s string) []byte {
		n, err := strconv.ParseInt(s, 10, 64)
		if !numbers || err != nil {
			return []byte(s)
		}
		return binary.LittleEndian.AppendUint64(nil, uint64(n))
	}
	operands := c.List("operands")
	var up, down, joined Fold
	existing := func(f *Fold) {
		if c.Has("existing") {
			b := f.Buffer()
			f.Existing(append(b, encode(c.Arg("existing", ""))...), len(b))
		}
	}
	existing(&up)
	existing(&joined)
	var run []byte
	for i, o := range operands {
		up.Operand(append(up.Buffer(), encode(o)...))
		down.Operand(append(down.Buffer(), encode(operands[len(operands)-1-i])...))
		if op.Partial == nil {
			continue
		}
		if run == nil {
			run = encode(o)
			continue
		}
		next, ok, err := op.partial(nil, []byte("k"), run, encode(o))
		if err != nil {
			return "joining: " + err.Error()
		}
		if !ok {
			return "cannot be joined"
		}
		run = next
	}
	existing(&down)
	answers := []*Fold{&up, &down}
	if run != nil {
		joined.Operand(append(joined.Buffer(), run...))
		answers = append(answers, &joined)
	}
	var out []string
	for i, f := range answers {
		v, err := f.Value(op, []byte("k"), f == &down)
		said := string(v)
		switch {
		case err != nil:
			said = err.Error()
		case numbers && len(v) == 8:
			said = fmt.Sprint(int64(binary.LittleEndian.Uint64(v)))
		}
		if i > 0 && said != out[0] {
			return fmt.Sprintf("%q and %q", out[0], said)
		}
		out = append(out, said)
	}
	return out[0]
}
