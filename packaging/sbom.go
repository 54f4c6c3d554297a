package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// component is one of CycloneDX 1.5.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

type bill struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Version  int    `json:"version"`
	Metadata struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

func sbomName() string { return "loam-" + version + ".cdx.json" }

// linkedPackage is a package of another module, as go list has it.
type linkedPackage struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// linkedPackages lists the packages of other modules that are linked into the libraries and the
// command of any platform.
func linkedPackages() ([]linkedPackage, error) {
	var all []linkedPackage
	for _, on := range platforms {
		text, err := command("", []string{"CGO_ENABLED=1", "GOOS=" + on.os, "GOARCH=" + on.arch},
			variable("GO", "go"), "list", "-deps", "-json=Dir,Module", "./cabi", "./cmd/loam")
		if err != nil {
			return nil, err
		}
		for dec := json.NewDecoder(strings.NewReader(text)); ; {
			var p linkedPackage
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if p.Module != nil && !p.Module.Main {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// buildSBOM lists the modules that are linked into the libraries and the command, and Go itself.
func buildSBOM(platform) error {
	linked, err := linkedPackages()
	if err != nil {
		return err
	}
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1}
	b.Metadata.Component = component{"library", "loam", version,
		"pkg:golang/github.com/loamdb/loam@" + version}
	for _, p := range linked {
		b.Components = append(b.Components, component{"library", p.Module.Path, p.Module.Version,
			"pkg:golang/" + p.Module.Path + "@" + p.Module.Version})
	}
	goVersion, err := command("", nil, variable("GO", "go"), "env", "GOVERSION")
	if err != nil {
		return err
	}
	goVersion = strings.TrimPrefix(strings.TrimSpace(goVersion), "go")
	b.Components = append(b.Components, component{"library", "std", goVersion,
		"pkg:golang/std@" + goVersion})
	byName := func(a, b component) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(b.Components, byName)
	b.Components = slices.Compact(b.Components)
	out, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(packed(sbomName()), append(out, '\n'), 0o644)
}

// checkSBOM compares the list with what Go recorded in the command.
func checkSBOM(p platform) error {
	text, err := os.ReadFile(packed(sbomName()))
	if err != nil {
		return err
	}
	var b bill
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	linked, err := command("", nil, variable("GO", "go"), "version", "-m", packed(loamName(p)))
	if err != nil {
		return err
	}
	for line := range strings.Lines(linked) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "dep" {
			continue
		}
		if !slices.ContainsFunc(b.Components, func(c component) bool {
			return c.Name == f[1] && c.Version == f[2]
		}) {
			return fmt.Errorf("%s does not name %s %s", sbomName(), f[1], f[2])
		}
	}
	return nil
}
