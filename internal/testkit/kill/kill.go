// Package kill tests what needs processes of their own: a writer that is
// killed at random moments, one whose files may not grow beyond a limit, and
// one whose disk is copied in the middle of its work, as if the power had gone.
//
// The program that uses the package is its own child: it calls Child first
// thing and ends when that says so.
package kill

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
)

// childEnv holds the orders of a child: directory, seed, file-size limit (0
// for none), "kinds" for all kinds of writes or "", separated by newlines.
const childEnv = "LOAM_KILL_CHILD"

// Keys of the ledger and sizes of the options make tables, logs and manifests
// turn over every few milliseconds.
func ledger(seed int64) *book {
	return &book{Ledger: testkit.Ledger{Seed: seed, Keys: 200, MaxValue: 1500}}
}

// book is what writers write: a ledger, with kinds beside it that may be nil.
type book struct {
	testkit.Ledger
	kinds *testkit.Kinds
}

// kindsLedger is ledger with every kind of write, in keyspaces.
func kindsLedger(seed int64) *book {
	l := ledger(seed)
	l.kinds = &testkit.Kinds{Seed: seed}
	return l
}

func (l *book) options() *lsm.Options {
	o := &lsm.Options{WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10, L0Compaction: 2,
		CacheSize: 1 << 20}
	l.kinds.Enable(o)
	if l.Seed%2 != 0 {
		o.LargeValue = 50
	}
	return o
}

// briefSpace has the numbers of the latest batches: before every brief-th it is dropped and made
// again.
const (
	briefSpace = "brief"
	brief      = 40
)

func briefKey(i int) []byte { return fmt.Appendf(nil, "n%06d", i) }

// write writes batch i, with b where there are only puts and deletes.
func (l *book) write(db *lsm.DB, b *lsm.Batch, i int, mode lsm.WriteMode) error {
	if l.kinds == nil {
		l.Fill(b, i)
		return db.Write(b, mode)
	}
	if i%brief == 0 {
		if err := db.DropKeyspace(briefSpace); err != nil && !errors.Is(err, lsm.ErrNoKeyspace) {
			return err
		}
	}
	k, err := db.Keyspace(briefSpace, nil)
	if err != nil {
		return err
	}
	return l.kinds.Write(db, &l.Ledger, i, mode, func(t *testkit.Target) error {
		t.Put(k, briefKey(i), nil)
		return nil
	})
}

// check wants the keyspaces as they are after batch n.
func (l *book) check(db *lsm.DB, n int) error {
	if l.kinds == nil {
		return nil
	}
	err := l.kinds.Check(db, n, nil)
	k, kerr := db.Keyspace(briefSpace, &lsm.KeyspaceOptions{ErrorIfMissing: true})
	if err != nil || errors.Is(kerr, lsm.ErrNoKeyspace) && (n+1)%brief == 0 || n == 0 {
		return err
	}
	if kerr != nil {
		return kerr
	}
	got, err := testkit.Dump(k)
	if err != nil || len(got) == 0 && (n+1)%brief == 0 { // it was dropped before the next batch
		return err
	}
	var want []model.Pair
	for i := max(1, n/brief*brief); i <= n; i++ {
		want = append(want, model.Pair{Key: string(briefKey(i))})
	}
	return testkit.Same(k, want)
}

// Child runs the writer when this process was started to be one; the process
// must then end with the code.
func Child() (code int, child bool) {
	if len(os.Args) == 3 && (os.Args[1] == serveArg || os.Args[1] == keepArg) {
		o := ledger(0).options()
		if os.Args[1] == keepArg {
			o.WALRetentionBytes = keepAll
		}
		if err := serve(os.Args[2], o, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitError, true
		}
		return 0, true
	}
	orders := strings.Split(os.Getenv(childEnv), "\n")
	if len(orders) != 4 {
		return 0, false
	}
	seed, err1 := strconv.ParseInt(orders[1], 10, 64)
	limit, err2 := strconv.ParseUint(orders[2], 10, 64)
	err := errors.Join(err1, err2)
	if err == nil {
		l := ledger(seed)
		if orders[3] != "" {
			l = kindsLedger(seed)
		}
		err = write(orders[0], l, limit)
	}
	fmt.Fprintln(os.Stderr, err)
	switch {
	case errors.Is(err, errRules):
		return exitRules, true
	case errors.Is(err, errLimit):
		return exitLimit, true
	}
	return exitError, true
}

