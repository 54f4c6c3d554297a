package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/loamdb/loam/internal/base"
)

// Version is the version of the protocol, which the answer to "info" has.
const Version = 1

// Bounds of requests and answers.
const (
	MaxRequest  = 64 << 10 // bytes of a request, the newline included
	MaxEntries  = 10_000   // entries of a scan
	MaxScan     = 1 << 20  // bytes of keys and values after which a scan ends
	MaxValue    = 1 << 20  // bytes of a value; the rest is cut off
	MaxTables   = 4096     // tables of a keyspace that "levels" describes
	MaxTableKey = 64       // bytes of the keys that "levels" shows
)

// Request is a line of a client. Bytes are in base64, as encoding/json has them.
type Request struct {
	Do       string `json:"do"`
	Keyspace string `json:"keyspace,omitempty"` // "": the default one

	// Of a scan and of "compact". nil: no bound.
	From []byte `json:"from"`
	To   []byte `json:"to"`
	// Of a scan.
	Prefix   []byte `json:"prefix,omitempty"`
	Past     bool   `json:"past,omitempty"` // the key From itself is left out
	Reverse  bool   `json:"reverse,omitempty"`
	KeysOnly bool   `json:"keys_only,omitempty"`
	Hold     bool   `json:"hold,omitempty"`      // all scans with it read one state
	Limit    int    `json:"limit,omitempty"`     // 0: 1000
	MaxValue int    `json:"max_value,omitempty"` // 0: 64 KiB

	After uint64 `json:"after,omitempty"` // of "events": the number of the last one known
	Dir   string `json:"dir,omitempty"`   // of "checkpoint" and "backup"
}

// ParseRequest reads a line. It fails with base.ErrInvalidArgument.
func ParseRequest(line []byte) (*Request, error) {
	r := &Request{}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, base.Invalidf("a request is an object of JSON on one line: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, base.Invalidf("there is something behind the request")
	}
	switch {
	case r.Do == "":
		return nil, fmt.Errorf(`%w: a request needs "do"`, base.ErrInvalidArgument)
	case r.Limit < 0 || r.MaxValue < 0:
		return nil, base.Invalidf("a limit is negative")
	}
	if r.Limit == 0 {
		r.Limit = 1000
	}
	if r.MaxValue == 0 {
		r.MaxValue = 64 << 10
	}
	r.Limit, r.MaxValue = min(r.Limit, MaxEntries), min(r.MaxValue, MaxValue)
	return r, nil
}

// reply is the line that answers a request.
type reply struct {
	Result any      `json:"result,omitempty"`
	Error  *failure `json:"error,omitempty"`
}

// failure is why a request failed.
type failure struct {
	Kind    string `json:"kind"` // of kinds
	Message string `json:"message"`
}

// kinds are the errors that a client tells apart, by the names that answers give them.
var kinds = []struct {
	name string
	err  error
}{
	{"closed", base.ErrClosed},
	{"canceled", context.Canceled},
	{"invalid_argument", base.ErrInvalidArgument},
	{"no_keyspace", base.ErrNoKeyspace},
	{"needs_native", base.ErrNeedsNative},
	{"exists", base.ErrExists},
	{"locked", base.ErrLocked},
	{"read_only", base.ErrReadOnly},
	{"corruption", base.ErrCorruption},
	{"no_space", base.ErrNoSpace},
	{"no_memory", base.ErrNoMemory},
	{"too_many_files", base.ErrTooManyFiles},
	{"busy", base.ErrBusy},
	{"not_a_database", base.ErrNotADatabase},
}

// otherKind names all other errors.
const otherKind = "error"

// encode makes the line that answers a request.
func encode(result any, err error) []byte {
	r := reply{Result: result}
	if err != nil {
		r = reply{Error: &failure{Kind: otherKind, Message: err.Error()}}
		for _, k := range kinds {
			if errors.Is(err, k.err) {
				r.Error.Kind = k.name
				break
			}
		}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return encode(nil, fmt.Errorf("writing the answer: %w", err))
	}
	return append(line, '\n')
}

// remote is an error of the process that has the database open.
type remote struct {
	text string
	kind error // nil: one of other errors
}

func (r *remote) Error() string { return r.text }
func (r *remote) Unwrap() error { return r.kind }

// decode takes the result out of a line.
func decode(line []byte, result any) error {
	var r struct {
		Result json.RawMessage
		Error  *failure
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	if r.Error != nil {
		err := &remote{text: r.Error.Message}
		for _, k := range kinds {
			if k.name == r.Error.Kind {
				err.kind = k.err
			}
		}
		return err
	}
	if result == nil || r.Result == nil {
		return nil
	}
	return json.Unmarshal(r.Result, result)
}
