package stream_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/replica/internal/stream"
)

// replay is a connection from which b is read, in pieces of any sizes.
type replay struct {
	net.Conn
	b   *bytes.Reader
	rnd *rand.Rand
}

func (r *replay) Read(p []byte) (int, error) {
	return r.b.Read(p[:1+r.rnd.IntN(min(len(p), 100000))])
}

// TestSum sends bytes in writes of many sizes, and wants them back, whole, cut and with changes.
func TestSum(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var all, sent []byte
	for _, size := range []int{1, 0, 7, 8, 9, 65535, 65536, 65537, 262145, 3} {
		p := make([]byte, size)
		for i := range p {
			p[i] = byte(rnd.Uint32())
		}
		all, sent = append(all, p...), stream.AppendSum(sent, p)
	}
	read := func(b []byte) ([]byte, error) {
		return io.ReadAll(stream.NewSum(&replay{b: bytes.NewReader(b), rnd: rnd}))
	}
	if got, err := read(sent); err != nil || !bytes.Equal(got, all) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(all), err)
	}
	for range 100 {
		at := rnd.IntN(len(sent))
		got, err := read(sent[:at])
		if !bytes.HasPrefix(all, got) || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut behind %d bytes: %v", at, err)
		}
		changed := bytes.Clone(sent)
		changed[at] ^= 1 << rnd.IntN(8)
		got, err = read(changed)
		if err == nil || !bytes.HasPrefix(all, got) {
			t.Errorf("byte %d changed: %d bytes, %v", at, len(got), err)
		}
	}
}

// TestSumTimeout: a read that ran out of time within a part is made again.
func TestSumTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		s := stream.NewSum(far)
		b := stream.AppendSum(nil, []byte("loam"))
		for i := range b {
			if err := s.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if n, err := s.Read(make([]byte, 9)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%d bytes, %v", n, err)
			}
			if err := s.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = near.Write(b[i : i+1]) }()
			if i < len(b)-1 {
				if err := s.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
			}
		}
		got := make([]byte, 9)
		if n, err := s.Read(got); string(got[:n]) != "loam" || err != nil {
			t.Errorf("%q, %v", got[:n], err)
		}
		_, _ = near.Close(), far.Close() // a pipe has nothing to lose
	})
}
