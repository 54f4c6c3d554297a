package world

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// objects are the types of lsm and lsm/backup that have methods of a database's life.
var objects = []reflect.Type{
	reflect.TypeFor[*lsm.DB](), reflect.TypeFor[*lsm.Keyspace](), reflect.TypeFor[*lsm.Snapshot](),
	reflect.TypeFor[*lsm.Iterator](), reflect.TypeFor[*lsm.Batch](), reflect.TypeFor[lsm.BatchIn](),
	reflect.TypeFor[*lsm.Txn](), reflect.TypeFor[*lsm.Changes](), reflect.TypeFor[lsm.Change](),
	reflect.TypeFor[*lsm.TableWriter](), reflect.TypeFor[*lsm.BulkLoader](),
	reflect.TypeFor[*lsm.Follower](), reflect.TypeFor[*lsm.MultiResult](),
	reflect.TypeFor[*lsm.PinnedValue](),
	reflect.TypeFor[lsm.SavePoint](), reflect.TypeFor[*backup.Folder](),
}

// rows says which step calls a method. DB, Keyspace and Follower share most of them: a step that
// calls one of a store calls it of both.
var rows = map[string]string{
	"write": "Put PutTTL Delete DeleteRange Merge",
	"batch": "NewBatch Write WriteBytes Batch.Append Batch.Bytes " +
		"Batch.Clear Batch.Count Batch.Size Batch.In BatchIn.Put BatchIn.PutTTL BatchIn.Delete " +
		"BatchIn.DeleteRange BatchIn.Merge Batch.Put Batch.PutTTL Batch.Delete Batch.DeleteRange " +
		"Batch.Merge lsm.NewBatch lsm.BatchFromBytes",
	"compare and swap": "CompareAndSwap PutIfAbsent",
	"read": "Get GetNoFill TryGet GetPinned Has TTL MultiGet MultiResult.Len " +
		"MultiResult.Value PinnedValue.Bytes PinnedValue.Release",
	"scan":            "All Backward Prefix",
	"open a snapshot": "Snapshot Snapshot.Close",
	"read a snapshot": "Snapshot.In Snapshot.Get Snapshot.GetNoFill " +
		"Snapshot.TryGet Snapshot.GetPinned " +
		"Snapshot.Has Snapshot.MultiGet Snapshot.TTL Snapshot.All " +
		"Snapshot.Backward Snapshot.Prefix",
	"open an iterator": "Iter Snapshot.Iter Iterator.Close",
	"move an iterator": "Iterator.First Iterator.Last Iterator.Next " +
		"Iterator.Prev Iterator.SeekGE Iterator.SeekLT Iterator.SetBounds Iterator.Valid " +
		"Iterator.Key Iterator.Value Iterator.Err Iterator.NextBlock Iterator.PrevBlock",
	"feed": "Changes Changes.TryNext Changes.Position " +
		"Changes.Close Change.Len Change.Next Change.Operations",
	"follow": "Follower.CatchUp Follower.Lag lsm.OpenFollower",
	"begin":  "Begin",
	"write in a transaction": "Txn.In Txn.Put Txn.Delete Txn.Merge Txn.DeleteRange " +
		"Txn.PutTTL",
	"read in a transaction": "Txn.Get Txn.GetForUpdate Txn.GetNoFill Txn.TryGet " +
		"Txn.GetPinned Txn.Has Txn.MultiGet Txn.All Txn.Backward Txn.Prefix Txn.Iter",
	"savepoint": "Txn.SavePoint Txn.RollbackTo SavePoint.Number " +
		"lsm.SavePointOf",
	"end a transaction": "Txn.Commit Txn.Rollback Txn.Close",
	"update":            "Update UpdateWith View",
	"create keyspace": "DB.Keyspace DB.Keyspaces Keyspace.Name Keyspace.ID " +
		"Keyspace.Comparer Keyspace.Close",
	"drop keyspace": "DB.DropKeyspace",
	"ingest": "Ingest TableWriter.Put TableWriter.PutTTL " +
		"TableWriter.Delete TableWriter.DeleteRange TableWriter.EstimatedSize TableWriter.Finish " +
		"TableWriter.Close lsm.NewTableWriter",
	"bulk load": "BulkLoad BulkLoader BulkLoader.Put BulkLoader.Finish " +
		"BulkLoader.Close",
	"checkpoint": "DB.Checkpoint lsm.Destroy",
	"back up": "backup.Open Folder.Create Folder.Verify Folder.Delete " +
		"Folder.List Folder.Keep Folder.Close",
	"restore": "Folder.Restore",
	"dump": "dump.Write dump.Verify dump.Load dump.CheckPath " +
		"dump.Decrypt",
	"close and open":                     "lsm.Open DB.Close DB.RecoveryReport",
	"repair":                             "lsm.Repair",
	"export":                             "lsm.Export",
	"upgrade":                            "lsm.Upgrade",
	"flush":                              "Flush DB.Rekey DB.KeysInUse",
	"compact":                            "CompactRange CompactRangeContext",
	"pause or resume compaction":         "DB.PauseCompaction DB.ResumeCompaction DB.Resume",
	"verify":                             "DB.Verify",
	"set an option":                      "SetOption Option",
	"look":                               "ApproximateSizes Property Metrics",
	"repair a copy without its MANIFEST": "",
}