// write adds batches to the database in dir for ever and reports each on
// standard output once it has been acknowledged: its number, 32 bits, which
// reaches the pipe before the next one begins.
func write(dir string, l *book, limit uint64) error {
	if err := limitFiles(limit); err != nil {
		return err
	}
	o := l.options()
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := lsm.Open(dir, o)
	if err != nil {
		return err
	}
	defer db.Close()
	last, err := testkit.Last(db)
	if err != nil {
		return err
	}
	if err := errors.Join(l.kinds.Open(db), l.check(db, last)); err != nil {
		return err
	}
	b := lsm.NewBatch()
	healed := 0
	for i := last + 1; ; i++ {
		mode := lsm.NoSync
		if i%16 == 0 {
			mode = lsm.Sync
		}
		failure := l.write(db, b, i, mode)
		if failure != nil {
			if err := afterFailure(db, l, i, failure); err != nil {
				return err
			}
			if err := heals(db, b, mode); err != nil {
				return err
			}
			healed++
		}
		if _, err := os.Stdout.Write(binary.LittleEndian.AppendUint32(nil, uint32(i))); err != nil {
			return err
		}
		switch {
		case limit > 0 && (healed == 3 || i == last+1000):
			return errLimit
		case failure != nil:
			if err := limitFiles(limit); err != nil {
				return err
			}
		}
	}
}

// afterFailure wants a database that had no room for a write to say so, to read
// on, and not to show the write. If a MANIFEST met the limit in the background
// the database may be read-only; then errLimit is the answer.
func afterFailure(db *lsm.DB, l *book, i int, cause error) error {
	if !errors.Is(cause, lsm.ErrNoSpace) {
		return fmt.Errorf("%w: a write without room gave %w", errRules, cause)
	}
	if _, err := l.Check(db, i-1, i-1); err != nil {
		return fmt.Errorf("%w: reading after a failed write: %w", errRules, err)
	}
	if !errors.Is(cause, lsm.ErrReadOnly) {
		return nil
	}
	if !strings.Contains(cause.Error(), "MANIFEST") {
		return fmt.Errorf("%w: a shortage is final: %w", errRules, cause)
	}
	return fmt.Errorf("%w: %w", errLimit, cause)
}

// heals wants the write to succeed now that there is room.
func heals(db *lsm.DB, b *lsm.Batch, mode lsm.WriteMode) error {
	if err := limitFiles(0); err != nil {
		return err
	}
	err := db.Resume()
	if err == nil {
		err = db.Write(b, mode)
	}
	if err != nil {
		return fmt.Errorf("%w: a write with room again: %w", errRules, err)
	}
	return nil
}

var (
	errRules = errors.New("rules broken")
	errLimit = errors.New("file-size limit")
)

// Exit codes of a child.
const (
	exitError = 3
	exitLimit = 4
	exitRules = 5
)

// start starts this program as a child.
func start(dir string, l *book, limit uint64) (*exec.Cmd, io.Reader, *strings.Builder, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd := exec.Command(self)
	kinds := ""
	if l.kinds != nil {
		kinds = "kinds"
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%d\n%d\n%s", childEnv, dir, l.Seed, limit,
		kinds))
	said := &strings.Builder{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	return cmd, out, said, cmd.Start()
}

// bounds is the knowledge of a database from outside: batches 1 to lo have
// been acknowledged, none after hi has been begun.
type bounds struct{ lo, hi int }

