package lsm

import (
	"path"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestNeededLogThatIsNoFile: a directory in the place of a log is damage to every reader if the
// MANIFEST needs the log of this number or, in the native format, if the next log names it. Where
// nothing shows that the database wrote a log of the number, the name is a stranger's.
func TestNeededLogThatIsNoFile(t *testing.T) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		for flushed := range 4 {
			killed := killedWithLogs(t, format, []int{2, 3, 1}, flushed)
			whole := readersAgree(t, "before", killed)
			logs, err := fstest.Find(killed, "db", base.FileLog)
			must(t, err)
			logs = logs[:3] // what follows was not begun
			first := max(0, flushed-1)
			for i, name := range logs {
				mem := killed.CrashClone(vfs.KeepAll())
				must(t, mem.Remove(name))
				must(t, mem.MkdirAll(name))
				got := readersAgree(t, name, mem)
				known := i == first || format == FormatNative && first < i && i < len(logs)-1
				switch {
				case known && got != "refused":
					t.Errorf("%v, %d flushed: without %s there is %q", format, flushed, name, got)
				case i < first && got != whole:
					t.Errorf("%v, %d flushed: without %s, which is obsolete, there is %q, not %q",
						format, flushed, name, got, whole)
				}
				if _, err := Repair("db", &Options{FS: mem}); err != nil {
					t.Errorf("%v, %d flushed: without %s: %v", format, flushed, name, err)
				}
				if got := readersAgree(t, name, mem); got == "refused" {
					t.Errorf("%v, %d flushed: without %s: refused after a repair", format, flushed,
						name)
				}
			}
			for num := range uint64(40) {
				name := path.Join("db", base.Format(format-1).FileName(base.FileLog, num))
				if _, err := killed.Stat(name); err != nil {
					must(t, killed.MkdirAll(name))
				}
			}
			if got := readersAgree(t, "planted", killed); got != whole {
				t.Errorf("%v, %d flushed: beside directories there is %q, not %q", format, flushed,
					got, whole)
			}
		}
	}
}
