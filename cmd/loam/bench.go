package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/program"
)

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
			kvbench, err := findProgram("kvbench", "cmd/kvbench")
			if err != nil {
				return err
			}
			var exit *exec.ExitError
			// Ctrl-C reaches the child, too, which ends by itself.
			if err = a.runProgram(exec.Command(kvbench, args...)); errors.As(err, &exit) {
				return &problem{}
			}
			return err
		},
	}
}

// findProgram finds another program of Loam beside this one, or in PATH. Its package is for the
// error.
func findProgram(name, from string) (string, error) {
	found, err := program.Find(name)
	if err != nil {
		return "", fmt.Errorf("the program %s is neither beside loam nor in PATH; install it "+
			"by: go install github.com/loamdb/loam/%s@latest (%w)", name, from, err)
	}
	return found, nil
}

// runProgram runs a program with the input and output of this one.
func (a *app) runProgram(c *exec.Cmd) error {
	c.Stdin, c.Stdout, c.Stderr = a.in, a.out, a.err
	if a.in == os.Stdin {
		c.Stdout = os.Stdout
	}
	return c.Run()
}
