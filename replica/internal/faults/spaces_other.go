//go:build !linux

package faults

import "errors"

var errSpaces = errors.New("namespaces of the network need Linux")

// InSpace fails.
func InSpace(string, ...string) error { return errSpaces }

type spaces map[string]*space

type space struct{ addr string }

func newSpaces(...string) (spaces, error) { return nil, errSpaces }

func (spaces) close() {}

func (*space) within(args ...string) []string { return args }

func (spaces) mute(string, string) error { return errSpaces }

func (spaces) unmute(string, string) error { return errSpaces }
