package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/testkit/hexdump"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
)

var rewrite = flag.Bool("rewrite", false, "write the bytes of the examples into the page")

const page = "../../../docs/format-loamd.md"

var example = regexp.MustCompile("(?s)```frame\n(.*?)```\n(.*?)```hex\n(.*?)```")

// TestPage encodes the examples of docs/format-loamd.md, in their order, and decodes their bytes.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	frames := examples(t)
	found := example.FindAllSubmatch(text, -1)
	if len(found) != len(frames) {
		t.Fatalf("the page has %d examples, not %d", len(found), len(frames))
	}
	for i, m := range found {
		if *rewrite {
			text = bytes.Replace(text, m[0],
				fmt.Appendf(nil, "```frame\n%s```\n%s```hex\n%s```", m[1],
					m[2], hexdump.Of(frames[i])), 1)
			continue
		}
		b := hexdump.Bytes(t, string(m[3]))
		if !bytes.Equal(b, frames[i]) {
			t.Errorf("%sencodes to\n%s", m[1], hexdump.Of(frames[i]))
		}
		body, err := ReadFrame(bufio.NewReader(bytes.NewReader(b)), MaxBody)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(t, i, body); got != string(m[1]) {
			t.Errorf("the bytes of\n%sare\n%s", m[1], got)
		}
	}
	if *rewrite {
		if err := os.WriteFile(page, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// examples are the frames of the page.
func examples(t *testing.T) [][]byte {
	b := kv.NewBatch()
	b.Put([]byte("ash"), []byte("Fraxinus"))
	b.Delete([]byte("elm"))
	ms := 5000 * time.Millisecond
	written := Change{Once: []byte("order 17"), Batch: b.Bytes(), Conditions: []Condition{
		ConditionOf([]byte("ash"), nil), ConditionOf([]byte("elm"), []byte("Ulmus"))}}
	deleted := Change{Batch: kv.NewBatch().Bytes(), Ranges: []lsm.Range{{Start: []byte("a"),
		Limit: []byte("b")}}}
	encoded := func(c *Change) []byte {
		b, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return [][]byte{
		AppendGreeting(nil, &Greeting{Version: Version, Cluster: "loam", Token: "secret"}),
		AppendWelcome(nil, &Welcome{Cluster: "loam", ID: "a"}),
		AppendCall(nil, &Call{Number: 7, Timeout: ms, Op: OpGet}, func(b []byte) []byte {
			return AppendBytes(AppendView(b, View{}), []byte("ash"))
		}),
		AppendAnswer(nil, 7, func(b []byte) []byte { return append(append(b, 1), "Fraxinus"...) }),
		AppendCall(nil, &Call{Number: 8, Op: OpScan}, func(b []byte) []byte {
			return AppendScan(AppendView(b, View{Kind: AtSnapshot, ID: 3}), &Scan{Backward: true,
				KeysOnly: true, Lower: []byte("a"), Upper: []byte("b"), Entries: 100, Bytes: 4096})
		}),
		AppendAnswer(nil, 8, func(b []byte) []byte {
			return AppendBytes(AppendBytes(append(b, 1, 0), []byte("axe")), []byte("ash"))
		}),
		AppendCall(nil, &Call{Number: 9, Timeout: ms, Op: OpWrite, Args: encoded(&written)}, nil),
		AppendCall(nil, &Call{Number: 10, Timeout: ms, Op: OpWrite, Args: encoded(&deleted)}, nil),
		AppendError(nil, 9, fmt.Errorf("%w: 10.0.0.1:7070: connection lost", ErrUnknown)),
	}
}

// describe decodes a body as the example i has it.
func describe(t *testing.T, i int, body []byte) string {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if i == 0 {
		g, err := DecodeGreeting(body)
		must(err)
		return fmt.Sprintf("greeting of version %d\n%s\ncluster %q\ntoken %q\n", g.Version,
			map[Role]string{Client: "a client", Peer: "a node"}[g.Role], g.Cluster, g.Token)
	}
	if i == 2 || i == 4 || i == 6 || i == 7 {
		c, err := DecodeCall(body)
		must(err)
		return fmt.Sprintf("call %d, %d ms\n%v", c.Number, c.Timeout.Milliseconds(), c.Op) +
			describeCall(t, &c)
	}
	number, result, err := DecodeAnswer(body)
	f := Fields{Rest: result}
	var remote *RemoteError
	switch {
	case errors.As(err, &remote):
		return fmt.Sprintf("answer %d\nerror %#x\n%q\n", number,
			binary.LittleEndian.Uint32(body[4:]), remote.Text)
	case err != nil:
		t.Fatal(err)
	case number == 0:
		w, err := DecodeWelcome(result)
		must(err)
		return fmt.Sprintf("answer 0\ncluster %q\nnode %q\n", w.Cluster, w.ID)
	case number == 7:
		return fmt.Sprintf("answer 7\n%s %q\n", []string{"missing", "found"}[f.One()], f.Rest)
	}
	s := fmt.Sprintf("answer %d\n%s, snapshot %d\n", number, []string{"no more", "more"}[f.One()],
		f.Number())
	for len(f.Rest) > 0 {
		s += fmt.Sprintf("%q\n", f.Bytes())
	}
	return s
}

func describeCall(t *testing.T, c *Call) string {
	f := Fields{Rest: c.Args}
	switch c.Op {
	case OpGet:
		f.View()
		return fmt.Sprintf(", linearizable, %q\n", f.Bytes())
	case OpScan:
		v, s := f.View(), f.Scan()
		return fmt.Sprintf(", snapshot %d, from %q, up to %q%s%s, %d entries, %d bytes\n", v.ID,
			s.Lower, s.Upper, map[bool]string{true: ", backward"}[s.Backward],
			map[bool]string{true: ", keys only"}[s.KeysOnly], s.Entries, s.Bytes)
	}
	x, err := DecodeChange(c.Args)
	if err != nil {
		t.Fatal(err)
	}
	s := "\n"
	if len(x.Once) > 0 {
		s = fmt.Sprintf(", once %q\n", x.Once)
	}
	for _, d := range x.Conditions {
		if s += fmt.Sprintf("if %q is ", d.Key); d.Kind == IsMissing {
			s += "missing\n"
		} else {
			s += fmt.Sprintf("%q\n", d.Want)
		}
	}
	for _, r := range x.Ranges {
		s += fmt.Sprintf("delete from %q up to %q\n", r.Start, r.Limit)
	}
	b, err := lsm.BatchFromBytes(x.Batch)
	if err == nil {
		err = b.Each(func(k, v []byte) error {
			s += fmt.Sprintf("put %q %q\n", k, v)
			return nil
		}, func(k []byte) error {
			s += fmt.Sprintf("delete %q\n", k)
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
