package arch

import (
	"fmt"
	"go/ast"
	"regexp"
	"sort"
	"strings"
)

// clocks are calls by which a test depends on time, or polls.
// In a synctest bubble the clock is the bubble's own, and stands while anything runs.
var clocks = map[string]bool{
	"time.Sleep": true, "time.After": true, "time.AfterFunc": true, "time.Now": true,
	"time.Since": true, "time.Until": true, "time.NewTimer": true, "time.NewTicker": true,
	"time.Tick": true, "context.WithTimeout": true, "context.WithDeadline": true,
	"hang.Until": true,
}

const (
	inBubble = "it is called in a bubble"
	atRandom = "a process is killed, or the power cut, at a random moment"
	noEvent  = "what is freed in the background tells nobody"
	other    = "another process, the kernel or a full disk tells nobody"
	hangs    = "the limit of package hang ends a child"
	isTime   = "the test measures, reports or spends time, which decides nothing"
	fails    = "a call that cannot succeed ends by it, on a machine of any speed"
	byHand   = "later moments are counted from it, by hand"
)

// allowedClocks may use clocks: "path func" -> why. The list only shrinks.
var allowedClocks = map[string]string{
	"internal/store/work/deletes_test.go sleep":                                   inBubble,
	"lsm/script_test.go settle":                                                   inBubble,
	"lsm/range_delete_test.go waitForDrop":                                        inBubble,
	"lsm/conformance_test.go native":                                              inBubble,
	"internal/testkit/crash/trace_test.go run":                                    inBubble,
	"internal/testkit/leak/leak.go Idle":                                          inBubble,
	"internal/testkit/leak/leak.go Now":                                           noEvent,
	"internal/testkit/leak/leak.go Openings":                                      noEvent,
	"internal/testkit/lifetimes/lifetimes.go end":                                 noEvent,
	"internal/testkit/memory/memory.go given":                                     noEvent,
	"internal/testkit/metamorphic/several.go Several":                             noEvent,
	"internal/testkit/resources/ends_test.go within":                              noEvent,
	"internal/testkit/crash/full.go recovers":                                     other,
	"internal/testkit/kill/changes.go follow":                                     other,
	"internal/testkit/surroundings/lock_linux_test.go TestForkedChildKeepsNoLock": other,
	"internal/testkit/kill/kill.go killOne":                                       atRandom,
	"internal/testkit/kill/program.go killProgram":                                atRandom,
	"internal/testkit/kill/powercut_linux.go cuts":                                atRandom,
	"internal/testkit/kill/powercut_linux.go copyTo":                              other,
	"internal/testkit/kill/kill.go limitOne":                                      hangs,
	"internal/testkit/surroundings/hostile_run_linux_test.go runInTime":           hangs,
	"cabi/build_test.go execute":                                                  hangs,
	"internal/testkit/metamorphic/several.go wait":                                hangs,
	"internal/testkit/metamorphic/shrink.go shrink":                               isTime,
	"internal/testkit/mutants/mutants_test.go TestMutants":                        isTime,
	"internal/testkit/mutants/mutants_test.go run":                                isTime,
	"internal/os/vfs/blocked_linux_test.go TestBlockedAppendsLetTheWorldStop":     isTime,
	"internal/kvbench/follower/follower_test.go TestProcess":                      isTime,
	"internal/kvbench/follower/follower_test.go TestWatch":                        isTime,
	"internal/kvbench/interrupt_unix_test.go interruptedChild":                    hangs,
	"lsm/backup/backup_test.go testBackups":                                       isTime,
}

// nestedClocks are allowedClocks of modules below the root's.
var nestedClocks = map[string]map[string]string{
	"replica": {
		"replica/read_test.go shortly":                     fails,
		"replica/read_test.go TestLostLeaderKnowsNothing":  fails,
		"replica/history_test.go on":                       fails,
		"replica/kit_test.go until":                        noEvent,
		"replica/kit_test.go Write":                        "a slow network",
		"replica/stream_test.go certificate":               "it is valid by the real clock",
		"replica/internal/server/server_test.go TestLease": byHand,
	},
	"tikv": {"tikv/gc_test.go TestCollect": byHand},
}

func ruleClocks(t *tree) []string { return goByClock(t, allowedClocks) }

// scriptWait matches where a test in Python, JavaScript or Java waits until time has passed.
var scriptWait = regexp.MustCompile(
	`\btime\.sleep\(|\basyncio\.sleep\(0?\.?[1-9]|\basyncio\.sleep\(0\.|` +
		`\bEvent\(\)\.wait\([0-9.]|\bsetTimeout\(|\bThread\.sleep\(`)

// allowedWaits are files of the bindings' tests -> how many such lines, and why.
var allowedWaits = map[string]struct {
	lines int
	why   string
}{
	"bindings/python/tests/conftest.py": {1, "a value expires by the engine's clock, unreported"},
	"bindings/node/test/ttl.js":         {1, "a value expires by the engine's clock, unreported"},
	"bindings/node/test/conformance.js": {1, "a value expires by the engine's clock, unreported"},
	"bindings/node/test/follower.js":    {1, "the engine's clock measures a follower's interval"},
	"bindings/node/test/programs/gc.js": {1, noEvent},
	"bindings/node/test/api.js":         {2, "timers that fire beside reads are what is tested"},
	"bindings/node/test/lifetimes.js":   {1, "a limit for a call that hangs"},
}

