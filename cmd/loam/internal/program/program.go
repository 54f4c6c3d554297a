// Package program finds the other programs of Loam.
package program

import (
	"os"
	"os/exec"
	"path/filepath"
)

// Find finds a program beside this one, or in PATH.
func Find(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return beside, nil
		}
	}
	return exec.LookPath(name)
}
