// Package memlimit finds how much memory the process may have: the limit of its cgroup and of those
// above, and the memory of the machine. It is safe for concurrent use.
package memlimit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrUnknown is returned where the system does not say how much memory there is.
var ErrUnknown = errors.New("the system does not say how much memory there is")

// Least returns the least of the limits that hold at present, in bytes, and ErrUnknown if none is
// known.
func Least() (int64, error) { return least(Groups(), Machine()) }

// least is Least with the memory of the machine; 0: unknown.
func least(groups []Group, machine int64) (int64, error) {
	n := machine
	for _, g := range groups {
		for _, name := range g.limits() {
			b, err := os.ReadFile(filepath.Join(g.Dir, name))
			if err != nil {
				continue // the root has no such file
			}
			// The text "max" is no number, and no limit.
			limit, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			if err == nil && limit > 0 && (n == 0 || limit < n) {
				n = limit
			}
		}
	}
	if n == 0 {
		return 0, ErrUnknown
	}
	return n, nil
}

// Group is a cgroup that counts the memory of the process.
type Group struct {
	Dir     string // where its files are
	Unified bool   // of version 2 of cgroups
}

// limits are the files with the limits of a group. Above memory.high the kernel slows processes
// down, above the others it kills them.
func (g Group) limits() []string {
	if g.Unified {
		return []string{"memory.max", "memory.high"}
	}
	return []string{"memory.limit_in_bytes"}
}

// groupsIn lists the process's own cgroup and those above it, the nearest first, version 2 before
// version 1. mounts has the form of /proc/self/mountinfo, own that of /proc/self/cgroup, see
// proc(5) and cgroups(7).
func groupsIn(mounts, own string) []Group {
	var two, one []Group
	for line := range strings.Lines(mounts) {
		mount, super, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		f, s := strings.Fields(mount), strings.Fields(super)
		if !ok || len(f) < 5 || len(s) < 3 {
			continue
		}
		root, dir := unescape(f[3]), unescape(f[4])
		switch {
		case s[0] == "cgroup2":
			two = append(two, groupsOf(root, dir, own, "", true)...)
		case s[0] == "cgroup" && slices.Contains(strings.Split(s[2], ","), "memory"):
			one = append(one, groupsOf(root, dir, own, "memory", false)...)
		}
	}
	return append(two, one...)
}

// groupsOf lists the groups of one hierarchy, of which the tree below root is mounted at dir.
func groupsOf(root, dir, own, controller string, unified bool) (all []Group) {
	path, ok := ownPath(own, controller)
	if !ok {
		return nil
	}
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		rel = "." // a container has its own group mounted, and may be told the host's name of it
	}
	for ; rel != "."; rel = filepath.Dir(rel) {
		all = append(all, Group{filepath.Join(dir, rel), unified})
	}
	return append(all, Group{dir, unified})
}

// ownPath is the process's cgroup in the hierarchy of a controller, "" for version 2, from lines of
// the form number:controllers:path.
func ownPath(own, controller string) (string, bool) {
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) &&
			filepath.IsAbs(f[2]) {
			return filepath.Clean(f[2]), true
		}
	}
	return "", false
}

// unescape is a path of mountinfo without its octal escapes.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
