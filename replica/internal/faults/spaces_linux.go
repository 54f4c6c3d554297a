package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// InSpace runs this program again, with these arguments, in a network namespace of its own, where
// Options.Spaces may make further ones. It is an error that the system permits none.
func InSpace(environment string, args ...string) error {
	self := exec.Command(os.Args[0], args...)
	self.Env = append(os.Environ(), environment)
	self.Stdout, self.Stderr = os.Stdout, os.Stderr
	self.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET,
		Pdeathsig: syscall.SIGKILL}
	return self.Run()
}

// spaces are network namespaces, one a node, whose links meet in a bridge of this process.
type spaces map[string]*space

// space is the namespace of a node. A process that does nothing keeps it while the node is away.
type space struct {
	addr   string
	keeper *exec.Cmd
}

// newSpaces makes a bridge and the namespaces.
func newSpaces(ids ...string) (_ spaces, err error) {
	s := spaces{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for _, line := range []string{"ip link set lo up", "ip link add loam type bridge",
		"ip addr add 10.77.0.100/24 dev loam", "ip link set loam up"} {
		if err := execute(strings.Fields(line)...); err != nil {
			return s, err
		}
	}
	for i, id := range ids {
		keeper := exec.Command("sleep", "infinity")
		keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET,
			Pdeathsig: syscall.SIGKILL}
		if err := keeper.Start(); err != nil {
			return s, err
		}
		x := &space{fmt.Sprintf("10.77.0.%d", i+1), keeper}
		s[id] = x
		err := errors.Join(
			execute("ip", "link", "add", "in-"+id, "type", "veth", "peer", "name", "out-"+id),
			execute("ip", "link", "set", "out-"+id, "master", "loam", "up"),
			execute("ip", "link", "set", "in-"+id, "netns", fmt.Sprint(keeper.Process.Pid)),
			x.execute("ip", "addr", "add", x.addr+"/24", "dev", "in-"+id),
			x.execute("ip", "link", "set", "in-"+id, "up"),
			x.execute("ip", "link", "set", "lo", "up"))
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// close removes the links at once, as those of a namespace may outlive it for a moment.
func (s spaces) close() {
	for id, x := range s {
		_ = execute("ip", "link", "del", "out-"+id) // newSpaces may have failed before it
		_ = x.keeper.Process.Kill()                 // the namespace goes with it
		_ = x.keeper.Wait()                         // it was killed
	}
	if s != nil {
		_ = execute("ip", "link", "del", "loam") // as above
	}
}

// within is a command line in the namespace of a node.
func (x *space) within(args ...string) []string {
	return append([]string{"nsenter", "-t", fmt.Sprint(x.keeper.Process.Pid), "-n"}, args...)
}

func (x *space) execute(args ...string) error { return execute(x.within(args...)...) }

// mute drops what a node sends to another one, and unmute ends that.
func (s spaces) mute(from, to string) error { return s.route("add", from, to) }

func (s spaces) unmute(from, to string) error { return s.route("del", from, to) }

func (s spaces) route(verb, from, to string) error {
	return s[from].execute("ip", "route", verb, "blackhole", s[to].addr+"/32")
}

func execute(args ...string) error {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
