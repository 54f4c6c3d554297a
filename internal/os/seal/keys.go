package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/loamdb/loam/internal/base"
)

// KeyLen is the length of keys in bytes.
const KeyLen = 32

// Provider is lsm.KeyProvider.
type Provider interface {
	Name() string
	Current(used string) (id string, key []byte, err error)
	Key(id string) (key []byte, err error)
}

// Keys are the keys of a Provider, each asked for once. They are safe for concurrent use.
// No lock is held while the Provider is called. The Keys that are nil open no sealed file.
type Keys struct {
	provider   Provider
	allowClear bool

	mu      sync.Mutex // a leaf
	current *wrapping
	known   map[string]*wrapping
	used    string // the key of the first file that was opened
}

// wrapping is a key that wraps data keys.
type wrapping struct {
	id   string
	aead cipher.AEAD
}

// NewKeys returns the keys of p. allowClear lets files that are not sealed be read.
func NewKeys(p Provider, allowClear bool) *Keys {
	return &Keys{provider: p, allowClear: allowClear, known: map[string]*wrapping{}}
}

// AllowClear reports whether files that are not sealed may be read.
func (k *Keys) AllowClear() bool { return k == nil || k.allowClear }

// ErrClear is the error for a file that is not sealed in a database that is.
func ErrClear(file string) error {
	return &base.EncryptionError{File: file, Reason: "the file is not encrypted; a database that " +
		"was not encrypted from the beginning is opened with AllowClear, and Rekey encrypts it"}
}

// Refresh asks the Provider which key is the current one: new files get it. used is the key of the
// first file that was opened.
func (k *Keys) Refresh() error {
	k.mu.Lock()
	used := k.used
	k.mu.Unlock()
	var id string
	w, err := k.ask(&id, func() (key []byte, err error) {
		id, key, err = k.provider.Current(used)
		return key, err
	})
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known[id] == nil {
		k.known[id] = w
	}
	k.current = w
	return nil
}

// ProviderName is the name of the Provider.
func (k *Keys) ProviderName() string { return k.provider.Name() }

// CurrentID is the id of the key that new files get, "" before Refresh.
func (k *Keys) CurrentID() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return ""
	}
	return k.current.id
}

// ask calls the Provider for a key. A panic is an error.
func (k *Keys) ask(id *string, call func() ([]byte, error)) (w *wrapping, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &base.EncryptionError{KeyID: *id, Reason: "the key provider panicked",
				Cause: base.NewPanic(r)}
		}
	}()
	fail := func(reason string, cause error) error {
		return &base.EncryptionError{Provider: k.provider.Name(), KeyID: *id, Reason: reason,
			Cause: cause}
	}
	key, err := call()
	switch {
	case err != nil:
		return nil, fail("the key provider has no such key", err)
	case len(key) != KeyLen:
		return nil, fail(fmt.Sprintf("the key has %d bytes instead of %d", len(key), KeyLen), nil)
	case len(*id) == 0 || len(*id) > maxName || len(k.provider.Name()) > maxName:
		return nil, fail("ids have 1 to 255 bytes, names of providers at most 255", nil)
	}
	return &wrapping{id: *id, aead: newGCM(key)}, nil
}

// newGCM is AES-256-GCM. key has KeyLen bytes.
func newGCM(key []byte) cipher.AEAD {
	b, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	a, err := cipher.NewGCM(b)
	if err != nil {
		panic(err)
	}
	return a
}

// wrappingOf returns the key of a file.
func (k *Keys) wrappingOf(h *Header) (*wrapping, error) {
	k.mu.Lock()
	w := k.known[h.KeyID]
	k.mu.Unlock()
	if w != nil {
		return w, nil
	}
	return k.ask(&h.KeyID, func() ([]byte, error) { return k.provider.Key(h.KeyID) })
}

// New makes the Header and the Sealer of a new file with this number, 0 if it has none.
func (k *Keys) New(kind Kind, number uint64) ([]byte, *Sealer, error) {
	k.mu.Lock()
	w := k.current
	k.mu.Unlock()
	if w == nil { // of a database that is open for reading
		if err := k.Refresh(); err != nil {
			return nil, nil, err
		}
		k.mu.Lock()
		w = k.current
		k.mu.Unlock()
	}
	var random [nonceLen + KeyLen]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, nil, err
	}
	h := Header{Kind: kind, Number: number, Provider: k.provider.Name(), KeyID: w.id}
	dataKey := random[nonceLen:]
	return h.encode(w.aead, random[:nonceLen], dataKey), &Sealer{part{aead: newGCM(dataKey)}}, nil
}

// Open returns the Opener of a file, or a *base.EncryptionError with the id of the key that is
// missing or is another one. file is the name for errors.
func (k *Keys) Open(h *Header, file string) (*Opener, error) {
	fail := func(reason string) error {
		return &base.EncryptionError{File: file, Provider: h.Provider, KeyID: h.KeyID,
			Reason: reason}
	}
	if k == nil {
		return nil, fail("the file is encrypted, and no keys were given")
	}
	if name := k.provider.Name(); name != h.Provider {
		return nil, fail(fmt.Sprintf("the key provider is %q, the file was encrypted with another "+
			"one", name))
	}
	w, err := k.wrappingOf(h)
	var e *base.EncryptionError
	if errors.As(err, &e) {
		e.File = file
	}
	if err != nil {
		return nil, err
	}
	dataKey, err := w.aead.Open(nil, h.nonce[:], h.wrapped, h.bound())
	if err != nil {
		return nil, fail("it is not the key of this id with which the file was encrypted")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known[w.id] == nil { // not before it was right once
		k.known[w.id] = w
	}
	if k.used == "" {
		k.used = w.id
	}
	return &Opener{part{aead: newGCM(dataKey)}}, nil
}
