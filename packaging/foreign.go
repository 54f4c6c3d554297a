package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Programs of other platforms run in emulators: of arm64 with what dist-tools unpacks into
// build/arm64, of Windows in a configuration of wine's own.

// arm64Root is a Debian for arm64 with Python and a JVM, and Node beside it.
const arm64Root = "build/arm64"

// foreign returns the command of a program in arm64Root, which a pattern names.
func (p platform) foreign(pattern string) ([]string, error) {
	if p.os != "linux" || p.arch != "arm64" {
		return nil, leftOut("there is no such program for it here: linked only")
	}
	found, err := filepath.Glob(filepath.Join(arm64Root, pattern))
	if err == nil && len(found) == 0 {
		err = leftOut("%s is not in %s; make dist-tools gets it", pattern, arm64Root)
	}
	if err != nil {
		return nil, err
	}
	return []string{"qemu-aarch64-static", "-L", absolute(arm64Root), absolute(found[0])}, nil
}

// environment is what the platform's programs get besides.
func (p platform) environment() ([]string, error) {
	if p.os != "windows" {
		return nil, nil
	}
	prefix, err := winePrefix()
	return []string{"WINEDEBUG=-all", "WINEPREFIX=" + prefix}, err
}

// winePrefix is the folder of wine's configuration, which is made if it is not there.
func winePrefix() (string, error) {
	prefix := absolute(filepath.Join(work, "wine"))
	library := filepath.Join(prefix, "drive_c/windows/system32/bcryptprimitives.dll")
	if _, err := os.Stat(library); err == nil {
		return prefix, nil
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return "", err
	}
	wine := platforms[4].run
	if _, err := command("", []string{"WINEDEBUG=-all", "WINEPREFIX=" + prefix}, wine, "cmd", "/c",
		"exit"); err != nil {
		return "", err
	}
	_, err := command("", nil, platforms[4].cc, "-O2", "-shared", "-o", library,
		"packaging/windows/bcryptprimitives.c", "-ladvapi32")
	return prefix, err
}

// tryWheelInWine has pip unpack a wheel for Windows and what it depends on, which Python for
// Windows uses. That Python takes no pipe of wine as its standard output, but a file of cmd's.
func (p platform) tryWheelInWine(wheel string) error {
	runner, err := p.runner()
	if err != nil {
		return err
	}
	env, err := p.environment()
	if err != nil {
		return err
	}
	if err := p.stableABI(); err != nil {
		return err
	}
	python := "Z:" + strings.ReplaceAll(absolute(windowsPython), "/", `\`) + `\python.exe`
	return tried("trees.py", pythonProgram, func(dir string) [][]string {
		return [][]string{
			{variable("PYTHON", "python3"), "-m", "pip", "install", "-q",
				"--disable-pip-version-check", "--platform", p.wheel, "--python-version", "3.11",
				"--only-binary=:all:", "--target", "site", wheel},
			{"touch", "none"},
			slices.Concat([]string{"env", "PYTHONPATH=site"}, env, runner,
				[]string{"cmd", "/c", python + " trees.py <none >printed 2>&1"}),
			{"cat", "printed"},
		}
	})
}

// stableABI makes python3.dll, which that package lacks of Python's own: each of its functions is
// one of python311.dll.
func (p platform) stableABI() error {
	stable := filepath.Join(windowsPython, "python3.dll")
	if _, err := os.Stat(stable); err == nil {
		return nil
	}
	symbols, err := command("", nil, strings.Replace(p.cc, "gcc", "nm", 1),
		filepath.Join(windowsPython, "libs/python3.lib"))
	if err != nil {
		return err
	}
	var definition strings.Builder
	definition.WriteString("LIBRARY python3.dll\nEXPORTS\n")
	for _, m := range stableNames.FindAllStringSubmatch(symbols, -1) {
		fmt.Fprintf(&definition, "%s = python311.%s\n", m[1], m[1])
	}
	list := filepath.Join(work, p.String(), "python3.def")
	if err := os.WriteFile(list, []byte(definition.String()), 0o600); err != nil {
		return err
	}
	_, err = command("", nil, p.cc, "-shared", "-nostdlib", "-o", stable, list)
	return err
}

var stableNames = regexp.MustCompile(`(?m) I __imp_(\w+)$`)
