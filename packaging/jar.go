package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const jarResources = "build/java/resources/io/loamdb/native"

// buildJar builds the jar with the libraries of all platforms for which there is a compiler.
func buildJar(platform) error {
	// Libraries of an earlier build, of platforms that are not wanted now, stay out of the jar.
	for _, folder := range []string{jarResources, "build/java/target/classes/io/loamdb/native"} {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	var left []string
	for _, p := range platforms {
		if len(wanted) > 0 && !slices.Contains(wanted, p.String()) {
			continue
		}
		switch err := buildJNI(p); {
		case errors.Is(err, errLeftOut):
			left = append(left, p.String())
		case err != nil:
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if len(left) > 0 {
		fmt.Println("dist: the jar is without", strings.Join(left, ", "))
	}
	if err := makes("java"); err != nil {
		return err
	}
	name := "loamdb-" + version + ".jar"
	return copyFile(filepath.Join("build/java/target", name), packed(name))
}

// shimName is the name of the JNI library, as Library.java has it.
func (p platform) shimName() string {
	return map[string]string{"linux": "libloamdbjni.so", "darwin": "libloamdbjni.dylib",
		"windows": "loamdbjni.dll"}[p.os]
}

func buildJNI(p platform) error {
	if p.native() {
		return makes("java-native")
	}
	if p.java == "" {
		return leftOut("there is no JNI library for it yet")
	}
	so, err := library(p)
	if err != nil {
		return err
	}
	dir := filepath.Join(jarResources, p.java)
	engine := p.engine()
	if p.os == "linux" {
		engine += ".0"
	}
	if err := copyFile(so, filepath.Join(dir, engine)); err != nil {
		return err
	}
	headers, err := jniHeaders()
	if err != nil {
		return err
	}
	sources, err := filepath.Glob("bindings/java/src/main/c/*.c")
	if err != nil {
		return err
	}
	flags := []string{"-std=c99", "-Icabi", "-I" + headers}
	switch p.os {
	case "windows":
		flags = append(flags, "-Ipackaging/windows", "-s", "-static-libgcc",
			"-Wl,--no-insert-timestamp", filepath.Join(dir, engine),
			"-Wl,-Bstatic", "-lpthread", "-Wl,-Bdynamic")
	case "darwin":
		flags = append(flags, "-I"+headers+"/linux", filepath.Join(dir, engine),
			"-Wl,-rpath,@loader_path")
	default:
		flags = append(flags, "-I"+headers+"/linux", "-pthread", "-L"+dir, "-l:"+engine,
			"-Wl,-soname,"+p.shimName()+",-rpath,$ORIGIN")
	}
	// The libraries come behind the sources that need them.
	return compile(p, filepath.Join(dir, p.shimName()), append(sources, flags...)...)
}

// jniHeaders is the folder of jni.h.
func jniHeaders() (string, error) {
	home := os.Getenv("JAVA_HOME")
	if home == "" {
		javac, err := command("", nil, "sh", "-c", "readlink -f $(command -v javac)")
		if err != nil {
			return "", leftOut("there is no JDK")
		}
		home = filepath.Dir(filepath.Dir(strings.TrimSpace(javac)))
	}
	return filepath.Join(home, "include"), nil
}
