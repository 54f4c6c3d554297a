package lsm

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/options"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
)

// KeyProvider supplies the keys by which a database is encrypted, see Options.Encryption. A key has
// 32 bytes; the database copies it and asks for each key once. Ids have 1 to 255 bytes, and are
// written to files in clear text.
//
// Methods are called by Open, by Rekey, and when a file is opened whose key was not asked for yet.
// They are never called with a lock held, and may wait. If a method returns an error or panics, the
// call fails with ErrEncryption.
type KeyProvider interface {
	// Name names the provider in files; at most 255 bytes. Files of a provider of another name are
	// not opened.
	Name() string
	// Current returns the key for new files and its id. used is the id of the key that the opened
	// database uses, "" for a new database.
	Current(used string) (id string, key []byte, err error)
	// Key returns the key with this id.
	Key(id string) (key []byte, err error)
}

// NewKeyProvider returns a KeyProvider of the given keys of 32 bytes, which are copied: current for
// new files, older ones for the files that have them. The id of a key is derived from it by a hash.
// It fails with ErrInvalidArgument for a key of another length.
func NewKeyProvider(current []byte, older ...[]byte) (KeyProvider, error) {
	return seal.RawKeys(append([][]byte{current}, older...)...)
}

// NewPassphraseProvider returns a KeyProvider of keys that scrypt derives from passphrases, with a
// salt for each database: current for new files, older ones for the files that have them. Deriving
// a key takes a fifth of a second and 64 MiB of memory. It fails with ErrInvalidArgument for an
// empty passphrase.
func NewPassphraseProvider(current string, older ...string) (KeyProvider, error) {
	return seal.Passphrases(append([]string{current}, older...)...)
}

// NewKeyFileProvider returns a KeyProvider of the keys in a file: one a line, as 64 hexadecimal
// digits, the current one first, then older ones. Empty lines and lines that begin with # are
// ignored. The file is read once, by this call. It fails with ErrInvalidArgument.
func NewKeyFileProvider(path string) (KeyProvider, error) { return seal.KeyFile(path) }

// keyProviderOf returns the provider that a text names. Errors do not repeat the text.
func keyProviderOf(text string) (KeyProvider, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "none":
		return nil, nil
	case "file":
		return NewKeyFileProvider(rest)
	case "passphrase":
		return NewPassphraseProvider(rest)
	case "key":
		if key, err := hex.DecodeString(rest); err == nil {
			return NewKeyProvider(key)
		}
	}
	return nil, errors.New("want none, file: and the path of a key file, key: and 64 hexadecimal " +
		"digits, or passphrase: and a passphrase, or set Options.Encryption")
}

// encryptionField is an option that takes keys by a text, which is not told again.
func encryptionField(p *KeyProvider) options.Named {
	return options.Named{
		Secret:  true,
		Default: "none",
		Name: func() string {
			if *p == nil {
				return "none"
			}
			return (*p).Name()
		},
		Set: func(text string) error {
			found, err := keyProviderOf(text)
			if err == nil {
				*p = found
			}
			return err
		},
	}
}

// keys are the keys of a database, nil if it is not encrypted. o is resolved.
func (o *Options) keys() *seal.Keys {
	if o.Encryption == nil {
		return nil
	}
	return seal.NewKeys(o.Encryption, o.AllowClear)
}

// KeyUse says how many files of a database have a key.
type KeyUse struct {
	Provider string // Provider is the name of the KeyProvider; "" if the files are not encrypted.
	ID       string // ID is the id of the key; "" if the files are not encrypted.
	Files    int    // Files is the number of files.
}

// KeysInUse lists the keys of the files with keys or values that are in the directory now, by
// provider and id; files that are not encrypted come first. It fails with ErrClosed, or with an
// error of the file system.
func (db *DB) KeysInUse() ([]KeyUse, error) {
	found, err := db.engine.KeysInUse()
	var uses []KeyUse
	for _, u := range found {
		uses = append(uses, KeyUse(u))
	}
	return uses, err
}

// Rekey asks the KeyProvider for the current key, uses it for all new files, and encrypts with it
// the tables and value files that have another key or are not encrypted, one after another, while
// reads and writes go on. New logs and a new MANIFEST replace the present ones. These files keep
// their keys: obsolete logs that are kept for feeds of changes, tables that a load or an ingest is
// writing (until a later Rekey), and copies of the database. KeysInUse lists the keys that are
// still needed. Concurrent calls share the work. The built-in providers read their keys once: to
// change the key, open the database with the new key first.
//
// If Rekey fails, the next call continues where it stopped. It fails with ErrInvalidArgument if
// Options.Encryption is nil or ctx is nil, with ErrEncryption, with ctx's error when ctx is done,
// with ErrClosed by Close, and as Flush does.
func (db *DB) Rekey(ctx context.Context) error {
	if ctx == nil {
		return base.Invalidf("Rekey needs a context")
	}
	return db.engine.Rekey(ctx)
}

// sealed is the file system through which a repair sees the database in dir. It fails if a key is
// missing: what cannot be read for that is not damaged. o is resolved.
func (o *Options) sealed(fsys vfs.FS, dir string) (vfs.FS, error) {
	keys := o.keys()
	if err := keys.CheckDir(fsys, dir); err != nil || keys == nil {
		return fsys, err
	}
	return seal.Over(fsys, dir, keys).Salvaging(), keys.Refresh()
}

// EncryptionError says which key is missing or wrong. errors.As finds it in an error for which
// errors.Is(err, ErrEncryption) holds.
type EncryptionError struct {
	File     string // File is the name within the directory; "" if the error is about no file.
	Provider string // Provider is the name of the KeyProvider that the file asks for.
	KeyID    string // KeyID is the key that it asks for.
	Reason   string // Reason says what is wrong, lower case.
	Cause    error  // Cause is the error of the KeyProvider; nil if it has none.
}

// Error names file, key and reason.
func (e *EncryptionError) Error() string { return (*base.EncryptionError)(e).Error() }

// Is makes errors.Is(e, ErrEncryption) hold.
func (e *EncryptionError) Is(target error) bool { return target == ErrEncryption }

// Unwrap is Cause.
func (e *EncryptionError) Unwrap() error { return e.Cause }
