package replicate

import (
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestPanicsBehindAPipe: a target that panics, or ends its goroutine, behind a pipe fails that call
// alone, and a reader that panics or ends its goroutine ends the pipe.
func TestPanicsBehindAPipe(t *testing.T) {
	m := newMem()
	p, end := piped(m)
	for text, do := range map[string]func(){"Goexit": runtime.Goexit,
		"no target": func() { panic("no target") }} {
		m.fail = func(string, string, bool) error {
			do()
			return nil
		}
		if err := p.Put(ctx, "a", nil); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	m.fail = nil
	must(t, p.Put(ctx, "a", nil))
	must(t, end())
	for text, do := range map[string]reading{"Goexit": runtime.Goexit,
		"no reader": func() { panic("no reader") }} {
		q := Pipe(do, io.Discard)
		if _, err := q.Get(ctx, "a"); !errors.Is(err, errEnded) ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// reading is a reader that calls a function.
type reading func()

func (do reading) Read([]byte) (int, error) { do(); return 0, io.EOF }

// TestTargetEndsItsGoroutine: a snapshot or a restore fails if the target ends its goroutine.
func TestTargetEndsItsGoroutine(t *testing.T) {
	s := newScript(t)
	s.put("a")
	s.target.fail = func(op, name string, done bool) error {
		if op == "put" && strings.Contains(name, "/snapshot/") {
			runtime.Goexit()
		}
		return nil
	}
	must(t, s.run.step(ctx))
	if err := endJob(s.run); !errors.Is(err, base.ErrGoexit) || !s.run.snapshot.IsZero() {
		t.Errorf("the snapshot: %v", err)
	}
	s.target.fail = nil
	for s.run.snapshot.IsZero() {
		must(t, settle(s.run))
	}
	s.target.fail = func(op, name string, done bool) error {
		if op == "get" && strings.Contains(name, "/snapshot/") &&
			!strings.HasSuffix(name, wholeName) {
			runtime.Goexit()
		}
		return nil
	}
	to := filepath.Join(t.TempDir(), "to")
	if _, err := Restore(ctx, s.target, to, nil); !errors.Is(err, base.ErrGoexit) {
		t.Errorf("the restore: %v", err)
	}
}

// TestTargetPanics: Run fails with a panic of the target.
func TestTargetPanics(t *testing.T) {
	for _, op := range []string{"get", "put", "list"} {
		s := newScript(t)
		s.put("a")
		s.target.fail = func(now, _ string, _ bool) error {
			if now == op {
				panic("no target")
			}
			return nil
		}
		err := Run(ctx, s.db, s.target, &Options{after: instant})
		if p := (*base.Panic)(nil); !errors.As(err, &p) {
			t.Errorf("%s: %v", op, err)
		}
		if n := s.db.Metrics().Snapshots; n != 0 {
			t.Errorf("%s: %d snapshots stay open", op, n)
		}
	}
}
