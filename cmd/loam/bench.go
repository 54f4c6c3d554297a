package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

const kvbench = "kvbench"

func (a *app) benchVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "bench [FLAGS OF KVBENCH]",
		Short: "Measure Loam on this machine with LevelDB's benchmarks",
		Long: "Measure Loam on this machine with LevelDB's benchmarks. It runs the program " +
			"kvbench, which lies\nbeside loam or in PATH; \"loam bench --help\" lists its flags.",
		Example: "  loam bench leveldb\n" +
			"  loam bench --num=1M --benchmarks=fillrandom,readrandom",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			program, err := findKvbench()
			if err != nil {
				return err
			}
			// Ctrl-C reaches the child, too, which ends by itself.
			c := exec.Command(program, args...)
			c.Stdin, c.Stdout, c.Stderr = a.in, a.out, a.err
			if a.in == os.Stdin {
				c.Stdout = os.Stdout
			}
			var exit *exec.ExitError
			if err := c.Run(); errors.As(err, &exit) {
				return &problem{}
			} else if err != nil {
				return err
			}
			return nil
		},
	}
}

// findKvbench finds the program beside this one, or in PATH.
func findKvbench() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), kvbench+filepath.Ext(self))
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	program, err := exec.LookPath(kvbench)
	if err != nil {
		return "", fmt.Errorf("the program kvbench is neither beside loam nor in PATH; install it "+
			"by: go install github.com/loamdb/loam/cmd/kvbench@latest (%w)", err)
	}
	return program, nil
}