// ruleWaits holds the bindings' tests to events: none sleeps, and none is shown by a timer that
// something has happened.
func ruleWaits(t *tree) []string {
	var bad []string
	for _, f := range t.files {
		if !strings.HasPrefix(f.path, "bindings/python/tests/") &&
			!strings.HasPrefix(f.path, "bindings/node/test/") &&
			!strings.HasPrefix(f.path, "bindings/java/src/test/") {
			continue
		}
		allowed, n := allowedWaits[f.path].lines, 0
		for i, line := range strings.Split(f.src, "\n") {
			if !scriptWait.MatchString(line) {
				continue
			}
			if n++; n > allowed {
				bad = append(bad, fmt.Sprintf("%s:%d: sleeps; wait for an event", f.path, i+1))
			}
		}
		if n < allowed {
			bad = append(bad, f.path+": sleeps less often; shorten the list")
		}
	}
	return bad
}

func goByClock(t *tree, allowed map[string]string) []string {
	var bad []string
	used := map[string]bool{}
	t.goFiles(func(f *file) {
		kit := strings.HasPrefix(f.path, "internal/testkit/") && !f.command() &&
			f.dir() != "internal/testkit/hang"
		if !f.isTest() && !kit || strings.HasSuffix(f.path, "bench_test.go") {
			return
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || strings.HasPrefix(fn.Name.Name, "Benchmark") {
				continue
			}
			key := f.path + " " + fn.Name.Name
			for _, n := range clockUses(fn.Body) {
				if _, ok := allowed[key]; ok {
					used[key] = true
					continue
				}
				what := "polls"
				if call, ok := n.(*ast.CallExpr); ok {
					what = "calls " + selector(call.Fun)
				}
				bad = append(bad,
					fmt.Sprintf("%s: func %s %s; tests inject a clock, wait for an event, or run "+
						"in a synctest bubble", t.at(n), fn.Name.Name, what))
			}
		}
	})
	for key := range allowed {
		if !used[key] {
			bad = append(bad, key+": goes by no clock any more; take it off the list")
		}
	}
	sort.Strings(bad)
	return bad
}

// clockUses are the calls of clocks outside of bubbles, and the loops that do nothing but yield.
func clockUses(body *ast.BlockStmt) (uses []ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := selector(n.Fun)
			if clocks[name] {
				uses = append(uses, n)
			}
			// RunDir makes a bubble for each script.
			return name != "synctest.Test" && name != "script.RunDir"
		case *ast.ForStmt:
			if n.Cond != nil && onlyYields(n.Body) && (len(n.Body.List) > 0 || loads(n.Cond)) {
				uses = append(uses, n)
			}
		}
		return true
	})
	return uses
}

func onlyYields(b *ast.BlockStmt) bool {
	for _, s := range b.List {
		x, ok := s.(*ast.ExprStmt)
		if !ok {
			return false
		}
		call, ok := x.X.(*ast.CallExpr)
		if !ok || selector(call.Fun) != "runtime.Gosched" {
			return false
		}
	}
	return true
}

// loads reports whether a condition reads an atomic variable.
func loads(cond ast.Expr) (found bool) {
	ast.Inspect(cond, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok {
			sel, isSel := call.Fun.(*ast.SelectorExpr)
			found = found || isSel && sel.Sel.Name == "Load"
		}
		return true
	})
	return found
}

// selector is "package.Name", or "".
func selector(x ast.Expr) string {
	sel, ok := x.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return id.Name + "." + sel.Sel.Name
}

var clockOffenders = map[string]map[string]string{
	"func f calls time.Sleep": {"lsm/a_test.go": "package lsm\n\nfunc f() { " +
		"time.Sleep(1) }\n"},
	"func g calls time.Since": {"internal/testkit/kit/a.go": "package kit\n\nfunc g() { " +
		"h(time.Since(x)) }\n"},
	"func k calls context.WithTimeout": {"lsm/a_test.go": "package lsm\n\nfunc k() { " +
		"c, e := context.WithTimeout(x, 1) }\n"},
	"func i polls": {"lsm/a_test.go": "package lsm\n\nfunc i() {\n\tfor !done() " +
		"{\n\t\truntime.Gosched()\n\t}\n}\n"},
	"func j polls": {"lsm/a_test.go": "package lsm\n\nfunc j() " +
		"{\n\tfor x.Load() == 0 {\n\t}\n}\n"},
	"func l calls time.After": {"lsm/a_test.go": "package lsm\n\nfunc l() " +
		"{\n\tsynctest.Test(t, f)\n\tselect {\n\tcase <-time.After(1):\n\tcase <-c:\n\t}\n}\n"},
	"lsm/b_test.go n: goes by no clock any more": {"lsm/b_test.go": "package lsm\n\nfunc n() {}\n"},
}

var clockInnocent = map[string]string{
	"lsm/a.go":      "package lsm\n\nfunc f() { time.Sleep(1) }\n",
	"lsm/b_test.go": "package lsm\n\nfunc n() { time.Sleep(1) }\n",
	"lsm/c_test.go": "package lsm\n\nfunc f() {\n\tsynctest.Test(t, func(t " +
		"*testing.T) { time.Sleep(1) })\n\tfor range 9 {\n\t\truntime.Gosched()\n\t}\n\tclock = " +
		"time.Now\n\tfor it.Next() {\n\t}\n}\n",
	"lsm/d_test.go":                "package lsm\n\nfunc BenchmarkF() { time.Now() }\n",
	"internal/testkit/kit/main.go": "package main\n\nfunc main() { time.Sleep(1) }\n",
}
