package logs

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// TestEngines does with each engine what the benchmark does, and opens it again.
func TestEngines(t *testing.T) {
	for _, e := range Engines {
		t.Run(e.Name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "log")
			for life := range 2 {
				l, err := e.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				if life == 0 {
					store(t, l, 1, 20, 1)
					must(t, l.DeleteRange(1, 4))
					must(t, l.DeleteRange(16, 20))
					store(t, l, 16, 18, 2)
				}
				first, err := l.FirstIndex()
				must(t, err)
				last, err := l.LastIndex()
				must(t, err)
				if first != 5 || last != 18 {
					t.Errorf("life %d: entries %d to %d, want 5 to 18", life, first, last)
				}
				var got raft.Log
				for i := first; i <= last; i++ {
					must(t, l.GetLog(i, &got))
					if term := 1 + (i / 16); got.Index != i || got.Term != term ||
						!bytes.Equal(got.Data, bytes.Repeat([]byte{byte(i)}, 3000)) {
						t.Errorf("entry %d is %d of term %d", i, got.Index, got.Term)
					}
				}
				for _, i := range []uint64{4, 19} {
					if err := l.GetLog(i, &got); err != raft.ErrLogNotFound {
						t.Errorf("entry %d: %v", i, err)
					}
				}
				must(t, l.Close())
			}
		})
	}
	if _, err := Find("none"); err == nil {
		t.Error("there is an engine named none")
	}
}

func store(t *testing.T, l Log, first, last, term uint64) {
	var logs []*raft.Log
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term,
			Data: bytes.Repeat([]byte{byte(i)}, 3000)})
	}
	must(t, l.StoreLogs(logs))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
