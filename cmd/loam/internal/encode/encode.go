// Package encode writes keys and values as text and reads them: as text with escapes, as
// hexadecimal digits, base64 or JSON.
package encode

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/lsm"
)

// Encoding is how bytes are written and read as text.
type Encoding string

// The encodings. Text has backslash escapes for what cannot be printed, so that every key has one
// text and every text one key.
const (
	Text   Encoding = "text"
	Hex    Encoding = "hex"
	Base64 Encoding = "base64"
	JSON   Encoding = "json"
	// jsonKey is JSON of keys, of which one with other white space is another one: it is a string.
	jsonKey Encoding = "json of a key"
)

// OfKeys is the encoding in which every key has a text of its own.
func (e Encoding) OfKeys() Encoding {
	if e == JSON {
		return jsonKey
	}
	return e
}

// Flags are what the flags --as, --key-as and --value-as say.
type Flags struct {
	both, keyFlag, valueFlag string
	Key, Value               Encoding
}

// Register adds the flags to f.
func (e *Flags) Register(f *pflag.FlagSet) {
	f.StringVar(&e.both, "as", "text", "keys and values as text, hex, base64 or json")
	f.StringVar(&e.keyFlag, "key-as", "", "keys as text, hex or base64")
	f.StringVar(&e.valueFlag, "value-as", "", "values as text, hex, base64 or json")
}

// Parse sets Key and Value.
func (e *Flags) Parse() error {
	e.Key, e.Value = Encoding(e.both), Encoding(e.both)
	if e.keyFlag != "" {
		e.Key = Encoding(e.keyFlag)
	}
	if e.valueFlag != "" {
		e.Value = Encoding(e.valueFlag)
	}
	if err := e.Key.Check(); err != nil {
		return err
	}
	e.Key = e.Key.OfKeys()
	return e.Value.Check()
}

// Check fails with lsm.ErrInvalidArgument if there is no such encoding.
func (e Encoding) Check() error {
	switch e {
	case Text, Hex, Base64, JSON:
		return nil
	}
	return invalid("%q is no encoding; want text, hex, base64 or json", string(e))
}

// Decode makes bytes of an argument.
func (e Encoding) Decode(s string) (b []byte, err error) {
	switch e {
	case Hex:
		b, err = hex.DecodeString(strings.TrimPrefix(s, "0x"))
	case Base64:
		b, err = base64.StdEncoding.DecodeString(s)
	case JSON, jsonKey:
		if !json.Valid([]byte(s)) {
			// Format writes bytes so that are neither JSON nor text.
			if b, err = unescape(s); err != nil || utf8.Valid(b) {
				err = fmt.Errorf("it is not JSON")
			}
		} else if strings.HasPrefix(s, `"`) {
			b, err = Unquote([]byte(s))
		} else {
			b = []byte(s)
		}
	default:
		b, err = unescape(s)
	}
	if err != nil {
		return nil, invalid("%q cannot be read as %s: %v", s, e.name(), err)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// Format is the bytes as text of one line.
func (e Encoding) Format(b []byte) string {
	switch e {
	case Hex:
		return hex.EncodeToString(b)
	case Base64:
		return base64.StdEncoding.EncodeToString(b)
	case JSON, jsonKey:
		// Decode takes the quotes of a string away, which b may have of its own.
		if e.asJSON(b) && bytes.TrimSpace(b)[0] != '"' {
			return compact(b)
		}
		if utf8.Valid(b) {
			return Quote(string(b))
		}
	}
	return Escape(b)
}

// asJSON reports whether bytes are written as the JSON that they are.
func (e Encoding) asJSON(b []byte) bool {
	return (e == JSON || e == jsonKey && compact(b) == string(b)) && json.Valid(b) && utf8.Valid(b)
}

// compact is JSON on one line: without white space, and with what cannot be printed as escapes.
func compact(b []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return string(b)
	}
	return printable(out.String())
}

// printable writes what a terminal may take for a command as an escape of JSON. It can only be in
// strings.
func printable(s string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		units := []uint16{uint16(r)}
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			units = []uint16{uint16(high), uint16(low)}
		}
		for _, u := range units {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}

var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

// Escape writes bytes as text: what can be printed as it is, a backslash twice, the others as
// \n, \r, \t or \xNN.
func Escape(b []byte) string { return text.Printable(escapes.Replace(string(b))) }

// unescape undoes Escape.
func unescape(s string) ([]byte, error) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		i++
		if i == len(s) {
			return nil, fmt.Errorf(`a backslash at the end; write \\`)
		}
		switch s[i] {
		case '\\':
			b = append(b, '\\')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case '0':
			b = append(b, 0)
		case 'x':
			if i+2 >= len(s) {
				return nil, fmt.Errorf(`\x needs two hexadecimal digits`)
			}
			v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return nil, fmt.Errorf(`\x%s: want two hexadecimal digits`, s[i+1:i+3])
			}
			b = append(b, byte(v))
			i += 2
		default:
			return nil, fmt.Errorf(`\%c is no escape; write \\ for a backslash`, s[i])
		}
	}
	return b, nil
}

