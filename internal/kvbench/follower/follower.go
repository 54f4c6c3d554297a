// Package follower reads a database in a process of its own while a benchmark writes it, and
// measures how far it is behind.
//
// The writer puts the time under a key of its own again and again. The follower catches up, and
// reads that key: the state that it showed until then is as old as the time in it.
package follower

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/workload/store"
)

// Flag makes a program that calls Main a follower.
const Flag = "--follow"

// Every is how long a follower waits between two catch-ups, and BeatEvery the writer between two
// beats.
const (
	Every     = 10 * time.Millisecond
	BeatEvery = time.Millisecond
)

// BeatKey is the key of the time. No benchmark has it.
const BeatKey = "kvbench beat"

// Beat is the value of BeatKey.
func Beat() []byte { return binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano())) }

// Watch catches up until stop is closed and once more, and tells how old the state was that each
// catch-up replaced.
func Watch(f store.Follower, stop <-chan struct{}) ([]time.Duration, error) {
	var lags []time.Duration
	var shown int64 // time of the last beat that f shows; 0: none
	for last := false; ; {
		if err := f.CatchUp(); err != nil {
			return lags, fmt.Errorf("catch up: %w", err)
		}
		if shown > 0 {
			lags = append(lags, time.Duration(max(time.Now().UnixNano()-shown, 0)))
		}
		if last {
			return lags, nil
		}
		v, found, err := f.Get([]byte(BeatKey), nil)
		if err != nil {
			return lags, fmt.Errorf("get: %w", err)
		}
		shown = 0
		if found && len(v) == 8 {
			shown = int64(binary.LittleEndian.Uint64(v))
		}
		select {
		case <-stop:
			last = true
			continue
		default:
		}
		select {
		case <-stop:
			last = true
		case <-time.After(Every):
		}
	}
}

// Task is what a follower is to follow.
type Task struct {
	Engine   string
	Dir      string
	Settings []store.Setting
}

// reply is what a follower says when it is open, and again when it ends.
type reply struct {
	Lags  []time.Duration
	Error string
}

// Process is a follower at work.
type Process struct {
	cmd   *exec.Cmd
	in    io.Closer
	reply *json.Decoder
}

// Start starts program as a follower, and returns when it is open.
func Start(program string, t Task, stderr io.Writer) (*Process, error) {
	cmd := exec.Command(program, Flag)
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd, in, json.NewDecoder(out)}
	err = json.NewEncoder(in).Encode(t)
	if err == nil {
		_, err = p.hear()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("follower: %w", err), in.Close(), cmd.Wait())
	}
	return p, nil
}

func (p *Process) hear() ([]time.Duration, error) {
	var r reply
	if err := p.reply.Decode(&r); err != nil {
		return nil, err
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return r.Lags, nil
}

// Stop ends the follower, and returns what Watch does there.
func (p *Process) Stop() ([]time.Duration, error) {
	err := p.in.Close()
	lags, herr := p.hear()
	if err := errors.Join(err, herr, p.cmd.Wait()); err != nil {
		return nil, fmt.Errorf("follower: %w", err)
	}
	return lags, nil
}

// Main is a program's end of Start: it follows until in ends, which it does when the other program
// dies, too.
func Main(in io.Reader, out io.Writer, drivers []store.Driver) int {
	signal.Ignore(os.Interrupt) // sent to both programs
	said := json.NewEncoder(out)
	lags, err := follow(json.NewDecoder(in), said, drivers)
	r := reply{Lags: lags}
	if err != nil {
		r.Error = err.Error()
	}
	if err := said.Encode(r); err != nil || r.Error != "" {
		return 1
	}
	return 0
}

func follow(in *json.Decoder, said *json.Encoder, drivers []store.Driver) ([]time.Duration, error) {
	var t Task
	if err := in.Decode(&t); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(drivers, func(d store.Driver) bool { return d.Name() == t.Engine })
	if i < 0 {
		return nil, fmt.Errorf("no engine %q", t.Engine)
	}
	d, ok := drivers[i].(store.Followed)
	if !ok {
		return nil, fmt.Errorf("%s has no followers", drivers[i].Title())
	}
	own := t.Dir + "-kvbench-follower"
	defer os.RemoveAll(own)
	f, err := d.OpenFollower(t.Dir, own, store.Config{Settings: t.Settings, MustExist: true})
	if err != nil {
		return nil, err
	}
	if err := said.Encode(reply{}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	stop := make(chan struct{})
	go func() {
		var nothing json.RawMessage
		_ = in.Decode(&nothing) // ends when the input does
		close(stop)
	}()
	lags, err := Watch(f, stop)
	return lags, errors.Join(err, f.Close())
}
