package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	name := "loam"
	if p.os == "windows" {
		name += ".exe"
	}
	if err := copyFile(loam, filepath.Join(target, name)); err != nil {
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
	headers = strings.TrimSpace(headers)
	flags := []string{"-std=gnu11", "-pthread", "-Icabi", "-I" + headers}
	switch p.os {
	case "darwin":
		flags = append(flags, "-Wl,-undefined,dynamic_lookup")
	case "windows":
		node, err := importsOfNode(p, headers)
		if err != nil {
			return err
		}
		return compile(p, out, slices.Concat(flags, []string{"-D__USE_MINGW_ANSI_STDIO=1"}, sources,
			[]string{node, "-s", "-static-libgcc", "-Wl,--no-insert-timestamp", "-Wl,-Bstatic",
				"-lpthread", "-Wl,-Bdynamic"})...)
	}
	return compile(p, out, append(flags, sources...)...)
}

// importsOfNode makes the library by which an addon for Windows is linked with node.exe: of
// Node-API's functions, and the one of libuv that the addon calls.
func importsOfNode(p platform, headers string) (string, error) {
	names := []string{"uv_get_osfhandle"}
	for _, header := range []string{"node_api.h", "js_native_api.h"} {
		text, err := os.ReadFile(filepath.Join(headers, header))
		if err != nil {
			return "", err
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	base := filepath.Join(work, p.String(), "node")
	definition := "LIBRARY node.exe\nEXPORTS\n" + strings.Join(names, "\n") + "\n"
	if err := os.WriteFile(base+".def", []byte(definition), 0o600); err != nil {
		return "", err
	}
	_, err := command("", nil, strings.Replace(p.cc, "gcc", "dlltool", 1), "-d", base+".def",
		"-l", base+".a")
	return base + ".a", err
}

var declared = regexp.MustCompile(`NAPI_CDECL\s+(\w+)\s*\(`)
