package runner

import (
	"bytes"
	"errors"

	"github.com/loamdb/loam/internal/workload"
)

// codecBlock is the size of the blocks that codecs are run over: LevelDB's
// default block size.
const codecBlock = 4096

// reopen closes and opens the database. A cold open is timed alone.
func (t *thread) reopen(spec *workload.Spec) {
	cold := func() error {
		if err := t.r.Close(); err != nil {
			return err
		}
		return DropCache(t.r.Dir)
	}
	for range t.ops {
		if spec.State == workload.Cold {
			if !t.away(cold) {
				return
			}
		} else if err := t.r.Close(); err != nil {
			t.fail(err)
			return
		}
		if err := t.r.open(); err != nil {
			t.fail(err)
			return
		}
		if !t.tick() {
			return
		}
	}
}

// settle ends a bulk load.
func (t *thread) settle() {
	if t.err != nil || t.stop.Load() {
		return
	}
	if err := t.db.Flush(); err != nil {
		t.fail(err)
		return
	}
	if err := t.db.Compact(); err != nil {
		t.fail(err)
	}
}

func (t *thread) compact() {
	if err := t.db.Compact(); err != nil {
		t.fail(err)
		return
	}
	t.tick()
}

// compactAgain is a background compactor: it goes on until the measured threads end, and
// compacts once at least.
func (t *thread) compactAgain() {
	for more := true; more; more = !t.quit.Load() && !t.stop.Load() {
		if err := t.db.Compact(); err != nil {
			t.fail(err)
			return
		}
		t.done++
	}
}

func (t *thread) codec(spec *workload.Spec) {
	c, ok := t.r.Driver.Codec(spec.Subject)
	if !ok {
		t.fail(errors.New("no " + spec.Subject))
		return
	}
	if c.Close != nil {
		defer c.Close()
	}
	input := t.vals.Next(codecBlock)
	if c.Decode == nil { // a checksum
		input = bytes.Repeat([]byte{'x'}, codecBlock)
	}
	packed := c.Encode(nil, input)
	var out []byte
	var err error
	for range t.ops {
		if spec.Decode {
			if out, err = c.Decode(out[:0], packed); err != nil {
				t.fail(err)
				return
			}
		} else {
			packed = c.Encode(packed[:0], input)
		}
		t.in += codecBlock
		t.out += int64(len(packed))
		if !t.tick() {
			break
		}
	}
	if spec.Decode && !bytes.Equal(out, input) {
		t.fail(errors.New("decoded data differs from what was encoded"))
	}
	t.bytes = t.in
}
