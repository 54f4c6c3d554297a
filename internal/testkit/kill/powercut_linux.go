package kill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileSystem is one that PowerCut makes.
type fileSystem struct {
	kind    string
	size    int64    // in bytes; that of XFS is the smallest
	options []string // of mount, one of them at random
	copied  string   // options of mount for a copy beside the original
}

// Journal commits bring out, in part, what was not synced.
var fileSystems = []fileSystem{
	{"ext4", 96 << 20, []string{"commit=1", "commit=5", "commit=300", "data=writeback",
		"data=journal"}, "defaults"},
	{"xfs", 300 << 20, []string{"defaults"}, "nouuid"},
}

// ErrNoDisk says that this process cannot make and mount file systems.
var ErrNoDisk = errors.New("no file system of its own")

// PowerCut has the command's writer work on a file system, ext4 or XFS, that lies in a
// file below dir, on a loop device. At random moments the writer is stopped,
// also in the middle of a write, and the file is copied: what the kernel had
// not written to the device is missing there, as after a power cut. The copy
// is mounted and must hold every batch up to the last synced one, each whole,
// and none after the last begun. The error is ErrNoDisk without root, loop
// devices or mkfs.ext4; without mkfs.xfs all are ext4.
func PowerCut(seed int64, cuts int, dir string, command ...string) (err error) {
	const cutsPerDisk = 6
	rng := rand.New(rand.NewPCG(uint64(seed), 16))
	for round := 0; cuts > 0; round++ {
		d, err := newDisk(filepath.Join(dir, fmt.Sprint("disk", round)), rng)
		if err != nil {
			return err
		}
		n := min(cuts, cutsPerDisk)
		err = errors.Join(d.cuts(command, ledger(seed+int64(round)), rng, n), d.remove())
		if err != nil {
			return fmt.Errorf("seed %d, disk %d: %w", seed, round, err)
		}
		cuts -= n
	}
	return nil
}

// disk is a mounted file system in a file.
type disk struct {
	fileSystem
	dir, image, mount, device string
}

func newDisk(dir string, rng *rand.Rand) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d := &disk{fileSystem: fileSystems[rng.IntN(len(fileSystems))], dir: dir,
		image: filepath.Join(dir, "image"), mount: filepath.Join(dir, "mnt")}
	if _, err := exec.LookPath("mkfs." + d.kind); err != nil {
		d.fileSystem = fileSystems[0]
	}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(d.size), f.Close()); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: only root mounts", ErrNoDisk)
	}
	if err := command("mkfs."+d.kind, "-q", d.image); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDisk, err)
	}
	if err := d.attach(d.options[rng.IntN(len(d.options))]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDisk, err)
	}
	return d, nil
}

// command runs a program and puts what it says into the error.
func command(args ...string) error {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// attach mounts the image on a loop device.
func (d *disk) attach(options string) error {
	if err := os.MkdirAll(d.mount, 0o700); err != nil {
		return err
	}
	out, err := exec.Command("losetup", "--find", "--show", d.image).CombinedOutput()
	if err != nil {
		return fmt.Errorf("losetup: %w: %s", err, out)
	}
	d.device = strings.TrimSpace(string(out))
	if err := command("mount", "-t", d.kind, "-o", options, d.device, d.mount); err != nil {
		return errors.Join(err, command("losetup", "--detach", d.device))
	}
	return nil
}

func (d *disk) detach() error {
	return errors.Join(command("umount", d.mount), command("losetup", "--detach", d.device))
}

func (d *disk) remove() error { return errors.Join(d.detach(), os.RemoveAll(d.dir)) }

// cuts runs a writer on the disk and takes n copies.
func (d *disk) cuts(command []string, l *book, rng *rand.Rand, n int) error {
	p, err := startProgram(command, filepath.Join(d.mount, "db"))
	if err != nil {
		return err
	}
	defer p.kill()
	if err := p.hello(); err != nil {
		return fmt.Errorf("the program ended by itself: %w: %s", err, p.said.String())
	}
	var b bounds // lo is the last synced batch
	for i := 1; n > 0; n-- {
		for end := i + 1 + rng.IntN(1500); i < end; i++ {
			if err := d.batch(p, l, &b, i); err != nil {
				return err
			}
		}
		// The last batch may be under way while the power goes.
		b.hi = i
		if err := p.send(l, i, synced(i)); err != nil {
			return fmt.Errorf("%w: %s", err, p.said.String())
		}
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Microsecond)
		if err := d.cut(p, l, b); err != nil {
			return err
		}
		if err := p.answer(i); err != nil {
			return err
		}
		if synced(i) {
			b.lo = i
		}
		i++
	}
	return nil
}

func (d *disk) batch(p *program, l *book, b *bounds, i int) error {
	b.hi = i
	if err := p.send(l, i, synced(i)); err != nil {
		return fmt.Errorf("%w: %s", err, p.said.String())
	}
	if err := p.answer(i); err != nil {
		return err
	}
	if synced(i) {
		b.lo = i
	}
	return nil
}

// answer wants batch i acknowledged.
func (p *program) answer(i int) error {
	n, err := p.read()
	if err != nil {
		return fmt.Errorf("waiting for batch %d: %w: %s", i, err, p.said.String())
	}
	if n != i {
		return fmt.Errorf("batch %d acknowledged instead of %d", n, i)
	}
	return nil
}

// cut stops the program, copies the disk, lets the program go on, and checks
// the copy.
func (d *disk) cut(p *program, l *book, b bounds) error {
	if err := p.stop(); err != nil {
		return err
	}
	c := &disk{fileSystem: d.fileSystem, dir: filepath.Join(d.dir, "copy")}
	c.image, c.mount = filepath.Join(c.dir, "image"), filepath.Join(c.dir, "mnt")
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if err := errors.Join(d.copyTo(c.image), p.cmd.Process.Signal(unix.SIGCONT)); err != nil {
		return err
	}
	if err := c.attach(c.copied); err != nil {
		return err
	}
	err := b.verify(filepath.Join(c.mount, "db"), l)
	if err != nil {
		err = fmt.Errorf("after batch %d, %d synced: %w", b.hi, b.lo, err)
	}
	return errors.Join(err, c.remove())
}

// stop returns when no thread of the program runs any more.
func (p *program) stop() error {
	if err := p.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(p.cmd.Process.Pid, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case status.Stopped():
			return nil
		default:
			return fmt.Errorf("the program ended by itself: %s", p.said.String())
		}
	}
}

// copyTo copies the image as it is at one moment: again, if the kernel wrote
// to the device meanwhile.
func (d *disk) copyTo(image string) error {
	for range 100 {
		before, busy, err := d.written()
		if err != nil {
			return err
		}
		if !busy {
			if err := command("cp", "--sparse=auto", d.image, image); err != nil {
				return err
			}
			if after, busy, err := d.written(); err != nil || !busy && after == before {
				return err
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("the kernel writes to the disk all the time")
}

// written returns what tells that the device was written to, and whether
// requests are under way.
func (d *disk) written() (stat string, busy bool, err error) {
	b, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(d.device), "stat"))
	if err != nil {
		return "", false, err
	}
	// Linux, Documentation/block/stat.rst: fields 4 to 6 count writes, 8 is
	// what is in flight, and 15 counts flushes.
	f := strings.Fields(string(b))
	if len(f) < 9 {
		return "", false, fmt.Errorf("statistics of %s: %q", d.device, b)
	}
	return strings.Join(f[4:7], " "), f[8] != "0", nil
}
