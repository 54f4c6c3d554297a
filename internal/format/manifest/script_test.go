package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/script"
)

// setScript has a directory with the Set that is open there.
type setScript struct {
	t        *testing.T
	m        *vfs.Mem
	s        *Set
	tables   map[uint64]*FileMeta // that edits made
	pins     map[string]*Version
	obsolete []uint64 // since the last command
}

// TestSetScripts runs testdata/set. The commands:
//
//	directory    makes an empty directory, forgetting the one before, with files
//	             whose names are arguments: CURRENT=5 names MANIFEST-000005, any other
//	             file has one byte. Input lines are files, too: NAME "contents".
//	manifest     makes the MANIFEST num=2; each line of the input is an edit.
//	             flip=15 changes its byte so far from the end, cut=3 takes bytes off.
//	create, load make a Set; load read-only. A Set before is forgotten.
//	apply        each line is an edit: comparer=, log=, prev-log=, next=, seq=, "usual"
//	             for these, pointer=L0:m#3, +L2:7:a-m for a new table, +L2:7 for one that
//	             is there, -L2:7. seq=5 sets the last sequence number first.
//	refuse       each line is an edit for a copy of the directory
//	load-each    each line is the contents of CURRENT in a copy of the directory
//	cut-each     loads copies of the directory with the MANIFEST shorter by n=(0 1 2)
//	pin, unpin   hold the current version under a name, and let it go
//	state, live, files, read NAME, new-file, take-obsolete, start-manifest, close
//
// An error begins with the sentinel that errors.Is finds. A command that makes tables
// obsolete prints their numbers.
func TestSetScripts(t *testing.T) {
	script.RunDir(t, "testdata/set", func(t *testing.T) func(*script.Command) string {
		x := &setScript{t: t, m: newDir(t), tables: map[uint64]*FileMeta{},
			pins: map[string]*Version{}}
		return func(c *script.Command) string {
			x.obsolete = nil
			out := x.run(c)
			if x.obsolete != nil {
				out = strings.TrimPrefix(out+fmt.Sprintf("\nobsolete %v", x.obsolete), "\n")
			}
			return out
		}
	})
}

func (x *setScript) options() Options {
	o := options(x.m)
	o.Obsolete = func(f *FileMeta) { x.obsolete = append(x.obsolete, f.Num) }
	return o
}

func (x *setScript) run(c *script.Command) string {
	var err error
	switch c.Name {
	case "directory":
		x.directory(c)
	case "manifest":
		x.manifest(c)
	case "create":
		var s *Set
		if s, err = Create(x.options()); err == nil {
			x.s = s
		}
	case "load":
		before := listing(x.t, x.m)
		x.s, err = Load(x.options(), c.Has("read-only"))
		if after := listing(x.t, x.m); !slices.Equal(before, after) {
			x.t.Errorf("line %d: Load makes %v of the files %v", c.Line, after, before)
		}
	case "apply":
		if seq := c.Int("seq", 0); seq > 0 {
			x.s.SetLastSeq(base.SeqNum(seq))
		}
		for _, line := range c.Lines() {
			err = errors.Join(err, x.apply(x.s, x.edit(c, line)))
		}
	case "refuse":
		return x.refuse(c)
	case "load-each":
		return x.loadEach(c)
	case "cut-each":
		return x.cutEach(c)
	case "pin":
		x.pins[x.word(c)] = x.s.Current(0)
	case "unpin":
		x.pins[x.word(c)].Unref()
	case "start-manifest":
		err = x.s.StartManifest()
	case "close":
		err = x.s.Close()
	default:
		return x.show(c)
	}
	if err != nil {
		return described(err)
	}
	return ""
}

// show runs the commands that only print.
func (x *setScript) show(c *script.Command) string {
	switch c.Name {
	case "state":
		return describe(x.s)
	case "live":
		live := map[uint64]struct{}{}
		x.s.LiveFiles(live)
		return fmt.Sprint(slices.Sorted(maps.Keys(live)))
	case "files":
		return strings.Join(listing(x.t, x.m), " ")
	case "read":
		return strconv.Quote(read(x.t, x.m, x.word(c)))
	case "new-file":
		return fmt.Sprint(x.s.NewFileNum())
	case "take-obsolete":
		return strings.Join(x.s.TakeObsolete(), " ")
	}
	return c.Unknown()
}

