// Command loam-target-s3 is run by loam for targets of the form s3://bucket/prefix: it answers
// requests on its standard input with the objects of the bucket.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/loamdb/loam/lsm/replicate"
	"github.com/loamdb/loam/s3"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: loam-target-s3 s3://bucket/prefix; loam runs it")
		os.Exit(2)
	}
	signal.Ignore(os.Interrupt) // loam ends its input
	t, err := s3.Open(os.Args[1])
	if err == nil {
		err = replicate.Serve(context.Background(), t, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "loam-target-s3:", err)
		os.Exit(3)
	}
}
