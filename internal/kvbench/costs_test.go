package kvbench

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/kvbench/experiment"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

// separating is an engine that keeps large values apart.
type separating struct{ engine }

func (s separating) Options() []store.Option {
	return append(s.engine.Options(), store.Option{Name: experiment.LargeValue, Default: "0"})
}

func (s separating) Check(o store.Setting) error {
	if o.Name == experiment.LargeValue {
		return nil
	}
	return s.engine.Check(o)
}

// TestLargeValues: one engine with all variants has a table of costs and one of times; --variant
// chooses among them.
func TestLargeValues(t *testing.T) {
	code, out, stderr := invoke(t, separating{newEngine()}, "largevalues=300", "--quiet=0")
	if code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{
		`\n *variant +benchmark +us/op +MB/s +.*written MB +written/byte +.*peak RSS MB `,
		`\n *1 KiB  fillseq  .*\n`, `\n *4 KiB  overwrite, 3 of 3  `, `\n *1 MiB  deletehalf  `,
		`\n *64 KiB, large_value off  scan1000warm  `, `\nwritten: the larger of two counts`,
		`\nMicroseconds per operation\.\n`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	code, out, stderr = invoke(t, separating{newEngine()}, "largevalues=300", "--quiet=0",
		"--variant=4 KiB")
	if n := strings.Count(out, "\n-- "); code != 0 || n != 2 || strings.Contains(out, "-- 64 KiB") {
		t.Errorf("exit %d, %d variants: %s%s", code, n, out, stderr)
	}
	code, _, stderr = invoke(t, newEngine(), "largevalues=300", "--variant=5 KiB")
	if code != exitUsage || !strings.Contains(stderr, `--variant=5 KiB: no variant begins `+
		`so; there are "1 KiB", "1 KiB, large_value off", `) {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// TestLargeValuesBesidePeers: beside a peer without the option, the variants that need it are left
// out for both; each row of the peer has its ratio.
func TestLargeValuesBesidePeers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out, errs bytes.Buffer
	code := Main([]string{"--engine=all", "largevalues=100", "--quiet=0", "--variant=1 ",
		"--progress=never"}, &out, &errs, newEngine(), peer{storetest.NewModel()})
	if code != 0 || strings.Contains(out.String(), "large_value off") {
		t.Fatalf("exit %d: %s%s", code, errs.String(), out.String())
	}
	for _, want := range []string{
		`\n *1 MiB +fillseq +Model +- .*\n *1 MiB +fillseq +Peer +[0-9.]+ `,
		`\ntimes: how many times longer the engine takes than Model`,
		`\nPeer 1.0: a write without sync is lost`,
		`\nbenchmark +Peer, 1 KiB +Peer, 1 MiB\n`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
