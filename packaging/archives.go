package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name, source string
	mode         fs.FileMode
}

// moment is the time of all entries: archives of the same files are the same.
var moment = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func writeTar(to string, files []entry) error {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		data, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		err = w.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode),
			Size: int64(len(data)), ModTime: moment, Format: tar.FormatUSTAR})
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

func writeZip(to string, files []entry) error {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		data, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		if err := addZip(w, f.name, data, f.mode); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

func addZip(w *zip.Writer, name string, data []byte, mode fs.FileMode) error {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: moment}
	h.SetMode(mode)
	f, err := w.CreateHeader(h)
	if err == nil {
		_, err = f.Write(data)
	}
	return err
}

// licences are the files that every package has.
var licences = []string{"LICENSE", "THIRD-PARTY.txt"}

// hasLicences wants a package to have them, somewhere, as they are in the project's directory.
func hasLicences(archive string) error {
	files, err := readArchive(archive)
	if err != nil {
		return err
	}
	for _, name := range licences {
		want, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(inside string) bool {
			return path.Base(inside) == name && bytes.Equal(files[inside], want)
		}) {
			return fmt.Errorf("%s is without %s, or has another", archive, name)
		}
	}
	return nil
}

// readArchive returns the files of a zip or tar file by name.
func readArchive(archive string) (map[string][]byte, error) {
	files := map[string][]byte{}
	if !strings.HasSuffix(archive, "gz") {
		r, err := zip.OpenReader(archive)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		for _, f := range r.File {
			if files[f.Name], err = readZipped(f); err != nil {
				return nil, err
			}
		}
		return files, nil
	}
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, err
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	// Renamed: a process may have the old one mapped.
	if err := os.WriteFile(to+".new", data, 0o755); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// sums are the SHA-256 sums and sizes of the packages, by name.
func sums() (names []string, of map[string]string, size map[string]int64, err error) {
	files, err := os.ReadDir(dist)
	of, size = map[string]string{}, map[string]int64{}
	for _, f := range files {
		if f.Name() == "SHA256SUMS" || f.Name() == "TABLE.md" {
			continue
		}
		r, err := os.Open(packed(f.Name()))
		if err != nil {
			return nil, nil, nil, err
		}
		h := sha256.New()
		n, err := io.Copy(h, r)
		r.Close()
		if err != nil {
			return nil, nil, nil, err
		}
		names = append(names, f.Name())
		of[f.Name()], size[f.Name()] = fmt.Sprintf("%x", h.Sum(nil)), n
	}
	return names, of, size, err
}

// list writes SHA256SUMS and TABLE.md, and prints the second.
func list() error {
	names, of, size, err := sums()
	if err != nil {
		return err
	}
	var plain, table strings.Builder
	table.WriteString("| file | bytes | SHA-256 |\n|---|--:|---|\n")
	for _, n := range names {
		fmt.Fprintf(&plain, "%s  %s\n", of[n], n)
		fmt.Fprintf(&table, "| %s | %d | %s |\n", n, size[n], of[n])
	}
	fmt.Print(table.String())
	if err := os.WriteFile(packed("SHA256SUMS"), []byte(plain.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(packed("TABLE.md"), []byte(table.String()), 0o644)
}
