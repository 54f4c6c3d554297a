package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/lsm/replicate"
)

const addressVariable = "LOAM_TEST_TARGET"

// TestProcess is the child of TestSignals: the program.
func TestProcess(t *testing.T) {
	address := os.Getenv(addressVariable)
	if address == "" {
		t.Skip("it is the child of TestSignals")
	}
	os.Args = []string{"loam-target-s3", address}
	main()
	os.Exit(0)
}

// TestSignals: signals to all processes of a terminal or a service, to which loam answers by
// sending what is left, do not end the program, and the end of its input does.
func TestSignals(t *testing.T) {
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<ListBucketResult></ListBucketResult>")
	}))
	defer store.Close()
	child := exec.Command(os.Args[0], "-test.run=^TestProcess$")
	child.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret",
		addressVariable+"=s3://bucket/below?insecure=true&region=us-east-1&endpoint="+
			strings.TrimPrefix(store.URL, "http://"))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	target := replicate.Pipe(out, in)
	for _, sent := range []os.Signal{os.Interrupt, syscall.SIGTERM, nil} {
		if names, err := target.List(context.Background(), ""); len(names) > 0 || err != nil {
			t.Fatalf("before %v: %v, %v", sent, names, err)
		}
		if sent != nil {
			_ = child.Process.Signal(sent) // none is sent on Windows
		}
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}
