package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func places() ([]place, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return placesIn(string(mounts), string(own)), nil
}

// placesIn lists where a group may be made, the nearest first: with version 2
// the process's own cgroup and those above it, since one that has processes
// cannot have children with a limit; with version 1 its own.
func placesIn(mounts, own string) []place {
	var two, one []place
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch {
		case f[2] == "cgroup2":
			path, ok := ownPath(own, "")
			for ; ok; path = filepath.Dir(path) {
				two = append(two, place{filepath.Join(f[1], path), unified})
				ok = path != "/"
			}
		case f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), "memory"):
			if path, ok := ownPath(own, "memory"); ok {
				one = append(one, place{filepath.Join(f[1], path), legacy})
			}
		}
	}
	return append(two, one...)
}

// ownPath is the process's cgroup in the hierarchy of a controller, "" for
// version 2, from lines of the form number:controllers:path.
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
