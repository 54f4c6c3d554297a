// Package ui shows a database in a browser: a page that is served on this machine alone, and what
// the page asks for.
//
// The page is one file without any request elsewhere, and has no data of the database. Requests for
// data need the token in the address that Run prints. Between two requests the server keeps a
// follower at most, which it closes when requests stop.
package ui

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/lsm"
)

// Options says what to show, and where.
type Options struct {
	Port  int  // 0: any that is free
	Write bool // flush, compact and checkpoint may be asked for
	Out   Output
	// FS has the files of the database, decrypted.
	FS lsm.FS
	// Options opens the database.
	Options func() (*lsm.Options, error)
	// Comparer orders the keys of table files; nil: the one that they name.
	Comparer *base.Comparer
	// Hint says what to do about an error, or "".
	Hint func(error) string
}

// Output is buffered.
type Output interface {
	io.Writer
	Flush() error
}

// Help explains the verb.
const Help = "Ui serves a page that shows the database in a browser: the levels and what is " +
	"merged,\nthroughput, stalls, the cache, keys and values, tables, logs and the " +
	"MANIFEST. It shows a\nrunning database, best with Options.Inspect or LOAM_INSPECT=1, and " +
	"a closed one.\n\nThe page is for this machine: the server listens on 127.0.0.1, and the " +
	"address has a\nsecret token. Nothing is changed without --write. Ctrl-C ends it.\n\n" +
	"docs/ui.md explains what it shows."

// Bounds of a connection.
const (
	headerTime  = 10 * time.Second // to read a request
	idleTime    = 2 * time.Minute  // between two requests
	headerBytes = 128 << 10        // addresses have keys in them
)

// Run serves the page of the database in dir until ctx is done.
func Run(ctx context.Context, dir string, o Options) error {
	_, err := examine.Open(o.FS, dir)
	if errors.Is(err, lsm.ErrDoesNotExist) || errors.Is(err, lsm.ErrNotADatabase) ||
		errors.Is(err, lsm.ErrNewerFormat) {
		return err // the page shows all other errors
	}
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("the address of the page: %w", err)
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails
	s := newServer(dir, base64.RawURLEncoding.EncodeToString(secret), o)
	defer s.follower.close()
	_, err = fmt.Fprintf(o.Out, "http://%s/#%s\n", l.Addr(), s.token)
	if err = errors.Join(err, o.Out.Flush()); err != nil {
		return errors.Join(err, l.Close())
	}
	h := &http.Server{Handler: s, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime,
		IdleTimeout: idleTime, MaxHeaderBytes: headerBytes, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = h.Close() })
	defer stop()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page: %w", err)
	}
	return nil
}
