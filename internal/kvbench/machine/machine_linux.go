package machine

import (
	"os"
	"strconv"
	"strings"
)

func (e *Environment) system(dir string) {
	info := pairs("/proc/cpuinfo")
	e.CPU, e.CPUCache = info["model name"], info["cache size"]
	e.Kernel = firstLine("/proc/sys/kernel/osrelease")
	if kb, ok := strings.CutSuffix(pairs("/proc/meminfo")["MemTotal"], " kB"); ok {
		if n, err := strconv.ParseInt(kb, 10, 64); err == nil {
			e.Memory = n << 10
		}
	}
	load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	if f, err := strconv.ParseFloat(load, 64); err == nil {
		e.Load = f
	}
	if b, err := os.ReadFile("/proc/self/mounts"); err == nil {
		e.FileSystem = mountOf(string(b), dir)
	}
}

// pairs reads lines of the form "name : value"; the first of a name stays.
func pairs(file string) map[string]string {
	m := map[string]string{}
	b, err := os.ReadFile(file)
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, seen := m[name]; ok && !seen {
			m[name] = strings.TrimSpace(value)
		}
	}
	return m
}

func firstLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// mountOf is the type of the file system mounted nearest above dir.
func mountOf(mounts, dir string) string {
	best, kind := -1, ""
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		at := strings.ReplaceAll(f[1], `\040`, " ")
		below := at == "/" || dir == at || strings.HasPrefix(dir, at+"/")
		if below && len(at) >= best { // a later mount hides an earlier one
			best, kind = len(at), f[2]
		}
	}
	return kind
}

// resident is the resident set of the process in bytes; negative: unknown.
func resident() int64 {
	if f := strings.Fields(firstLine("/proc/self/statm")); len(f) > 1 {
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			return n * int64(os.Getpagesize())
		}
	}
	return -1
}
