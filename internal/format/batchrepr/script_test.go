package batchrepr

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/script"
)

var kinds = map[string]base.Kind{"put": base.KindSet, "delete": base.KindDelete,
	"merge": base.KindMerge, "delete-range": base.KindRangeDelete}

// TestScript runs testdata/script. Its commands:
//
//	batch seq=N        lines "kind keyspace key value"; shows the bytes and what is read back
//	draft              the same, of a batch that names keyspaces only where a line has one
//	into home=N        the entries of the draft in a batch of the keyspace home
//	bytes              hex bytes of a batch from elsewhere, with known=(keyspaces)
func TestScript(t *testing.T) {
	var draft []byte
	script.Run(t, "testdata/script", func(c *script.Command) string {
		switch c.Name {
		case "batch":
			b := Init(nil)
			for _, line := range c.Lines() {
				keyspace, kind, key, value := entry(c, line)
				b = AppendEntry(b, keyspace, kind, key, value)
			}
			SetSeq(b, base.SeqNum(c.Int("seq", 0)))
			return hex.EncodeToString(b) + "\n" + read(b)
		case "draft":
			draft = Init(nil)
			for _, line := range c.Lines() {
				keyspace, kind, key, value := entry(c, line)
				if strings.Fields(line)[1] == "-" {
					draft = AppendEntry(draft, 0, kind, key, value)
				} else {
					draft = AppendNamed(draft, keyspace, kind, key, value)
				}
			}
			contents, err := ValidateDraft(draft, known(c))
			return fmt.Sprintf("%x\nunnamed %v, names the default one %v, beyond LevelDB %v, %v",
				draft, contents.Unnamed, contents.NamesDefault,
				contents.Kinds.BeyondLevelDB() != 0, err)
		case "into":
			b, ok := AppendDraft(Init(nil), draft, base.KeyspaceID(c.Int("home", 0)), AppendEntry)
			return fmt.Sprintf("%v\n%s", ok, read(b))
		case "bytes":
			b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "").Replace(c.Input))
			if err != nil {
				c.Fail("%v", err)
			}
			if err := Validate(b, known(c)); err != nil {
				return err.Error()
			}
			return read(b)
		}
		return c.Unknown()
	})
}

// entry parses "kind keyspace key value"; keyspace "-" is none.
func entry(c *script.Command, line string) (id base.KeyspaceID, k base.Kind, key, value []byte) {
	f := append(strings.Fields(line), "", "")
	k, ok := kinds[f[0]]
	if !ok {
		c.Fail("there is no kind %q", f[0])
	}
	if n, err := strconv.Atoi(f[1]); err == nil {
		id = base.KeyspaceID(n)
	}
	if key = []byte(f[2]); k != base.KindDelete {
		value = []byte(f[3])
	}
	return id, k, key, value
}

// known is which keyspaces there are; nil where the argument is missing.
func known(c *script.Command) func(base.KeyspaceID) bool {
	if !c.Has("known") {
		return nil
	}
	ids := strings.Join(c.List("known"), " ") + " "
	return func(id base.KeyspaceID) bool { return strings.Contains(ids, fmt.Sprintf("%d ", id)) }
}

func read(b []byte) string {
	var out strings.Builder
	fmt.Fprintf(&out, "sequence %d, count %d", Seq(b), Count(b))
	it := Read(b)
	for {
		id, kind, key, value, ok := it.Next()
		if !ok {
			break
		}
		fmt.Fprintf(&out, "\n%d %v %q", id, kind, key)
		if value != nil {
			fmt.Fprintf(&out, " %q", value)
		}
	}
	if err := it.Err(); err != nil {
		fmt.Fprintf(&out, "\n%v", err)
	}
	return out.String()
}