func (x *setScript) word(c *script.Command) string {
	if len(c.Args()) == 0 {
		c.Fail("what?")
	}
	return c.Args()[0].Key
}

// described is an error behind the names of the sentinels that it is.
func described(err error) string {
	out := ""
	for _, s := range []struct {
		name string
		err  error
	}{
		{"ErrCorruption", base.ErrCorruption}, {"ErrNotADatabase", base.ErrNotADatabase},
		{"ErrDoesNotExist", base.ErrDoesNotExist}, {"ErrExists", base.ErrExists},
		{"ErrComparerMismatch", base.ErrComparerMismatch},
		{"ErrInvalidArgument", base.ErrInvalidArgument}, {"ErrClosed", base.ErrClosed},
		{"ErrReadOnly", base.ErrReadOnly},
	} {
		if errors.Is(err, s.err) {
			out += s.name + ": "
		}
	}
	return out + err.Error()
}

// describe prints what a Set holds, a line a table.
func describe(s *Set) string {
	v := s.Current(0)
	defer v.Unref()
	var b strings.Builder
	fmt.Fprintf(&b, "log %d, prev-log %d, seq %d\n", s.LogNum(), s.PrevLogNum(), s.LastSeq())
	for l := range v.Levels {
		if p := s.CompactPointer(l); len(p.User) > 0 {
			fmt.Fprintf(&b, "L%d pointer %s#%d\n", l, p.User, p.Trailer.Seq())
		}
		for _, f := range v.Levels[l].Files {
			fmt.Fprintf(&b, "L%d %s, %d bytes\n", l, f, f.Size)
		}
	}
	return b.String()
}

func (x *setScript) directory(c *script.Command) {
	x.m, x.s = newDir(x.t), nil
	for _, a := range c.Args() {
		contents := "x"
		if a.Key == base.CurrentName {
			contents = base.LevelDB.FileName(base.FileManifest,
				uint64(c.Int(base.CurrentName, 0))) + "\n"
		}
		write(x.t, x.m, a.Key, contents)
	}
	for _, line := range c.Lines() {
		name, quoted, _ := strings.Cut(line, " ")
		contents, err := strconv.Unquote(quoted)
		if err != nil {
			c.Fail("%s: %v", line, err)
		}
		write(x.t, x.m, name, contents)
	}
}

// replace writes a file anew.
func replace(t testing.TB, m *vfs.Mem, name, contents string) {
	t.Helper()
	if err := m.Remove(dir + "/" + name); err != nil {
		t.Fatal(err)
	}
	write(t, m, name, contents)
}

func (x *setScript) manifest(c *script.Command) {
	var edits []*Edit
	for _, line := range c.Lines() {
		edits = append(edits, x.edit(c, line))
	}
	name := base.LevelDB.FileName(base.FileManifest, uint64(c.Int("num", 2)))
	writeManifest(x.t, x.m, name, edits...)
	if n := c.Int("flip", 0); n > 0 {
		b := []byte(read(x.t, x.m, name))
		b[len(b)-n] ^= 1
		replace(x.t, x.m, name, string(b))
	}
}

// edit reads an edit; see TestSetScripts.
func (x *setScript) edit(c *script.Command, line string) *Edit {
	e := &Edit{}
	for _, word := range strings.Fields(line) {
		if word[0] == '+' || word[0] == '-' {
			x.tableEdit(c, e, word)
			continue
		}
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseUint(value, 10, 64)
		switch key {
		case "usual":
			e.with()
			continue
		case "comparer":
			e.SetComparer(value)
			continue
		case "pointer":
			var p CompactPointer
			var user string
			var seq int
			_, err = fmt.Sscanf(strings.NewReplacer(":", " ", "#", " ").Replace(value), "L%d %s %d",
				&p.Level, &user, &seq)
			p.Key = ikey(user, base.SeqNum(seq))
			e.CompactPointers = append(e.CompactPointers, p)
		case "log":
			e.SetLogNum(n)
		case "prev-log":
			e.SetPrevLogNum(n)
		case "next":
			e.SetNextFile(n)
		case "seq":
			e.SetLastSeq(base.SeqNum(n))
		default:
			err = errors.New("no such field")
		}
		if err != nil {
			c.Fail("%s: %v", word, err)
		}
	}
	return e
}

