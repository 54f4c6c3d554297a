package seal

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/scrypt"

	"github.com/loamdb/loam/internal/base"
)

// errUnknown is the answer of the built-in providers to an id that they do not know.
var errUnknown = errors.New("the key is not among those that were given")

// checkOf identifies a key without telling anything else about it.
func checkOf(key []byte) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte("loam key id"))
	return hex.EncodeToString(m.Sum(nil)[:8])
}

// rawKeys are keys that the program has. The id of a key is its check.
type rawKeys struct {
	current string
	keys    map[string][]byte
}

// RawKeys is a Provider of keys of KeyLen bytes, the current one first.
func RawKeys(keys ...[]byte) (Provider, error) {
	p := &rawKeys{keys: map[string][]byte{}}
	for i, key := range keys {
		if len(key) != KeyLen {
			return nil, base.Invalidf("a key has %d bytes instead of %d", len(key), KeyLen)
		}
		id := checkOf(key)
		if i == 0 {
			p.current = id
		}
		p.keys[id] = bytes.Clone(key)
	}
	if p.current == "" {
		return nil, base.Invalidf("no key was given")
	}
	return p, nil
}

func (p *rawKeys) Name() string { return "key" }

func (p *rawKeys) Current(string) (id string, key []byte, err error) {
	return p.current, p.keys[p.current], nil
}

func (p *rawKeys) Key(id string) ([]byte, error) {
	if key := p.keys[id]; key != nil {
		return key, nil
	}
	return nil, errUnknown
}

// maxKeyFile bounds the size of a file of keys in bytes.
const maxKeyFile = 64 << 10

// KeyFile is a Provider of the keys in a file: a key a line, as 64 hexadecimal digits, the current
// one first. Empty lines, and lines that begin with #, are left out.
func KeyFile(path string) (Provider, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxKeyFile) {
		err = fmt.Errorf("it is no regular file of at most %d bytes", maxKeyFile)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, base.Invalidf("the key file %s: %w", path, err)
	}
	var keys [][]byte
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, err := hex.DecodeString(line)
		if err != nil || len(key) != KeyLen {
			return nil, base.Invalidf("line %d of the key file %s is no key: want %d hexadecimal "+
				"digits, as openssl rand -hex %d writes", i+1, path, 2*KeyLen, KeyLen)
		}
		keys = append(keys, key)
	}
	return RawKeys(keys...)
}

// The cost of scrypt: logN is the logarithm of N, r is 8 and p 1. An id with another one is
// followed within bounds, as it comes from a file.
const (
	logN                 = 16 // 64 MiB of memory, a fifth of a second
	leastLogN, mostLogN  = 10, 18
	scryptR, scryptP     = 8, 1
	saltLen              = 16
	passphraseIDFmt      = "scrypt-%d-%x-%s"
	passphraseProviderID = "passphrase"
)

// passphrases are keys made of passphrases. The id of a key has the salt and the key's check.
type passphrases struct {
	texts []string // the current one first
	logN  int

	mu   sync.Mutex
	made map[string][]byte // keys by id
}

// Passphrases is a Provider of keys that scrypt makes of passphrases, the current one first.
func Passphrases(texts ...string) (Provider, error) { return newPassphrases(logN, texts...) }

func newPassphrases(logN int, texts ...string) (Provider, error) {
	if slices.Contains(texts, "") {
		return nil, base.Invalidf("a passphrase is empty")
	}
	if len(texts) == 0 {
		return nil, base.Invalidf("no passphrase was given")
	}
	return &passphrases{texts: texts, logN: logN, made: map[string][]byte{}}, nil
}

func (p *passphrases) Name() string { return passphraseProviderID }

// Current is the key in use, if the current passphrase makes it, or one of a new salt.
func (p *passphrases) Current(used string) (id string, key []byte, err error) {
	if log, salt, check, ok := parsePassphraseID(used); ok {
		key, err := derive(p.texts[0], salt, log)
		if err != nil || checkOf(key) == check {
			return used, key, err
		}
	}
	salt := make([]byte, saltLen)
	if _, err := rand.Read(salt); err != nil {
		return "", nil, err
	}
	if key, err = derive(p.texts[0], salt, p.logN); err != nil {
		return "", nil, err
	}
	id = fmt.Sprintf(passphraseIDFmt, p.logN, salt, checkOf(key))
	p.keep(id, key)
	return id, key, nil
}

func (p *passphrases) keep(id string, key []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[id] = key
}

// Key tries all passphrases.
func (p *passphrases) Key(id string) ([]byte, error) {
	p.mu.Lock()
	key := p.made[id]
	p.mu.Unlock()
	if key != nil {
		return key, nil
	}
	log, salt, check, ok := parsePassphraseID(id)
	if !ok {
		return nil, errors.New("it is no key of a passphrase")
	}
	for _, t := range p.texts {
		key, err := derive(t, salt, log)
		if err != nil {
			return nil, err
		}
		if checkOf(key) == check {
			p.keep(id, key)
			return key, nil
		}
	}
	return nil, errors.New("none of the passphrases is the right one")
}

func derive(text string, salt []byte, logN int) ([]byte, error) {
	return scrypt.Key([]byte(text), salt, 1<<logN, scryptR, scryptP, KeyLen)
}

func parsePassphraseID(id string) (logN int, salt []byte, check string, ok bool) {
	parts := strings.Split(id, "-")
	if len(parts) != 4 || parts[0] != "scrypt" {
		return 0, nil, "", false
	}
	logN, err := strconv.Atoi(parts[1])
	salt, serr := hex.DecodeString(parts[2])
	ok = err == nil && serr == nil && logN >= leastLogN && logN <= mostLogN && len(salt) == saltLen
	return logN, salt, parts[3], ok
}
