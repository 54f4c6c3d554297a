package lsm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/os/vfs"
)

// The Hermitage tests (github.com/ept/hermitage): interleavings of two or three
// transactions that tell isolation levels apart. Keys 1 and 2 begin with the values 10
// and 20. What is written down for each level is what gets, scans and commits answer; a
// call that waits for a lock answers "waits" and, when its transaction goes on, with its
// outcome.
var hermitage = []struct{ name, script, snapshot, serializable, lock string }{
	{"G0 write cycles",
		`a put 1 11; b put 1 12; a put 2 21; a commit; b put 2 22; b commit; c get 1; c get 2`,
		"ok conflict 11 21", "ok conflict 11 21", "waits ok ok ok 12 22"},
	{"G1a aborted reads", `a put 1 101; b get 1; a rollback; b get 1; b commit`,
		"10 10 ok", "10 10 ok", "10 10 ok"},
	{"G1b intermediate reads", `a put 1 101; b get 1; a put 1 11; a commit; b get 1; b commit`,
		"10 ok 10 ok", "10 ok 10 ok", "10 ok 10 ok"},
	{"G1c circular information flow",
		`a put 1 11; b put 2 22; a get 2; b get 1; a commit; b commit`,
		"20 10 ok ok", "20 10 ok conflict", "20 10 ok ok"},
	{"OTV observed transaction vanishes",
		`a put 1 11; a put 2 19; b put 1 12; a commit; c get 1; b put 2 18; c get 2; b commit; ` +
			`c get 2; c get 1; c commit`,
		"ok 11 19 conflict 19 11 ok", "ok 11 19 conflict 19 11 ok",
		"waits ok 11 ok 19 ok 19 11 ok"},
	{"PMP predicate-many-preceders", `a scan 30; b put 3 30; b commit; a scan 30; a commit`,
		"none ok none ok", "none ok none ok", "none ok none ok"},
	{"PMP for write predicates",
		`a scan 20; b put 1 20; b put 2 30; b commit; a del 2; a commit; c scan 30`,
		"2 ok conflict 2", "2 ok conflict 2", "2 ok conflict ok 2"},
	{"P4 lost update", `a get 1; b get 1; a put 1 11; b put 1 11; a commit; b commit`,
		"10 10 ok conflict", "10 10 ok conflict", "10 10 waits ok conflict ok"},
	{"P4 with reads for update",
		`a update 1; b update 1; a put 1 11; a commit; b put 1 12; b commit; c get 1`,
		"10 10 ok conflict 11", "10 10 ok conflict 11", "10 waits ok 11 ok 12"},
	{"G-single read skew",
		`a get 1; b get 1; b get 2; b put 1 12; b put 2 18; b commit; a get 2; a commit`,
		"10 10 20 ok 20 ok", "10 10 20 ok 20 ok", "10 10 20 ok 20 ok"},
	{"G-single with a predicate", `a scan 10; b put 1 12; b commit; a scan 12; a commit`,
		"1 ok none ok", "1 ok none ok", "1 ok none ok"},
	{"G-single with a write",
		`a get 1; b put 1 12; b put 2 18; b commit; a del 2; a commit; c get 2`,
		"10 ok conflict 18", "10 ok conflict 18", "10 ok conflict ok 18"},
	{"G2-item write skew",
		`a get 1; a get 2; b get 1; b get 2; a put 1 11; b put 2 21; a commit; b commit`,
		"10 20 10 20 ok ok", "10 20 10 20 ok conflict", "10 20 10 20 ok ok"},
	{"G2-item with reads for update",
		`a update 1; a update 2; b update 1; a put 1 11; a commit; b update 2; b put 2 21; b ` +
			`commit`,
		"10 20 10 ok 20 conflict", "10 20 10 ok 20 conflict", "10 20 waits ok 11 20 ok"},
	{"G2 anti-dependency cycles",
		`a scan 30; b scan 30; a put 3 30; b put 4 30; a commit; b commit`,
		"none none ok ok", "none none ok conflict", "none none ok ok"},
	{"G2 with two edges",
		`a scan 0; b put 2 25; b commit; c scan 25; c commit; a put 1 0; a commit`,
		"none ok 2 ok ok", "none ok 2 ok conflict", "none ok 2 ok ok"},
	{"a read of an own write", `a put 1 11; a get 1; b put 2 22; b commit; a update 2; a commit`,
		"11 ok 20 conflict", "11 ok 20 conflict", "11 ok 22 ok"},
	{"a read beside an own write",
		`a put 1 11; a get 2; b put 2 22; b commit; a update 2; a commit`,
		"20 ok 20 conflict", "20 ok 20 conflict", "20 ok conflict ok"},
	{"read only", `a get 1; b put 1 11; b commit; a get 2; a commit`,
		"10 ok 20 ok", "10 ok 20 ok", "10 ok 20 ok"},
	{"blind writes of other keys", `a put 1 11; b put 2 22; b commit; a commit`, "ok ok", "ok ok",
		"ok ok"},
	{"deadlock", `a update 1; b update 2; a update 2; b update 1; b rollback; a commit`,
		"10 20 20 10 ok", "10 20 20 10 ok", "10 20 waits deadlock 20 ok"},
}

