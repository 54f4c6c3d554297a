// Command golden makes the databases in testdata that other engines wrote, and those of
// Loam's own format. Run it from the folder above, with plyvel and classic-level
// installed:
//
//	LOAM_PYTHON=venv/bin/python go run ./golden ../../../testdata
//
// or, for Loam's format alone, go run ./golden ../../../testdata native. The folders native-N...
// have what Loam wrote when version N of the format, or what their names say of it, was new: each
// is made once, and stays readable. One that is there is left alone. native-1-holes has a log
// without markers where sequence numbers are in no log, as no version writes it any more.
//
// For every peer it writes a folder with two databases, one closed and one
// whose process was killed, and a file "expected" with the number of pairs and
// their digest: SHA-256 over the lengths (varint), keys and values in order.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/loamdb/loam/internal/testkit/interop"
)

// names are the folders, by peer.
var names = map[string]string{"goleveldb": "goleveldb-126854a", "plyvel": "leveldb-1.22",
	"classic-level": "leveldb-1.20"}

func main() {
	if len(os.Args) > 3 && os.Args[1] == "loam-peer" { // the one that is killed
		if err := interop.LoamMain(os.Args[1:], os.Stdin, os.Stdout); err != nil {
			log.Fatal(err)
		}
		os.Exit(0) // without closing
	}
	if len(os.Args) == 3 && os.Args[1] == kindsName { // likewise
		p, err := playKinds(os.Args[2])
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(p.expected())
		os.Exit(0)
	}
	python := os.Getenv("LOAM_PYTHON")
	if python == "" {
		python = "python3"
	}
	for name, ops := range map[string][]interop.Op{"native-1": history(),
		"native-1-dictionary": records()} {
		folder := filepath.Join(os.Args[1], name)
		if exists(folder) {
			continue
		}
		if err := writeBoth(interop.Native(), folder, ops); err != nil {
			log.Fatal(err)
		}
	}
	if folder := filepath.Join(os.Args[1], kindsName); !exists(folder) {
		if err := writeKinds(folder); err != nil {
			log.Fatal(err)
		}
	}
	if len(os.Args) > 2 {
		return
	}
	for _, p := range interop.Peers(python, "node") {
		if p.Name() == interop.Native().Name() {
			continue
		}
		if err := writeBoth(p, filepath.Join(os.Args[1], names[p.Name()]), history()); err != nil {
			log.Fatal(err)
		}
	}
}

func writeBoth(p interop.Peer, folder string, ops []interop.Op) error {
	for _, kill := range []bool{false, true} {
		if err := write(p, folder, ops, kill); err != nil {
			return err
		}
	}
	return nil
}

func write(p interop.Peer, folder string, ops []interop.Op, kill bool) error {
	dir := filepath.Join(folder, "closed")
	if kill {
		dir = filepath.Join(folder, "killed")
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	pairs, err := p.Play(dir, ops, kill)
	if err != nil {
		return err
	}
	h := sha256.New()
	var buf []byte
	for _, pair := range pairs {
		buf = appendPair(buf[:0], pair.Key, pair.Value)
		h.Write(buf)
	}
	return os.WriteFile(filepath.Join(folder, "expected"),
		fmt.Appendf(nil, "%d %x\n", len(pairs), h.Sum(nil)), 0o644)
}

// appendPair appends what of an entry goes into a digest.
func appendPair(buf, key, value []byte) []byte {
	buf = append(binary.AppendUvarint(buf, uint64(len(key))), key...)
	return append(binary.AppendUvarint(buf, uint64(len(value))), value...)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// history fills several tables, overwrites and deletes, and leaves the last
// part in the log.
func history() (ops []interop.Op) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1600 {
		key := fmt.Appendf(nil, "key%04d", r.IntN(700))
		switch {
		case i == 800:
			ops = append(ops, interop.Op{Name: "compact"})
		case i == 1200:
			ops = append(ops, interop.Op{Name: "reopen"})
		case r.IntN(6) == 0:
			ops = append(ops, interop.Op{Name: "del", Key: key})
		default:
			value := make([]byte, r.IntN(60))
			for j := range value {
				value[j] = byte('a' + r.IntN(4))
			}
			ops = append(ops, interop.Op{Name: "put", Key: key, Value: value})
		}
	}
	return ops
}

// records fills tables with small documents, which are packed with a dictionary, and leaves the
// last ones in the log.
func records() (ops []interop.Op) {
	r := rand.New(rand.NewPCG(3, 4))
	cities := []string{"Rotterdam", "Antwerp", "Hamburg", "Oslo", "Riga"}
	for i := range 1200 {
		if i == 1100 {
			ops = append(ops, interop.Op{Name: "compact"})
		}
		ops = append(ops, interop.Op{Name: "put", Key: fmt.Appendf(nil, "record%05d", r.IntN(5000)),
			Value: fmt.Appendf(nil,
				`{"id":%d,"city":%q,"owner":"user%04d","visits":%d,"premium":%v}`, r.Uint32(),
				cities[r.IntN(5)], r.IntN(10000), r.IntN(50), r.IntN(2) == 0)})
	}
	return ops
}
