package backup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// backUp makes a backup, checks it, and keeps a week of them.
func backUp(ctx context.Context, db *lsm.DB, dir string) error {
	folder, err := backup.Open(dir, nil)
	if err != nil {
		return err
	}
	defer folder.Close()
	info, err := folder.Create(ctx, db, nil)
	if err != nil {
		return err
	}
	return errors.Join(folder.Verify(ctx, info.ID, nil), folder.Keep(7))
}

// restoreNewest restores the newest backup into the directory to.
func restoreNewest(ctx context.Context, dir, to string) error {
	folder, err := backup.Open(dir, &backup.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer folder.Close()
	list, err := folder.List()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("no backup in %s", dir)
	}
	return folder.Restore(ctx, list[len(list)-1].ID, to, nil)
}

func Example() {
	top, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(top)
	db, err := lsm.Open(filepath.Join(top, "db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	ctx, dir, to := context.Background(), filepath.Join(top, "backups"), filepath.Join(top,
		"restored")
	for _, colour := range []string{"green", "red", "blue"} {
		if err := db.Put([]byte("colour"), []byte(colour), lsm.NoSync); err != nil {
			log.Fatal(err)
		}
		if err := backUp(ctx, db, dir); err != nil {
			log.Fatal(err)
		}
	}
	if err := restoreNewest(ctx, dir, to); err != nil {
		log.Fatal(err)
	}
	restored, err := lsm.Open(to, &lsm.Options{ErrorIfMissing: true})
	if err != nil {
		log.Fatal(err)
	}
	defer restored.Close()
	v, err := restored.Get([]byte("colour"), nil)
	fmt.Println(string(v), err)
	// Output: blue <nil>
}

// TestPage: the code of docs/backup.md is that of the example.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/backup.md")
	must(t, err)
	source, err := os.ReadFile("example_test.go")
	must(t, err)
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 1 {
		t.Error("no code")
	}
	for _, b := range blocks {
		if code, _, _ := strings.Cut(b, "```"); !strings.Contains(string(source), code) {
			t.Errorf("example_test.go does not have\n%s", code)
		}
	}
}
