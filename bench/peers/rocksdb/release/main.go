// Release fetches the native release build of RocksDB that Maven Central
// distributes for Java, whose library exports the whole C interface:
//
//	release DIR
//
// puts it into DIR/lib/librocksdb.so. Maven fetches the archive where it is
// installed, as it knows the proxies and mirrors of its machine; a plain
// download does otherwise. The archive's SHA-256 must be the one known here.
package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

const (
	version  = "11.8.1"
	jar      = "rocksdbjni-" + version + ".jar"
	address  = "https://repo1.maven.org/maven2/org/rocksdb/rocksdbjni/" + version + "/" + jar
	sum      = "628ed387887f4a431df480857954df2a28b4389bfe24858ccdec611cabf65dbf"
	patience = 10 * time.Minute // of a download
)

// libraries are the files in the archive, by operating system and machine.
var libraries = map[string]string{
	"linux/amd64":   "librocksdbjni-linux64.so",
	"linux/arm64":   "librocksdbjni-linux-aarch64.so",
	"linux/riscv64": "librocksdbjni-linux-riscv64.so",
	"linux/ppc64le": "librocksdbjni-linux-ppc64le.so",
	"linux/s390x":   "librocksdbjni-linux-s390x.so",
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "release: want a directory")
		os.Exit(2)
	}
	if err := install(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "rocksdb: no release build: %v\n", err)
		os.Exit(1)
	}
}

func install(dir string) error {
	name, ok := libraries[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return fmt.Errorf("%s has none for %s/%s", jar, runtime.GOOS, runtime.GOARCH)
	}
	lib := filepath.Join(dir, "lib", "librocksdb.so")
	if _, err := os.Stat(lib); err == nil {
		return nil
	}
	fmt.Fprintf(os.Stderr, "rocksdb: fetching %s, the release build\n", jar)
	archive, err := fetch()
	if err != nil {
		return err
	}
	if err := verify(archive, sum); err != nil {
		return err
	}
	b, err := extract(archive, name)
	if err != nil {
		return err
	}
	if err := preferOwnSymbols(b); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(lib), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(lib+".part", b, 0o644); err != nil {
		return err
	}
	return os.Rename(lib+".part", lib)
}

// fetch returns the archive: through Maven, or from Maven Central.
func fetch() ([]byte, error) {
	if b, err := maven(); err == nil {
		return b, nil
	}
	client := http.Client{Timeout: patience}
	r, err := client.Get(address)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", address, r.Status)
	}
	return io.ReadAll(r.Body)
}

func maven() ([]byte, error) {
	program, err := exec.LookPath("mvn")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rocksdb-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command(program, "-q", "-B",
		"org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
		"-Dartifact=org.rocksdb:rocksdbjni:"+version, "-DoutputDirectory="+dir)
	cmd.Dir = dir
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, jar))
}

func verify(archive []byte, want string) error {
	got := sha256.Sum256(archive)
	if h := hex.EncodeToString(got[:]); h != want {
		return fmt.Errorf("%s has the SHA-256 %s, want %s", jar, h, want)
	}
	return nil
}

func extract(archive []byte, name string) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	f, err := z.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}
