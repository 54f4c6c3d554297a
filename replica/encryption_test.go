package replica

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/lsm"
)

// TestEncryption: with the encryption of the database, no file of a node has a value in clear text,
// those of the Raft log included.
func TestEncryption(t *testing.T) {
	keys, err := lsm.NewKeyProvider(bytes.Repeat([]byte{7}, 32))
	must(t, err)
	const value = "nobody reads this"
	for _, encryption := range []lsm.KeyProvider{nil, keys} {
		c := newCluster(t, func(cfg *Config) { cfg.Database.Encryption = encryption }, "a")
		put(t, c.nodes["a"], "k", value)
		must(t, c.nodes["a"].run.Load().raft.Snapshot().Error())
		put(t, c.nodes["a"], "l", value)
		c.stop("a")
		read := clearFiles(t, c.disks["a"], "/a", value)
		if (len(read) == 0) != (encryption != nil) {
			t.Errorf("encryption %v: in clear text in %q", encryption != nil, read)
		}
		has(t, c.start("a"), "k", value)
	}
}

// clearFiles lists the files in a directory, and in those below it, that have a text.
func clearFiles(t *testing.T, on lsm.FS, dir, text string) (files []string) {
	names, err := on.List(dir)
	must(t, err)
	for _, n := range names {
		name := filepath.Join(dir, n)
		info, err := on.Stat(name)
		must(t, err)
		if info.IsDir() {
			files = append(files, clearFiles(t, on, name, text)...)
			continue
		}
		f, err := on.Open(name)
		must(t, err)
		b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
		must(t, err, f.Close())
		if bytes.Contains(b, []byte(text)) {
			files = append(files, name)
		}
	}
	return files
}
