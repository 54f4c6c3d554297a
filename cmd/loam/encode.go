package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// encoding is how bytes are written and read as text.
type encoding string

// The encodings. Text has backslash escapes for what cannot be printed, so that every key has one
// text and every text one key.
const (
	asText   encoding = "text"
	asHex    encoding = "hex"
	asBase64 encoding = "base64"
	asJSON   encoding = "json"
)

// encodings are what the flags --as, --key-as and --value-as say.
type encodings struct {
	both, keyFlag, valueFlag string
	key, value               encoding
}

func (e *encodings) flags(f *pflag.FlagSet) {
	f.StringVar(&e.both, "as", "text", "keys and values as text, hex, base64 or json")
	f.StringVar(&e.keyFlag, "key-as", "", "keys as text, hex or base64")
	f.StringVar(&e.valueFlag, "value-as", "", "values as text, hex, base64 or json")
}

func (e *encodings) parse() error {
	e.key, e.value = encoding(e.both), encoding(e.both)
	if e.keyFlag != "" {
		e.key = encoding(e.keyFlag)
	}
	if e.valueFlag != "" {
		e.value = encoding(e.valueFlag)
	}
	for _, x := range []encoding{e.key, e.value} {
		switch x {
		case asText, asHex, asBase64, asJSON:
		default:
			return usagef("%q is no encoding; want text, hex, base64 or json", string(x))
		}
	}
	return nil
}

// decode makes bytes of an argument.
func (e encoding) decode(s string) (b []byte, err error) {
	switch e {
	case asHex:
		b, err = hex.DecodeString(strings.TrimPrefix(s, "0x"))
	case asBase64:
		b, err = base64.StdEncoding.DecodeString(s)
	case asJSON:
		var v string
		if strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &v) == nil {
			return []byte(v), nil
		}
		if !json.Valid([]byte(s)) {
			err = fmt.Errorf("it is not JSON")
		}
		b = []byte(s)
	default:
		b, err = unescape(s)
	}
	if err != nil {
		return nil, usagef("%q cannot be read as %s: %v", s, string(e), err)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// text is the bytes as text of one line.
func (e encoding) text(b []byte) string {
	switch e {
	case asHex:
		return hex.EncodeToString(b)
	case asBase64:
		return base64.StdEncoding.EncodeToString(b)
	case asJSON:
		if utf8.Valid(b) {
			if json.Valid(b) {
				return compact(b)
			}
			return quoteJSON(string(b))
		}
	}
	return escape(b)
}

func compact(b []byte) string {
	out, err := json.Marshal(json.RawMessage(b))
	if err != nil {
		return string(b)
	}
	return string(out)
}

// escape writes bytes as text: what can be printed as it is, a backslash twice, the others as
// \n, \r, \t or \xNN.
func escape(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&s, `\x%02x`, b[0])
			n = 1
		case r == '\\':
			s.WriteString(`\\`)
		case r == '\n':
			s.WriteString(`\n`)
		case r == '\r':
			s.WriteString(`\r`)
		case r == '\t':
			s.WriteString(`\t`)
		case strconv.IsPrint(r):
			s.WriteRune(r)
		default:
			for _, c := range b[:n] {
				fmt.Fprintf(&s, `\x%02x`, c)
			}
		}
		b = b[n:]
	}
	return s.String()
}

// unescape undoes escape.
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

// appendField appends a member to a JSON object: name, name_hex, name_base64 or name_json, after
// the encoding. What is no UTF-8 is base64 where text is asked for.
func (e encoding) appendField(dst []byte, name string, b []byte) []byte {
	switch {
	case e == asHex:
		return append(dst, fmt.Sprintf(`"%s_hex":"%x"`, name, b)...)
	case e == asJSON && json.Valid(b):
		return append(dst, fmt.Sprintf(`"%s_json":%s`, name, compact(b))...)
	case e == asBase64 || !utf8.Valid(b):
		return append(dst, fmt.Sprintf(`"%s_base64":"%s"`, name,
			base64.StdEncoding.EncodeToString(b))...)
	}
	return append(dst, fmt.Sprintf(`"%s":%s`, name, quoteJSON(string(b)))...)
}

func quoteJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// printWithKeys writes v, which is a JSON object, with two keys as further members.
func (a *app) printWithKeys(v any, as encoding, name1 string, key1 []byte, name2 string,
	key2 []byte) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b = b[:len(b)-1]
	b = as.appendField(append(b, ','), name1, key1)
	if name2 != "" {
		b = as.appendField(append(b, ','), name2, key2)
	}
	_, err = a.out.Write(append(b, '}', '\n'))
	return err
}
