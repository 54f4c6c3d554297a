//go:build !unix

package runner

func readUsage() usage { return usage{written: -1} }
