package main

import (
	"os"
	"path/filepath"
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
