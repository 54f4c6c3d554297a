package badger

import (
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

func TestDriver(t *testing.T) { storetest.Run(t, Driver{}) }

// TestEncryption: the driver writes with a key, and reads with no other one.
func TestEncryption(t *testing.T) {
	dir := t.TempDir()
	key := func(digit string) []store.Setting {
		return []store.Setting{{Name: "encryption", Value: "key:" + strings.Repeat(digit, 64)}}
	}
	db, err := Driver{}.Open(dir, store.Config{Settings: key("a")})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := (Driver{}).Open(dir, store.Config{Settings: key("b")}); err == nil {
		t.Error("it opens with another key")
	}
	if err := (Driver{}).Check(store.Setting{Name: "encryption", Value: "key:ab"}); err == nil {
		t.Error("a short key is taken")
	}
}
