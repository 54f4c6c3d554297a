// Packaging makes what users install, for every platform, and tries it:
//
//	go run ./packaging build [kind...]
//	go run ./packaging check [kind...]
//
// Kinds are loam, lib, python, node, java and sbom; without any, all are made. Files come into
// build/dist, with SHA256SUMS and a table of sizes. What has no compiler here is left out, which a
// line says. It runs in the project's directory, on Linux on x86-64.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	dist = "build/dist"
	work = "build/packaging" // one folder for each platform
)

// kind is a sort of package. build returns an error for which errors.Is(err, errLeftOut) holds
// where it was not possible.
type kind struct {
	name  string
	build func(p platform) error
	check func(p platform) error // what can be said without running it, and running it
	once  bool                   // one package is for all platforms
}

var kinds = []kind{
	{name: "loam", build: buildLoam, check: checkLoam},
	{name: "lib", build: packLibrary, check: checkLibrary},
	{name: "python", build: buildWheel, check: checkWheel},
	{name: "node", build: buildNode, check: checkNode},
	{name: "java", build: buildJar, check: checkJar, once: true},
	{name: "sbom", build: buildSBOM, check: checkSBOM, once: true},
}

var errLeftOut = errors.New("left out")

func leftOut(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errLeftOut}, args...)...)
}

// version is that of the C library's source.
var version = release()

func release() string {
	text, _ := os.ReadFile("cabi/shim.c")
	m := regexp.MustCompile(`loam_version\(void\) { return "(.*)"; }`).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return string(m[1])
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || args[0] != "build" && args[0] != "check" {
		return errors.New("usage: go run ./packaging build|check [kind...]")
	}
	if version == "" {
		return errors.New("cabi/shim.c has no version; run it in the project's directory")
	}
	for _, name := range args[1:] {
		if !slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name }) {
			return fmt.Errorf("there is no kind %q of packages", name)
		}
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	if args[0] == "check" {
		return checkAll(args[1:])
	}
	if err := each(args[1:], func(k kind, p platform) error { return k.build(p) }); err != nil {
		return err
	}
	return list()
}

// wanted are the platforms to build for; none: all. A jar has the libraries of those that are.
var wanted = strings.Fields(os.Getenv("PLATFORMS"))

// each calls f for all platforms of the kinds named; none: of all. Failures do not end it.
func each(names []string, f func(kind, platform) error) error {
	var failed []error
	for _, k := range kinds {
		if len(names) > 0 && !slices.Contains(names, k.name) {
			continue
		}
		of := platforms
		if k.once {
			of = platforms[:1]
		}
		for _, p := range of {
			if !k.once && len(wanted) > 0 && !slices.Contains(wanted, p.String()) {
				continue
			}
			switch err := f(k, p); {
			case errors.Is(err, errLeftOut):
				fmt.Printf("dist: %s for %s: %v\n", k.name, p, err)
			case err != nil:
				failed = append(failed, fmt.Errorf("%s for %s: %w", k.name, p, err))
			}
		}
	}
	return errors.Join(failed...)
}

// packed is the path of a package.
func packed(name string) string { return filepath.Join(dist, name) }
