package main

import (
	"path/filepath"
	"strings"
)

// buildNode builds a platform's package of npm, and with this machine's the one that all share,
// which names the others as optional dependencies.
func buildNode(p platform) error {
	if p.node == "" {
		return leftOut("there is no addon for it yet")
	}
	so, err := library(p)
	if err != nil {
		return err
	}
	target := filepath.Join("bindings/node/npm", p.node)
	if p.native() {
		if err := makes("node-build"); err != nil {
			return err
		}
	} else if err := compileAddon(p, filepath.Join(target, "loamdb.node")); err != nil {
		return err
	}
	if err := copyFile(so, filepath.Join(target, p.engine())); err != nil {
		return err
	}
	loam, err := commandOf(p)
	if err != nil {
		return err
	}
	if err := copyFile(loam, filepath.Join(target, "loam")); err != nil {
		return err
	}
	_, err = command("", []string{"LOAM_PLATFORM=" + p.node}, "node",
		"bindings/node/scripts/pack.js", "--publish", dist)
	return err
}

func compileAddon(p platform, out string) error {
	headers, err := command("", nil, "node", "-p", "require('path').join("+
		"process.execPath, '..', '..', 'include', 'node')")
	if err != nil {
		return err
	}
	sources, err := filepath.Glob("bindings/node/src/*.c")
	if err != nil {
		return err
	}
	flags := []string{"-std=gnu11", "-pthread", "-Icabi", "-I" + strings.TrimSpace(headers)}
	if p.os == "darwin" {
		flags = append(flags, "-Wl,-undefined,dynamic_lookup")
	}
	return compile(p, out, append(flags, sources...)...)
}
