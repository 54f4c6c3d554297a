// Package engines opens the table of package rows in several engines. What they have in common: a
// transaction that returned is on stable storage, where the engine has one; transactions are
// serializable; caches hold the table.
package engines

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/loamdb/loam/bench/oltp/rows"
	"github.com/loamdb/loam/internal/workload/store"
)

// Engine opens tables.
type Engine struct {
	Name, Title string
	Module      string           // of its version; "": Loam's own
	Durability  store.Durability // of a write without sync
	Notes       []string
	Open        func(dir string) (rows.Table, error)
}

// Engines are all engines, Loam first. A build without cgo has no SQLite.
var Engines = append([]Engine{
	{"loam", "Loam", "", store.SurvivesKill, []string{"one database in the process"}, openLoam},
	{"replicas", "Loam, 3 replicas", "", store.SurvivesKill,
		[]string{"three nodes of package replica in the process, on the loopback interface and " +
			"one disk; workers are spread over the nodes; reads are linearizable"}, openReplicas},
	{"tikv-mock", "TiKV's mock", "github.com/tikv/client-go/v2", store.InProcess,
		[]string{"package tikv on the mock of client-go: no network, no replicas, nothing on a " +
			"disk, and one lock for all requests: no figure of TiKV"}, openMock},
	{"bbolt", "bbolt", "go.etcd.io/bbolt", store.SurvivesKill, nil, openBolt},
	{"badger", "Badger", "github.com/dgraph-io/badger/v4", store.SurvivesKill,
		[]string{"SyncWrites"}, openBadger},
}, sqlite...)

// cacheBytes is the cache of each engine that has one.
const cacheBytes = 256 << 20

// Find returns an engine by its name.
func Find(name string) (Engine, error) {
	var names []string
	for _, e := range Engines {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Engine{}, fmt.Errorf("no engine %q: there are %s", name, strings.Join(names, ", "))
}

// Version is that of the engine's module.
func (e Engine) Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || e.Module == "" {
		return ""
	}
	for _, d := range info.Deps {
		if d.Path == e.Module {
			return d.Version
		}
	}
	return "unknown"
}
