package kill

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// A program is a command that opens a database, the directory being its last
// argument, and writes the batches it is told to:
//
//   - On standard output it first says which batch is the newest, a number of
//     32 bits, which the key "!last" holds in decimal; 0 without that key.
//   - On standard input come batches: the length of the rest in bytes, the
//     batch's number, 32 bits each, one byte that is 1 for a synced write, and
//     the operations: a byte that is 1 for a put and 0 for a delete, the
//     length of the key, 32 bits, the key, and for a put the same of the value.
//   - Once a batch is acknowledged by the database, the program writes its
//     number to standard output.
//
// All numbers are little-endian. Writers of the bindings are in the directory
// programs.
type program struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said strings.Builder
	last int // the newest batch, as it found it
}

// Self is the command of the writer that is this program as its own child.
func Self() ([]string, error) {
	self, err := os.Executable()
	return []string{self, serveArg}, err
}

const serveArg = "kill-serve"

// startProgram starts the command on dir. When it fails, it has also ended.
func startProgram(command []string, dir string) (*program, error) {
	p := &program{cmd: exec.Command(command[0], append(command[1:len(command):len(command)],
		dir)...)}
	p.cmd.Stderr = &p.said
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// hello reads which batch the program found to be the newest.
func (p *program) hello() (err error) {
	p.last, err = p.read()
	return err
}

func (p *program) read() (int, error) {
	var buf [4]byte
	_, err := io.ReadFull(p.out, buf[:])
	return int(binary.LittleEndian.Uint32(buf[:])), err
}

// send tells the program to write batch i.
func (p *program) send(l *book, i int, sync bool) error {
	b := make([]byte, 4, 512)
	b = binary.LittleEndian.AppendUint32(b, uint32(i))
	b = append(b, 0)
	if sync {
		b[8] = 1
	}
	text := func(s string) {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	for _, w := range l.Batch(i) {
		if w.Delete {
			b = append(b, 0)
			text(w.Key)
			continue
		}
		b = append(b, 1)
		text(w.Key)
		text(w.Value)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	_, err := p.in.Write(b)
	return err
}

// kill ends the program and collects it.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// synced tells which batches of the programs are written with a sync.
func synced(i int) bool { return i%16 == 0 }

// KillProgram does as Kill does with the writer that the command starts.
func KillProgram(seed int64, rounds int, fresh func() string, command ...string) error {
	rng := rand.New(rand.NewPCG(uint64(seed), 10))
	return repeat(seed, rounds, 20, 3, fresh, ledger, func(dir string, l *book, b *bounds) error {
		return killProgram(command, dir, l, b, rng)
	})
}

// killProgram starts the program, kills it at a random moment, in every fourth
// case while it starts, and takes down what it acknowledged.
func killProgram(command []string, dir string, l *book, b *bounds, rng *rand.Rand) error {
	p, err := startProgram(command, dir)
	if err != nil {
		return err
	}
	defer p.kill()
	wait := time.Duration(rng.IntN(60_000)) * time.Microsecond
	if rng.IntN(4) == 0 {
		timer := time.AfterFunc(4*wait, func() { _ = p.cmd.Process.Kill() })
		defer timer.Stop()
	}
	if err := p.hello(); err != nil {
		return p.killed()
	}
	timer := time.AfterFunc(wait, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	if p.last < b.lo || p.last > b.hi {
		return fmt.Errorf("the program found batch %d; %d was promised, %d the last begun", p.last,
			b.lo, b.hi)
	}
	b.lo = p.last
	for i := p.last + 1; ; i++ {
		b.hi = i
		if err := p.send(l, i, synced(i)); err != nil {
			return p.killed()
		}
		n, err := p.read()
		if err != nil {
			return p.killed()
		}
		if n != i {
			return fmt.Errorf("batch %d acknowledged instead of %d", n, i)
		}
		b.lo = i
	}
}

// killed is an error unless the program was killed.
func (p *program) killed() error {
	_ = p.in.Close()
	_ = p.cmd.Wait()
	if p.cmd.ProcessState.ExitCode() >= 0 {
		return fmt.Errorf("the program ended by itself, with %d: %s", p.cmd.ProcessState.ExitCode(),
			p.said.String())
	}
	return nil
}

// serve is the program in Go.
func serve(dir string, o *lsm.Options, in io.Reader, out io.Writer) error {
	db, err := lsm.Open(dir, o)
	if err != nil {
		return err
	}
	defer db.Close()
	last, err := testkit.Last(db)
	if err != nil {
		return err
	}
	say := func(n uint32) error {
		_, err := out.Write(binary.LittleEndian.AppendUint32(nil, n))
		return err
	}
	if err := say(uint32(last)); err != nil {
		return err
	}
	var head [4]byte
	for {
		if _, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) {
			return db.Close()
		} else if err != nil {
			return err
		}
		frame := make([]byte, binary.LittleEndian.Uint32(head[:]))
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		b, mode := decode(frame)
		if err := db.Write(b, mode); err != nil {
			return err
		}
		if err := say(binary.LittleEndian.Uint32(frame)); err != nil {
			return err
		}
	}
}

func decode(frame []byte) (*lsm.Batch, lsm.WriteMode) {
	mode := lsm.NoSync
	if frame[4] == 1 {
		mode = lsm.Sync
	}
	b, rest := lsm.NewBatch(), frame[5:]
	text := func() []byte {
		n := binary.LittleEndian.Uint32(rest)
		s := rest[4 : 4+n]
		rest = rest[4+n:]
		return s
	}
	for len(rest) > 0 {
		put := rest[0] == 1
		rest = rest[1:]
		if key := text(); put {
			b.Put(key, text())
		} else {
			b.Delete(key)
		}
	}
	return b, mode
}
