package budget

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/testkit/script"
)

// TestScripts runs testdata/pool, each script with a Pool of its own and a clock that moves by
// pass. The commands:
//
//	pool limit=N           the workers
//	compact DB need=F pieces=N
//	                       asks for a worker, and begins a compaction if there is one
//	flush DB need=F        begins a flush, or waits for a worker
//	end JOB                a job is named by its database and a number
//	progress JOB           notes progress, and says whether the job has to pause
//	pass ms=N
//	state
//
// Each also prints the databases that are told to look for work, and flushes that begin.
func TestScripts(t *testing.T) {
	script.RunDir(t, "testdata/pool", func(t *testing.T) func(*script.Command) string {
		x := &poolScript{dbs: map[string]*Client{}, jobs: map[string]*Job{},
			said: make(chan string, 100)}
		return x.run
	})
}

type poolScript struct {
	*pool
	dbs    map[string]*Client
	jobs   map[string]*Job
	adding sync.Mutex // held by flushes that begin, side by side
	said   chan string
}

func (x *poolScript) run(c *script.Command) string {
	var name string
	for _, a := range c.Args() {
		if len(a.Values) == 0 {
			name = a.Key
		}
	}
	var out []string
	switch c.Name {
	case "pool":
		x.pool = newPool(c.Int("limit", 1))
	case "limit":
		x.SetLimit(c.Int("n", 1))
	case "compact":
		db := x.db(name)
		if db.Reserve(need(c)) {
			out = append(out, x.add(name, db.Begin(c.Int("pieces", 1))))
			db.Done(false)
		} else {
			out = append(out, name+" waits")
		}
	case "flush":
		db, n := x.db(name), need(c)
		go func() {
			if j := db.Flush(n, func() bool { return false }); j != nil {
				x.said <- x.add(name, j)
			}
		}()
	case "end":
		j := x.jobs[name]
		delete(x.jobs, name) // before a flush that waits for the end takes its number
		j.End()
	case "progress":
		out = append(out, fmt.Sprintf("pause %v", x.jobs[name].Progress()))
	case "pass":
		x.at.Add(int64(time.Duration(c.Int("ms", 0)) * time.Millisecond))
	case "state":
		pieces, counted := x.Running()
		return fmt.Sprintf("%v, %d pieces, %d counted", slices.Sorted(maps.Keys(x.jobs)), pieces,
			counted)
	default:
		return c.Unknown()
	}
	synctest.Wait()
	var heard []string
	for len(x.said) > 0 {
		heard = append(heard, <-x.said)
	}
	slices.Sort(heard)
	return strings.Join(append(out, heard...), "\n")
}

func (x *poolScript) db(name string) *Client {
	if x.dbs[name] == nil {
		x.dbs[name] = x.Open(func() { x.said <- name + " is told to look for work" })
	}
	return x.dbs[name]
}

func (x *poolScript) add(db string, j *Job) string {
	x.adding.Lock()
	defer x.adding.Unlock()
	n := 1
	for x.jobs[db+strconv.Itoa(n)] != nil {
		n++
	}
	x.jobs[db+strconv.Itoa(n)] = j
	return fmt.Sprintf("%s%d begins with %d pieces", db, n, j.Pieces())
}

func need(c *script.Command) float64 {
	f, err := strconv.ParseFloat(c.Arg("need", "0"), 64)
	if err != nil {
		c.Fail("%v", err)
	}
	return f
}
