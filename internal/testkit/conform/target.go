package conform

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"
)

// target is replicate.Target, whose own tests call this package.
type target interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	List(ctx context.Context, prefix string) ([]string, error)
	Delete(ctx context.Context, name string) error
}

// Target holds a target of replicas, which is empty, to what replicate.Target says, and leaves it
// empty. smallest is an object that it takes: no replica has one without bytes, and not every store
// of objects takes one.
func Target(t *testing.T, target target, smallest []byte) {
	t.Helper()
	ctx := t.Context()
	listed := func(prefix string, want ...string) {
		t.Helper()
		got, err := target.List(ctx, prefix)
		must(t, err)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
	listed("")
	objects := map[string][]byte{"owner": []byte("a"), "g/log/1": smallest,
		"g/log/2": make([]byte, 100_000), "h/log/1": []byte("b")}
	for name, b := range objects {
		must(t, target.Put(ctx, name, []byte("before")), target.Put(ctx, name, b))
	}
	for name, b := range objects {
		got, err := target.Get(ctx, name)
		if must(t, err); !bytes.Equal(got, b) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(b))
		}
	}
	listed("", "g/log/1", "g/log/2", "h/log/1", "owner")
	listed("g/", "g/log/1", "g/log/2")
	listed("g/log/2", "g/log/2")
	listed("x")
	for range 2 {
		must(t, target.Delete(ctx, "g/log/1"), target.Delete(ctx, "h/log/1"))
	}
	if _, err := target.Get(ctx, "h/log/1"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	listed("", "g/log/2", "owner")
	must(t, target.Delete(ctx, "g/log/2"), target.Delete(ctx, "owner"))
	listed("")
}