// tableEdit reads "+L2:7:a-m", "+L2:7" or "-L2:7".
func (x *setScript) tableEdit(c *script.Command, e *Edit, word string) {
	var level int
	var num uint64
	var keys string
	n, _ := fmt.Sscanf(strings.ReplaceAll(word[1:], ":", " "), "L%d %d %s", &level, &num, &keys)
	switch smallest, largest, _ := strings.Cut(keys, "-"); {
	case n < 2:
		c.Fail("%s: not a table", word)
	case word[0] == '-':
		e.Delete(level, num)
	case n == 3:
		x.tables[num] = table(num, smallest, largest)
		fallthrough
	default:
		e.Add(level, x.tables[num])
	}
}

// apply applies an edit, which must stay as it is.
func (x *setScript) apply(s *Set, e *Edit) error {
	next, seq := e.HasNextFile, e.HasLastSeq
	v, err := s.Apply(e)
	if e.HasNextFile != next || e.HasLastSeq != seq {
		x.t.Error("Apply changed the caller's edit")
	}
	if err == nil {
		v.Unref()
	}
	return err
}

// open loads a copy of the directory for writing.
func (x *setScript) open(c *script.Command) *Set {
	s, err := Load(options(x.m.Clone()), false)
	if err == nil {
		err = s.StartManifest()
	}
	if err != nil {
		c.Fail("%v", err)
	}
	return s
}

// refuse applies each edit to a Set of its own, which must not change. Corruption
// is final: StartManifest reports it again.
func (x *setScript) refuse(c *script.Command) string {
	var b strings.Builder
	for _, line := range c.Lines() {
		e, s := x.edit(c, line), x.open(c)
		before := describe(s)
		err := x.apply(s, e)
		if err == nil || describe(s) != before {
			x.t.Errorf("line %d: %s: %v, and the state is\n%s", c.Line, line, err, describe(s))
			continue
		}
		again := s.StartManifest()
		if final := errors.Is(err, base.ErrCorruption); final != (s.Err() != nil) || final &&
			again != err || !final && again != nil {
			x.t.Errorf("line %d: %s: the Set's error is %v, then StartManifest returns %v", c.Line,
				line, s.Err(), again)
		}
		fmt.Fprintf(&b, "%s\n", described(err))
	}
	return b.String()
}

func (x *setScript) loadEach(c *script.Command) string {
	var b strings.Builder
	for _, line := range c.Lines() {
		contents, err := strconv.Unquote(line)
		if err != nil {
			c.Fail("%s: %v", line, err)
		}
		m := x.m.Clone()
		write(x.t, m, base.CurrentName, contents)
		out := "is read"
		if _, err := Load(options(m), false); err != nil {
			out = described(err)
		}
		b.WriteString(out + "\n")
	}
	return b.String()
}

func (x *setScript) cutEach(c *script.Command) string {
	name := strings.TrimSuffix(read(x.t, x.m, base.CurrentName), "\n")
	whole := read(x.t, x.m, name)
	var b strings.Builder
	for _, n := range c.List("n") {
		cut, err := strconv.Atoi(n)
		if err != nil {
			c.Fail("%v", err)
		}
		m := x.m.Clone()
		replace(x.t, m, name, whole[:len(whole)-cut])
		res, err := ReadManifest(m, dir, name, base.LevelDB)
		if err != nil {
			c.Fail("cut by %d: %v", cut, err)
		}
		fmt.Fprintf(&b, "%d: ", cut)
		s, err := Load(options(m), false)
		switch {
		case err != nil:
			fmt.Fprintf(&b, "%s\n", described(err))
		case res.Torn == nil:
			fmt.Fprintf(&b, "log %d\n", s.LogNum())
		default:
			fmt.Fprintf(&b, "log %d, torn: %v\n", s.LogNum(), res.Torn)
		}
	}
	return b.String()
}