// elsewhere are exported functions and methods that need no row, with the reason.
var elsewhere = map[string]string{
	"DB.Inside":                 "for packages of this module; does nothing",
	"Snapshot.Inside":           "for packages of this module; does nothing",
	"Follower.Inside":           "for packages of this module; does nothing",
	"Changes.Next":              "TryNext that waits; lsm's tests of feeds",
	"Changes.KeyspaceName":      "names of a feed's keyspaces; lsm's tests of feeds",
	"PinnedValue.Copied":        "depends on the cache; lsm's tests of GetPinned",
	"Batch.Each":                "reads a batch, not a database",
	"lsm.NewCache":              "testkit/resources",
	"lsm.OSFS":                  "the operating system's files: testkit/surroundings",
	"lsm.NewResources":          "testkit/resources",
	"lsm.OptionDocs":            "a table of texts",
	"lsm.NewKeyProvider":        "lsm's tests of encryption",
	"lsm.NewPassphraseProvider": "lsm's tests of encryption",
	"lsm.NewKeyFileProvider":    "lsm's tests of encryption",
	"lsm.MergeOperatorNamed":    "draws no row: newWorld calls it",
	"lsm.PrefixFilter":          "compaction filters: testkit.Kinds",
	"lsm.FilterChange":          "compaction filters: testkit.Kinds",
	"lsm.CompressionByLevel":    "a value of an option",
}

// TestEveryMethodHasRow: an exported function or method that no step calls fails.
func TestEveryMethodHasRow(t *testing.T) {
	have := map[string]bool{}
	for name, calls := range rows {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.name == name }) {
			t.Errorf("there is no step %q", name)
		}
		for _, c := range strings.Fields(calls) {
			have[c] = true
		}
	}
	for _, s := range steps {
		if _, ok := rows[s.name]; !ok &&
			!slices.Contains([]string{"time", "kill and open", "power cut",
				"open a killed copy read-only"}, s.name) {
			t.Errorf("step %q has no row", s.name)
		}
	}
	used := map[string]bool{}
	check := func(owner, name string) {
		full := owner + "." + name
		used[full] = true
		store := owner == "DB" || owner == "Keyspace" || owner == "Follower"
		if _, ok := elsewhere[full]; ok || have[full] || store && (have[name] || have["DB."+name]) {
			return
		}
		t.Errorf("no step calls %s: add it to one, or say in elsewhere where it is tested", full)
	}
	for _, o := range objects {
		for i := range o.NumMethod() {
			owner := o.Name()
			if o.Kind() == reflect.Pointer {
				owner = o.Elem().Name()
			}
			check(owner, o.Method(i).Name)
		}
	}
	for _, dir := range []string{"lsm", "lsm/backup", "lsm/dump"} {
		for _, name := range exportedFunctions(t, "../../../"+dir) {
			check(dir[strings.LastIndex(dir, "/")+1:], name)
		}
	}
	for full := range elsewhere {
		if !used[full] {
			t.Errorf("elsewhere has %s, which is not there", full)
		}
	}
}

// exportedFunctions are the exported functions of the package in a directory.
func exportedFunctions(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	var names []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() {
				names = append(names, f.Name.Name)
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("no exported function in %s", dir)
	}
	return names
}