// follow reads a child's reports to the end. Each names the batch after the
// one before; the first may skip what earlier children began but could not
// report any more.
func (b *bounds) follow(r io.Reader) error {
	in := bufio.NewReader(r)
	var buf [4]byte
	b.hi++
	for first := true; ; first = false {
		if _, err := io.ReadFull(in, buf[:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return err
		}
		n := int(binary.LittleEndian.Uint32(buf[:]))
		if n <= b.lo || n > b.hi || !first && n != b.lo+1 {
			return fmt.Errorf("batch %d acknowledged, where %d was the last and %d the last begun",
				n, b.lo, b.hi)
		}
		b.lo, b.hi = n, n+1
	}
}

// verify opens the database and wants it to hold what b says.
func (b *bounds) verify(dir string, l *book) error {
	db, err := lsm.Open(dir, l.options())
	if err != nil {
		return err
	}
	defer db.Close()
	i, err := l.Check(db, b.lo, b.hi)
	if err == nil {
		err = l.check(db, i)
	}
	if err != nil {
		return err
	}
	b.lo, b.hi = i, i
	return db.Close()
}

// Kill starts a writer again and again and kills it after a random time, also
// while it opens; after each kill every acknowledged batch must be there.
// fresh makes a new directory, which is taken now and then. Only every fourth
// time this process looks in between; otherwise the next writer finds what was
// left behind.
func Kill(seed int64, rounds int, fresh func() string) error {
	return killAll(seed, rounds, fresh, ledger)
}

// KillKinds is Kill with every kind of write, transactions, and keyspaces that are dropped and
// made again.
func KillKinds(seed int64, rounds int, fresh func() string) error {
	return killAll(seed, rounds, fresh, kindsLedger)
}

func killAll(seed int64, rounds int, fresh func() string, ledger func(seed int64) *book) error {
	rng := rand.New(rand.NewPCG(uint64(seed), 8))
	return repeat(seed, rounds, 30, 4, fresh, ledger, func(dir string, l *book, b *bounds) error {
		return killOne(dir, l, b, time.Duration(rng.IntN(60_000))*time.Microsecond)
	})
}

// repeat kills time and again, with a fresh directory every perDirectory rounds. This
// process looks into it every look rounds, and in the end.
func repeat(seed int64, rounds, perDirectory, look int, fresh func() string,
	ledger func(seed int64) *book, kill func(dir string, l *book, b *bounds) error) error {
	var dir string
	var l *book
	var b bounds
	for round := range rounds {
		if round%perDirectory == 0 {
			dir, l, b = fresh(), ledger(seed+int64(round)), bounds{}
		}
		err := kill(dir, l, &b)
		if err == nil && (round%look == look-1 || round%perDirectory == perDirectory-1 ||
			round == rounds-1) {
			err = b.verify(dir, l)
		}
		if err != nil {
			return fmt.Errorf("seed %d, round %d, in %s: %w", seed, round, dir, err)
		}
	}
	return nil
}

// killOne starts a writer, kills it after d, and takes down its reports.
func killOne(dir string, l *book, b *bounds, d time.Duration) error {
	cmd, out, said, err := start(dir, l, 0)
	if err != nil {
		return err
	}
	timer := time.AfterFunc(d, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err = b.follow(out)
	cmd.Wait()
	if err != nil {
		return fmt.Errorf("%w; the writer said: %s", err, said)
	}
	if cmd.ProcessState.ExitCode() >= 0 {
		return fmt.Errorf("the writer ended by itself: %s", said)
	}
	return nil
}

// Limit starts writers whose files may not grow beyond a limit, so that an
// append to the log or the writing of a table fails in the middle. Each must go
// on when the limit is lifted, without reopening, up to three times; the next
// opening finds all that was acknowledged.
func Limit(seed int64, cycles int, fresh func() string) error {
	rng := rand.New(rand.NewPCG(uint64(seed), 9))
	for cycle := range cycles {
		dir, l, b := fresh(), ledger(seed+int64(cycle)), bounds{}
		for range 3 {
			if err := limitOne(dir, l, &b, uint64(3000+rng.IntN(60_000))); err != nil {
				return fmt.Errorf("seed %d, cycle %d, in %s: %w", seed, cycle, dir, err)
			}
		}
	}
	return nil
}

func limitOne(dir string, l *book, b *bounds, limit uint64) error {
	cmd, out, said, err := start(dir, l, limit)
	if err != nil {
		return err
	}
	timer := time.AfterFunc(hang.Limit(), func() { cmd.Process.Kill() })
	defer timer.Stop()
	err = b.follow(out)
	cmd.Wait()
	if err != nil {
		return err
	}
	// The limit may be met while opening already, which is an error like any.
	if code := cmd.ProcessState.ExitCode(); code != exitLimit && code != exitError {
		return fmt.Errorf("limit %d: the writer ended with %d: %s", limit, code, said)
	}
	return b.verify(dir, l)
}
