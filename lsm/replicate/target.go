package replicate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/loamdb/loam/lsm"
)

// Target is a place for objects: a name and at least one byte. Names are of letters, digits, '-'
// and '/', at most 200 bytes. All methods are safe for concurrent use.
type Target interface {
	// Put stores an object, and replaces one of that name. It is there whole and durably when Put
	// returns nil; after an error it is there whole, or not there. Put keeps no reference to data.
	Put(ctx context.Context, name string, data []byte) error
	// Get returns an object. It fails with an error that is fs.ErrNotExist where there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// List returns the names that begin with prefix, in any order. It has every object whose Put
	// returned before the call.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete removes an object. A missing object is no error.
	Delete(ctx context.Context, name string) error
}

var (
	// ErrTakenOver: another replicator began to write to the target; it goes on, this one ends.
	ErrTakenOver = errors.New("another replicator has taken over the target")
	// ErrOtherDatabase: the target has the replica of another directory, and what this database
	// has does not continue it.
	ErrOtherDatabase = errors.New("the target has the replica of another database")
	// ErrNoReplica: the target has no snapshot, and no segments, for the state asked for.
	ErrNoReplica = errors.New("nothing to restore")
	// ErrDiffers: a restored replica is not equal to its database.
	ErrDiffers = errors.New("the restored replica differs from the database")
)

// An object begins with magic, whose last byte is the version, and ends with the SHA-256 of its
// name, a zero byte, and all bytes before.
const (
	magic   = "LRP1"
	sumSize = sha256.Size
)

func sumOf(name string, body []byte) [sumSize]byte {
	h := sha256.New()
	h.Write([]byte(name))
	h.Write([]byte{0})
	h.Write(body)
	return [sumSize]byte(h.Sum(nil))
}

// seal makes the bytes of an object.
func seal(name string, payload []byte) []byte {
	b := make([]byte, 0, len(magic)+len(payload)+sumSize)
	b = append(append(b, magic...), payload...)
	sum := sumOf(name, b)
	return append(b, sum[:]...)
}

// damaged is the error for an object that is not what was stored.
func damaged(name, format string, args ...any) error {
	return &lsm.CorruptionError{File: name, Offset: -1, Kind: "object of a replica",
		Reason: fmt.Sprintf(format, args...)}
}

// get reads an object and returns its payload. A missing one is damage.
func get(ctx context.Context, t Target, name string) ([]byte, error) {
	b, err := t.Get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damaged(name, "it is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("reading object %s: %w", name, err)
	}
	return opened(name, b)
}

// opened is the payload of an object.
func opened(name string, b []byte) ([]byte, error) {
	if len(b) < len(magic)+sumSize {
		return nil, damaged(name, "it has %d bytes, too few", len(b))
	}
	body := b[:len(b)-sumSize]
	if sumOf(name, body) != [sumSize]byte(b[len(body):]) {
		return nil, damaged(name, "its checksum is wrong")
	}
	if n := len(magic) - 1; string(body[:n]) != magic[:n] {
		return nil, damaged(name, "it does not begin as an object of a replica")
	}
	if version := body[len(magic)-1]; version != magic[len(magic)-1] {
		return nil, fmt.Errorf("object %s has version %q: %w", name, version, lsm.ErrNewerFormat)
	}
	return body[len(magic):], nil
}

func put(ctx context.Context, t Target, name string, payload []byte) error {
	if err := t.Put(ctx, name, seal(name, payload)); err != nil {
		return fmt.Errorf("writing object %s: %w", name, err)
	}
	return nil
}

func putJSON(ctx context.Context, t Target, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return put(ctx, t, name, b)
}

func getJSON(ctx context.Context, t Target, name string, v any) error {
	b, err := get(ctx, t, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return damaged(name, "%v", err)
	}
	return nil
}
