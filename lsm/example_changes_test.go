package lsm_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm"
)

// follow copies what is committed in db into mirror, and goes on where it was. db has one keyspace,
// and neither merges nor values that expire.
func follow(ctx context.Context, db, mirror *lsm.DB) error {
	from := uint64(1) // the first write
	at, err := mirror.Get([]byte("!next"), nil)
	switch {
	case err == nil:
		from = binary.BigEndian.Uint64(at)
	case !errors.Is(err, lsm.ErrNotFound):
		return err
	}
	feed, err := db.Changes(from, nil)
	if err != nil {
		return err // ErrGap: begin with a checkpoint
	}
	defer feed.Close()
	for {
		change, err := feed.Next(ctx) // waits
		if err != nil {
			return err
		}
		b := mirror.NewBatch()
		for op := range change.Operations() {
			switch op.Op {
			case lsm.OpPut:
				b.Put(op.Key, op.Value)
			case lsm.OpDelete:
				b.Delete(op.Key)
			case lsm.OpDeleteRange:
				b.DeleteRange(op.Key, op.Value)
			default:
				return fmt.Errorf("%s of %q: the mirror takes none", op.Op, op.Key)
			}
		}
		b.Put([]byte("!next"), binary.BigEndian.AppendUint64(nil, change.Next()))
		if err := mirror.Write(b, lsm.NoSync); err != nil {
			return err
		}
	}
}

func ExampleDB_Changes() {
	db, done := open()
	defer done()
	mirror, done := open()
	defer done()
	mirrored, err := mirror.Changes(0, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, write := range []func() error{
		func() error { return db.Put([]byte("apple"), []byte("red"), lsm.NoSync) },
		func() error { return db.Put([]byte("pear"), []byte("green"), lsm.NoSync) },
		func() error { return db.Delete([]byte("apple"), lsm.NoSync) },
	} {
		if err := write(); err != nil {
			log.Fatal(err)
		}
		// Until the mirror has it.
		ctx, cancel := context.WithCancel(context.Background())
		followed := make(chan error)
		go func() { followed <- follow(ctx, db, mirror) }()
		if _, err := mirrored.Next(context.Background()); err != nil {
			log.Fatal(err)
		}
		cancel()
		if err := <-followed; !errors.Is(err, context.Canceled) {
			log.Fatal(err)
		}
	}
	if err := mirrored.Close(); err != nil {
		log.Fatal(err)
	}
	for key, value := range mirror.All(nil, nil, &err) {
		if string(key) != "!next" {
			fmt.Printf("%s: %s\n", key, value)
		}
	}
	must(err)
	// Output:
	// pear: green
}

// TestChangesPage: the code of docs/changes.md is that of the example.
func TestChangesPage(t *testing.T) {
	page, err := os.ReadFile("../docs/changes.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_changes_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Error("no code")
	}
	for _, b := range blocks {
		if code, _, _ := strings.Cut(b, "```"); !strings.Contains(string(source), code) {
			t.Errorf("example_changes_test.go does not have\n%s", code)
		}
	}
}
