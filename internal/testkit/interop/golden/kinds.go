package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/lsm"
)

// The folder native-1-kinds has what LevelDB's format lacks: keyspaces, one of them with another
// comparer and one dropped and made again, merges, range deletes, and values that expire. Its
// "expected" has a line for each keyspace, by a model that Loam has no part in.

// kindsName is the folder, and the word by which the command calls itself to be killed.
const kindsName = "native-1-kinds"

// written is the time at which everything was written: a time to live of hours is over.
var written = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// later is added to it when all is written, to compare.
var later atomic.Int64

// spaces are the keyspaces, in the order in which they are made.
var spaces = []struct {
	name    string
	options *lsm.KeyspaceOptions
}{
	{"default", nil},
	{"counters", &lsm.KeyspaceOptions{MergeOperator: lsm.MergeOperatorNamed("uint64add")}},
	{"lines", &lsm.KeyspaceOptions{MergeOperator: lsm.MergeOperatorNamed("append:,")}},
	{"down", &lsm.KeyspaceOptions{Comparer: lsm.ReverseBytewiseComparer}},
	{"again", nil},
}

// writeKinds makes the folder.
func writeKinds(folder string) error {
	for _, state := range []string{"closed", "killed"} {
		dir := filepath.Join(folder, state)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		var expected string
		if state == "killed" {
			out, err := exec.Command(os.Args[0], kindsName, dir).Output()
			if err != nil {
				return err
			}
			expected = string(out)
		} else {
			h, err := playKinds(dir)
			if err == nil {
				err = h.db.Close()
			}
			if err != nil {
				return err
			}
			expected = h.expected()
		}
		if err := os.WriteFile(filepath.Join(folder, "expected"), []byte(expected),
			0o644); err != nil {
			return err
		}
	}
	return nil
}

// played is a database and its model.
type played struct {
	db     *lsm.DB
	spaces []*lsm.Keyspace
	model  []map[string]string // by keyspace
}

func (p *played) open(dir string) (err error) {
	p.db, err = lsm.Open(dir, &lsm.Options{
		Format: lsm.FormatNative, WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10,
		WALPreallocate: -1, Clock: func() time.Time {
			return written.Add(time.Duration(later.Load()))
		},
	})
	if err != nil {
		return err
	}
	p.spaces = p.spaces[:0]
	for _, s := range spaces {
		k, err := p.db.Keyspace(s.name, s.options)
		if err != nil {
			return err
		}
		p.spaces = append(p.spaces, k)
	}
	return nil
}

// playKinds fills several tables and leaves the last part in the log.
func playKinds(dir string) (*played, error) {
	p := &played{}
	for range spaces {
		p.model = append(p.model, map[string]string{})
	}
	if err := p.open(dir); err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 6000 {
		if err := p.step(r, dir, i); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	later.Store(int64(2 * time.Hour))
	defer later.Store(0)
	return p, p.compare()
}

// compare reads everything, and fails where the model has something else.
func (p *played) compare() error {
	for i, k := range p.spaces {
		var err error
		n := 0
		for key, value := range k.All(nil, nil, &err) {
			if want, there := p.model[i][string(key)]; !there || want != string(value) {
				return fmt.Errorf("keyspace %s: %q has %q, the model %q", k.Name(), key, value,
					want)
			}
			n++
		}
		if err != nil || n != len(p.model[i]) {
			return fmt.Errorf("keyspace %s: %d pairs, the model has %d: %v", k.Name(), n,
				len(p.model[i]), err)
		}
	}
	return nil
}

func (p *played) step(r *rand.Rand, dir string, i int) error {
	const again = 4 // in spaces
	switch i {
	case 1500:
		p.model[again] = map[string]string{}
		if err := p.db.DropKeyspace("again"); err != nil {
			return err
		}
		k, err := p.db.Keyspace("again", nil)
		p.spaces[again] = k
		return err
	case 2500, 5200:
		return p.spaces[r.IntN(len(spaces))].Flush()
	case 3000:
		for _, k := range p.spaces {
			if err := k.CompactRange(nil, nil); err != nil {
				return err
			}
		}
		return nil
	case 4500:
		if err := p.db.Close(); err != nil {
			return err
		}
		return p.open(dir)
	}
	n := r.IntN(len(spaces))
	return change(r, p.spaces[n], p.model[n])
}

// change does one operation on a keyspace and on its model.
func change(r *rand.Rand, k *lsm.Keyspace, model map[string]string) error {
	key := fmt.Sprintf("key%04d", r.IntN(900))
	value := strings.Repeat("value of "+key+" ", r.IntN(5)+1)
	what := r.IntN(20)
	switch merges := k.Name() == "counters" || k.Name() == "lines"; {
	case what < 2:
		delete(model, key)
		return k.Delete([]byte(key), lsm.NoSync)
	case what == 2 && r.IntN(8) == 0:
		return deleteRange(r, k, model)
	case what == 3 && !merges:
		delete(model, key) // it is over now
		return k.PutTTL([]byte(key), []byte(value), time.Hour, lsm.NoSync)
	case what == 4 && !merges:
		model[key] = value
		return k.PutTTL([]byte(key), []byte(value), 200*365*24*time.Hour, lsm.NoSync)
	case merges:
		return merge(r, k, model, key)
	}
	model[key] = value
	return k.Put([]byte(key), []byte(value), lsm.NoSync)
}

// deleteRange deletes the keys between two of them.
func deleteRange(r *rand.Rand, k *lsm.Keyspace, model map[string]string) error {
	a, b := fmt.Appendf(nil, "key%04d", r.IntN(900)), fmt.Appendf(nil, "key%04d", r.IntN(900))
	compare := k.Comparer().Compare
	if compare(a, b) > 0 {
		a, b = b, a
	}
	for key := range model {
		if compare([]byte(key), a) >= 0 && compare([]byte(key), b) < 0 {
			delete(model, key)
		}
	}
	return k.DeleteRange(a, b, lsm.NoSync)
}

func merge(r *rand.Rand, k *lsm.Keyspace, model map[string]string, key string) error {
	if k.Name() == "lines" {
		operand := fmt.Sprintf("line %d", r.IntN(1000))
		if before, there := model[key]; there {
			model[key] = before + "," + operand
		} else {
			model[key] = operand
		}
		return k.Merge([]byte(key), []byte(operand), lsm.NoSync)
	}
	sum := make([]byte, 8)
	copy(sum, model[key])
	operand := binary.LittleEndian.AppendUint64(nil, r.Uint64())
	binary.LittleEndian.PutUint64(sum,
		binary.LittleEndian.Uint64(sum)+binary.LittleEndian.Uint64(operand))
	model[key] = string(sum)
	return k.Merge([]byte(key), operand, lsm.NoSync)
}

// expected has a line for each keyspace: its name, the number of pairs and their digest.
func (p *played) expected() string {
	var b strings.Builder
	for i, k := range p.spaces {
		keys := make([]string, 0, len(p.model[i]))
		for key := range p.model[i] {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, func(a, b string) int {
			return k.Comparer().Compare([]byte(a), []byte(b))
		})
		h := sha256.New()
		var buf []byte
		for _, key := range keys {
			buf = appendPair(buf[:0], []byte(key), []byte(p.model[i][key]))
			h.Write(buf)
		}
		fmt.Fprintf(&b, "%s %d %x\n", k.Name(), len(keys), h.Sum(nil))
	}
	return b.String()
}
