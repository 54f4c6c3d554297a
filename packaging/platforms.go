package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// platform is a system and a processor.
type platform struct {
	os, arch string
	cc       string // the C compiler and its arguments; empty: there are no libraries for it
	wheel    string // the platform's tag of a wheel, without the version of glibc
	node     string // as process.platform and process.arch
	java     string // as Library.java has it
	run      string // what runs its programs here; "-": nothing does
}

// platforms begin with the one that builds.
var platforms = []platform{
	{"linux", "amd64", "cc", "manylinux_x86_64", "linux-x64", "linux-x86-64", ""},
	{"linux", "arm64", "aarch64-linux-gnu-gcc", "manylinux_aarch64", "linux-arm64",
		"linux-aarch64", "qemu-aarch64-static -L /usr/aarch64-linux-gnu"},
	{"darwin", "amd64", "zig x86_64-macos.12.0", "macosx_12_0_x86_64", "darwin-x64",
		"darwin-x86-64", "-"},
	{"darwin", "arm64", "zig aarch64-macos.12.0", "macosx_12_0_arm64", "darwin-arm64",
		"darwin-aarch64", "-"},
	{"windows", "amd64", "x86_64-w64-mingw32-gcc", "win_amd64", "win32-x64", "windows-x86-64",
		"/usr/lib/wine/wine64"},
	{os: "windows", arch: "arm64", cc: "zig aarch64-windows-gnu", run: "-"},
	{os: "freebsd", arch: "amd64", run: "-"},
}

func (p platform) String() string { return p.os + "-" + p.arch }

func (p platform) native() bool { return p.run == "" }

// engine is the name of the engine's library in packages.
func (p platform) engine() string {
	return map[string]string{"darwin": "libloam.dylib", "windows": "loam.dll"}[p.os] +
		map[bool]string{true: "libloam.so"}[p.os == "linux"]
}

// compiler is the command of the C compiler.
func (p platform) compiler() ([]string, error) {
	if p.cc == "" {
		return nil, leftOut("libraries are not built for it")
	}
	words := strings.Fields(p.cc)
	if words[0] == "zig" {
		python, err := filepath.Abs("build/zig/bin/python")
		if err == nil {
			_, err = os.Stat(python)
		}
		if err != nil {
			return nil, leftOut("zig is not in build/zig; make dist-tools installs it")
		}
		stubs, err := filepath.Abs("packaging/macos")
		return []string{python, "-m", "ziglang", "cc", "-target", words[1], "-L" + stubs,
			"-F" + stubs}, err
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return nil, leftOut("%s is not installed; make dist-tools installs it", words[0])
	}
	return words, nil
}

// runner is the command that runs programs of the platform.
func (p platform) runner() ([]string, error) {
	words := strings.Fields(p.run)
	if p.run == "-" {
		return nil, leftOut("its programs do not run here: linked and read only")
	}
	if len(words) > 0 {
		if _, err := exec.LookPath(words[0]); err != nil {
			return nil, leftOut("%s is not installed; make dist-tools installs it", words[0])
		}
	}
	return words, nil
}

// command runs a program; its output is the error's text when it fails.
func command(dir string, env []string, words ...string) (string, error) {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", &commandError{words, string(out), err}
	}
	return string(out), nil
}

type commandError struct {
	words  []string
	output string
	err    error
}

func (e *commandError) Unwrap() error { return e.err }

func (e *commandError) Error() string {
	return strings.Join(e.words, " ") + ": " + e.err.Error() + "\n" + e.output
}

// makes runs a target of the makefiles.
func makes(targets ...string) error {
	words := append([]string{variable("MAKE", "make"), "-s"}, targets...)
	_, err := command("", nil, words...)
	return err
}

func variable(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