// AppendField appends a member to a JSON object: name, name_hex, name_base64 or name_json, after
// the encoding. Bytes that are no UTF-8 are base64 instead of text.
func (e Encoding) AppendField(dst []byte, name string, b []byte) []byte {
	switch {
	case e == Hex:
		return append(dst, fmt.Sprintf(`"%s_hex":"%x"`, name, b)...)
	case e.asJSON(b):
		return append(dst, fmt.Sprintf(`"%s_json":%s`, name, compact(b))...)
	case e == Base64 || !utf8.Valid(b):
		return append(dst, fmt.Sprintf(`"%s_base64":"%s"`, name,
			base64.StdEncoding.EncodeToString(b))...)
	}
	return append(dst, fmt.Sprintf(`"%s":%s`, name, Quote(string(b)))...)
}

// Quote is s as a string of JSON.
func Quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return strconv.Quote(s)
	}
	return printable(strings.TrimSuffix(b.String(), "\n"))
}

// Unquote undoes Quote. It fails where the string has half a surrogate pair, or bytes that are no
// UTF-8: these have no text, and package json takes all of them for one and the same character.
func Unquote(quoted []byte) ([]byte, error) {
	var s *string // nil: null, which is no string
	if err := json.Unmarshal(quoted, &s); err != nil || s == nil {
		return nil, fmt.Errorf("it is no string of JSON")
	}
	if !utf8.Valid(quoted) {
		return nil, fmt.Errorf("it is no UTF-8")
	}
	for rest := quoted; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 {
			return []byte(*s), nil
		}
		if rest = rest[i+1:]; rest[0] != 'u' {
			rest = rest[1:]
			continue
		}
		unit, low := unitOf(rest), rune(0)
		rest = rest[5:]
		if bytes.HasPrefix(rest, []byte(`\u`)) {
			low = unitOf(rest[1:])
		}
		if utf16.IsSurrogate(unit) {
			if utf16.DecodeRune(unit, low) == utf8.RuneError {
				return nil, fmt.Errorf("it has half a surrogate pair")
			}
			rest = rest[6:]
		}
	}
}

// unitOf is the number of an escape, which begins with u and four hexadecimal digits.
func unitOf(escape []byte) rune {
	n, _ := strconv.ParseUint(string(escape[1:5]), 16, 16) // JSON has no other escapes
	return rune(n)
}

// Column is the name of a column or member with values of the encoding.
func (e Encoding) Column(name string) string {
	if e == Text {
		return name
	}
	return name + "_" + e.name()
}

// name is the word for the encoding in flags and names of columns.
func (e Encoding) name() string {
	word, _, _ := strings.Cut(string(e), " ")
	return word
}

// OfColumn undoes Column, for a column whose name begins with prefix.
func OfColumn(name, prefix string) (e Encoding, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	switch rest {
	case "":
		return Text, ok
	case "_hex", "_base64", "_json":
		return Encoding(rest[1:]), ok
	}
	return "", false
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{lsm.ErrInvalidArgument}, args...)...)
}
