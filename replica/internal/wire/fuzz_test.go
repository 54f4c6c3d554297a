package wire

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/loamdb/loam/lsm"
)

// FuzzFrames reads bytes as frames, and their bodies as everything that a body may be. What is
// decoded is encoded to something that decodes to the same.
func FuzzFrames(f *testing.F) {
	f.Add(AppendGreeting(nil, &Greeting{Version: Version, Cluster: "loam", Token: "t"}))
	f.Add(AppendWelcome(nil, &Welcome{"loam", "a"}))
	f.Add(AppendCall(nil, &Call{Number: 1, Op: OpScan}, func(b []byte) []byte {
		return AppendScan(AppendView(b, View{Kind: AtSnapshot, ID: 300}), &Scan{Lower: []byte("a"),
			Upper: []byte{}, Entries: 1, Bytes: 1 << 40})
	}))
	f.Add(AppendError(nil, 1, ErrUnknown))
	c := Change{Once: []byte("x"), Conditions: []Condition{ConditionOf([]byte("a"), nil),
		ConditionOf([]byte("b"), make([]byte, 99))}, Batch: lsm.NewBatch().Bytes(),
		Ranges: []lsm.Range{{Start: []byte("a"), Limit: []byte("b")}}}
	b, err := c.Encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, entry := range [][]byte{b, AppendGroup(nil, [][]byte{b, b})} {
		f.Add(AppendCall(nil, &Call{Op: OpWrite, Args: entry}, nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bufio.NewReader(bytes.NewReader(b))
		for {
			body, err := ReadFrame(in, MaxBody)
			if err != nil {
				break
			}
			decodeAll(t, body)
		}
		decodeAll(t, b) // whatever its checksum is
	})
}

func decodeAll(t *testing.T, body []byte) {
	if g, err := DecodeGreeting(body); err == nil && g.Version == Version {
		if again := AppendGreeting(nil, g); len(again) < len(body) {
			t.Errorf("%+v of %q is %q", g, body, again)
		}
	}
	_, result, _ := DecodeAnswer(body)
	_, _ = DecodeWelcome(result)
	c, err := DecodeCall(body)
	if err != nil {
		return
	}
	f := Fields{Rest: c.Args}
	v := f.View()
	if s := f.Scan(); !f.Bad {
		again := Fields{Rest: AppendScan(AppendView(nil, v), &s)}
		if v2, s2 := again.View(), again.Scan(); v2 != v || s2.Backward != s.Backward ||
			!bytes.Equal(s2.Lower, s.Lower) || (s2.Upper == nil) != (s.Upper == nil) || again.Bad {
			t.Errorf("%+v %+v is again %+v %+v", v, s, v2, s2)
		}
	}
	changes, err := DecodeEntry(c.Args)
	if err != nil {
		return
	}
	for _, x := range changes {
		b, err := x.Encode()
		if err != nil {
			t.Errorf("%+v does not encode: %v", x, err)
			continue
		}
		y, err := DecodeChange(b)
		if err != nil || !bytes.Equal(x.Once, y.Once) || len(x.Conditions) != len(y.Conditions) ||
			len(x.Ranges) != len(y.Ranges) || !bytes.Equal(x.Batch, y.Batch) {
			t.Errorf("%+v is again %+v, %v", x, y, err)
		}
	}
}
