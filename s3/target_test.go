package s3

import (
	"context"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/loamdb/loam/internal/testkit/conform"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/replicate"
)

var ctx = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// address is that of a bucket of a server in this process, or of the one that LOAM_S3 names.
func address(t *testing.T) string {
	t.Helper()
	if a := os.Getenv("LOAM_S3"); a != "" {
		return a
	}
	store := s3mem.New()
	must(t, store.CreateBucket("bucket"))
	server := httptest.NewServer(gofakes3.New(store).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return "s3://bucket/below?insecure=true&region=us-east-1&endpoint=" +
		strings.TrimPrefix(server.URL, "http://")
}

func TestTarget(t *testing.T) {
	target, err := Open(address(t))
	must(t, err)
	conform.Target(t, target, []byte("b"))
}

// TestReplica sends a database to a store, and restores it.
func TestReplica(t *testing.T) {
	target, err := Open(address(t))
	must(t, err)
	dir := t.TempDir()
	db, err := lsm.Open(dir+"/db", nil)
	must(t, err)
	ended := make(chan struct{})
	close(ended)
	for range 3 {
		must(t, db.Put([]byte("ash"), []byte("Fraxinus"), lsm.NoSync))
		must(t, replicate.Run(ctx, db, target, &replicate.Options{Until: ended}))
	}
	must(t, db.Close())
	made, err := replicate.Restore(ctx, target, dir+"/new", nil)
	if must(t, err); made.Sequence != 3 {
		t.Errorf("%+v", made)
	}
	db, err = lsm.Open(dir+"/new", nil)
	must(t, err)
	defer db.Close()
	if v, err := db.Get([]byte("ash"), nil); err != nil || string(v) != "Fraxinus" {
		t.Errorf("%q, %v", v, err)
	}
}

func TestAddresses(t *testing.T) {
	for _, a := range []string{"", "s3://", "http://bucket/a", "s3://user@bucket/a", "s3://b/a#f",
		"s3://b/a?region=x&secret=y", "s3://b/a?region=x;endpoint=y", "s3://b/a?endpoint=%zz",
		"s3://b/a?endpoint=http://x/y", "s3://%zz"} {
		if _, err := Open(a); err == nil {
			t.Errorf("%q was taken", a)
		}
	}
}
