// Command loam-target-s3 is run by loam for targets of the form s3://bucket/prefix: it answers
// requests on its standard input with the objects of the bucket.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/loamdb/loam/lsm/replicate"
	"github.com/loamdb/loam/s3"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: loam-target-s3 s3://bucket/prefix; loam runs it")
		os.Exit(2)
	}
	// A terminal or a service manager sends them to loam, too, which ends the input of this program
	// when the rest is sent.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	t, err := s3.Open(os.Args[1])
	if err == nil {
		err = replicate.Serve(context.Background(), t, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "loam-target-s3:", err)
		os.Exit(3)
	}
}
