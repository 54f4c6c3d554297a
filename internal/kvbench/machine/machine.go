// Package machine describes the machine that figures were taken on, and says how busy it is.
package machine

import (
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Environment is what figures depend on besides the engine.
type Environment struct {
	Time       string  `json:"time"`
	OS         string  `json:"os"`
	Kernel     string  `json:"kernel,omitempty"`
	Arch       string  `json:"arch"`
	CPU        string  `json:"cpu,omitempty"`
	CPUCache   string  `json:"cpu_cache,omitempty"`
	Cores      int     `json:"cores"`
	MaxProcs   int     `json:"gomaxprocs"`
	Memory     int64   `json:"memory_bytes,omitempty"`
	FileSystem string  `json:"file_system,omitempty"`
	Go         string  `json:"go"`
	Commit     string  `json:"commit,omitempty"` // of the program; its own to fill in
	Load       float64 `json:"load_before"`      // one-minute average; negative: unknown
}

// Read describes the system and the file system that holds dir.
func Read(dir string) Environment {
	e := Environment{
		Time:     time.Now().Format(time.RFC3339),
		OS:       runtime.GOOS,
		Arch:     runtime.GOARCH,
		Cores:    runtime.NumCPU(),
		MaxProcs: runtime.GOMAXPROCS(0),
		Go:       runtime.Version(),
		Load:     -1,
	}
	e.system(existing(dir))
	return e
}

// existing is the nearest directory above dir that exists.
func existing(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	for {
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			return real
		}
		up := filepath.Dir(abs)
		if _, err := os.Lstat(abs); err == nil || up == abs {
			return abs
		}
		abs = up
	}
}