// players are the transactions of a script.
type players struct {
	t       *testing.T
	db      *DB
	o       TxnOptions
	tx      map[string]*Txn
	pending map[string]chan string // of calls that wait for a lock
	out     []string
}

func (p *players) step(line string) {
	f := strings.Fields(line)
	who := f[0]
	p.join(who)
	if p.tx[who] == nil {
		o := p.o
		o.Name = who
		p.tx[who] = p.db.Begin(&o)
	}
	waits := p.db.Metrics().Txn.LockWaits
	answer := make(chan string, 1)
	go func() {
		answer <- p.call(p.tx[who], f[1], append(f[2:], "")[0], append(f[2:], "", "")[1])
	}()
	synctest.Wait()
	select {
	case s := <-answer:
		p.say(s)
	default:
		if p.db.Metrics().Txn.LockWaits == waits {
			p.t.Errorf("%s neither ends nor waits for a lock", line)
		}
		p.say("waits")
		p.pending[who] = answer
	}
}

// join waits for the answer of a call that waited.
func (p *players) join(who string) {
	if c := p.pending[who]; c != nil {
		if s := <-c; s == "" {
			p.say("ok")
		} else {
			p.say(s)
		}
		delete(p.pending, who)
	}
}

func (p *players) say(s string) {
	if s != "" {
		p.out = append(p.out, s)
	}
}

func (p *players) call(tx *Txn, verb, key, value string) string {
	var v []byte
	var err error
	switch verb {
	case "get":
		v, err = tx.Get([]byte(key), nil)
	case "update":
		v, err = tx.GetForUpdate([]byte(key), nil)
	case "put":
		err = tx.Put([]byte(key), []byte(value))
	case "del":
		err = tx.Delete([]byte(key))
	case "scan":
		return p.scan(tx, key)
	case "commit":
		if err = tx.Commit(NoSync); err == nil {
			return "ok"
		}
	case "rollback":
		err = tx.Rollback()
	default:
		p.t.Errorf("verb %q", verb)
	}
	switch {
	case errors.Is(err, ErrConflict):
		return "conflict"
	case errors.Is(err, ErrDeadlock):
		return "deadlock"
	case err != nil:
		return err.Error()
	}
	return string(v)
}

// scan lists the keys that have a value.
func (p *players) scan(tx *Txn, value string) string {
	var keys []string
	var err error
	for k, v := range tx.All(nil, nil, &err) {
		if string(v) == value {
			keys = append(keys, string(k))
		}
	}
	if err != nil {
		return err.Error()
	}
	if keys == nil {
		return "none"
	}
	return strings.Join(keys, ",")
}

func TestHermitage(t *testing.T) {
	for _, h := range hermitage {
		for _, level := range []struct {
			name, want string
			o          TxnOptions
		}{
			{"snapshot", h.snapshot, TxnOptions{}},
			{"serializable", h.serializable, TxnOptions{Isolation: Serializable}},
			{"lock", h.lock, TxnOptions{Lock: true, LockTimeout: -1}},
		} {
			for _, flush := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/flush %v", h.name, level.name, flush), func(t *testing.T) {
					if got := playScript(t, h.script, level.o, flush); got != level.want {
						t.Errorf("%s\n got %s\nwant %s", h.script, got, level.want)
					}
				})
			}
		}
	}
}

// playScript plays a script on a new database. With flush, each commit is followed by a
// flush, so that the next one finds in tables what it has to look at.
func playScript(t *testing.T, script string, o TxnOptions, flush bool) (played string) {
	synctest.Test(t, func(t *testing.T) {
		db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
		defer mustClose(t, db)
		for i := 1; i <= 2; i++ {
			if err := db.Put(fmt.Append(nil, i), fmt.Append(nil, 10*i), NoSync); err != nil {
				t.Fatal(err)
			}
		}
		p := &players{t: t, db: db, o: o, tx: map[string]*Txn{}, pending: map[string]chan string{}}
		for line := range strings.SplitSeq(script, "; ") {
			p.step(line)
			if flush && strings.HasSuffix(line, "commit") {
				if err := errors.Join(db.Flush(), db.CompactRange(nil, nil)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for who, tx := range p.tx {
			p.join(who)
			tx.Rollback()
		}
		if m := db.Metrics(); m.Snapshots != 0 || m.Txn.Locks != 0 {
			t.Errorf("left over: %d snapshots, %d locks", m.Snapshots, m.Txn.Locks)
		}
		played = strings.Join(p.out, " ")
	})
	return played
}
