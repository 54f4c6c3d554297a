package feed

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Env is the database whose logs are read. All fields are required.
type Env struct {
	FS  vfs.FS
	Dir string
	// Format is that of the logs. A follower's directory may be upgraded.
	Format func() base.Format
	// Follower means that another process writes the logs; its syncs are unknown.
	Follower bool
	// Visible is the last sequence number that was committed.
	Visible func() base.SeqNum
	// Oldest is the oldest log that stays.
	Oldest func() uint64
	// Cuts changes when a log was cut back, after which a reader's buffer may have what the log has
	// not.
	Cuts func() uint64
	// Durable reports whether a record that ends there in a log survives a power cut.
	Durable func(log uint64, end int64) bool
	// Synced is how many bytes of a log are known to be durable.
	Synced func(log uint64) int64
	// Keyspace is the name of a keyspace, "" if it was dropped.
	Keyspace func(id base.KeyspaceID) string
	// Ended is why nothing more is committed, or becomes known of, for now, or nil.
	Ended func() error
	// Fail makes the database read-only with a panic of the file system as the cause, and returns
	// the error that later writes get.
	Fail func(err error) error
}

// Hub is the feeds of a database. It is safe for concurrent use.
type Hub struct {
	env     Env
	waiting atomic.Int32 // length of waiters

	mu      sync.Mutex // a leaf
	waiters []chan struct{}
	feeds   map[*Changes]struct{}
	closed  bool
	full    []log // the logs of last time that another one follows; it is replaced, never changed
}

// Init makes it, a zero Hub, that of a database. What store.Feeds asks for may be called before.
func (h *Hub) Init(env Env) { h.env = env }

// Waiting reports whether a feed waits for a commit. The committer asks after it has made its
// write visible; a feed reads the visible sequence number after it counts as waiting.
func (h *Hub) Waiting() bool { return h.waiting.Load() > 0 }

// Wake makes the feeds that wait look again.
func (h *Hub) Wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	h.waiters = h.waiters[:0]
	h.waiting.Store(0)
}

// wait makes Wake, until forget, send to w, which has room for one.
func (h *Hub) wait(w chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters = append(h.waiters, w)
	h.waiting.Store(int32(len(h.waiters)))
}

func (h *Hub) forget(w chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters = slices.DeleteFunc(h.waiters, func(o chan struct{}) bool { return o == w })
	h.waiting.Store(int32(len(h.waiters)))
}

// Obsoleted makes feeds give up logs before first, which are being deleted: a feed keeps no space.
// Those that wait look again, as logs are durable before they are obsolete.
func (h *Hub) Obsoleted(first uint64) {
	if h.Open() == 0 {
		return
	}
	for _, c := range h.all() {
		c.release(first)
	}
	h.Wake()
}

// Open is how many feeds are open.
func (h *Hub) Open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.feeds)
}

func (h *Hub) all() []*Changes {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.feeds))
}

// Close ends all feeds, which then fail with base.ErrClosed. It waits for reads of files under way.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	for _, c := range h.all() {
		_ = c.Close()
	}
	h.Wake()
}

// logs lists the logs. Those that another one follows are read only once to find where they begin:
// they are not cut back any more.
func (h *Hub) logs() ([]log, error) {
	h.mu.Lock()
	known := h.full
	h.mu.Unlock()
	logs, err := h.env.logs(known)
	if err == nil {
		h.mu.Lock()
		h.full = logs[:max(0, len(logs)-1)]
		h.mu.Unlock()
	}
	return logs, err
}

// add makes a feed one of the hub's.
func (h *Hub) add(c *Changes) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return base.ErrDatabaseClosed
	}
	if h.feeds == nil {
		h.feeds = map[*Changes]struct{}{}
	}
	h.feeds[c] = struct{}{}
	return nil
}

func (h *Hub) remove(c *Changes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.feeds, c)
}
