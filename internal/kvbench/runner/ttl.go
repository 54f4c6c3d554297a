package runner

import (
	"time"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// putExpiring is put of values that expire.
func (t *thread) putExpiring(spec *workload.Spec) {
	db, pick := t.db.(store.Expiring), t.picker(spec.Order)
	ttl := time.Duration(spec.TTL) * time.Second
	for range t.ops {
		n := pick.next(&t.rand)
		key, value := t.keys.Present(n), t.value(n)
		if err := db.PutTTL(key, value, ttl, t.durable()); err != nil {
			t.fail(err)
			return
		}
		t.bytes += int64(len(key) + len(value))
		if !t.tick() {
			return
		}
	}
}
