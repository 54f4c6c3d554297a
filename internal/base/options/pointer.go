package options

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Pointer is an option that holds an object: one that find knows by its name, or one of the
// caller's own, which has a name, too. none is the name of nil, and find knows it.
func Pointer[T any](field **T, none string, nameOf func(*T) string,
	find func(name string) (*T, error)) Named {
	return Named{
		Default: none,
		Name: func() string {
			if *field == nil {
				return none
			}
			return nameOf(*field)
		},
		Set: func(name string) error {
			found, err := find(name)
			if err == nil {
				*field = found
			}
			return err
		},
	}
}

// JoinBytes is what SplitBytes reads.
func JoinBytes(list []string) string {
	var b strings.Builder
	for i, p := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		for _, c := range []byte(p) {
			if c <= ' ' || c >= 0x7f || c == ',' || c == '%' {
				fmt.Fprintf(&b, "%%%02x", c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

// SplitBytes reads strings, none of them empty, that are separated by commas. %xx is the byte with
// that hexadecimal number.
func SplitBytes(text string) (list [][]byte, err error) {
	for _, part := range strings.Split(text, ",") {
		p := make([]byte, 0, len(part))
		for i := 0; i < len(part); i++ {
			if part[i] != '%' {
				p = append(p, part[i])
				continue
			}
			n, err := strconv.ParseUint(part[min(i+1, len(part)):min(i+3, len(part))], 16, 8)
			if err != nil || i+2 >= len(part) {
				return nil, errors.New("behind % come two hexadecimal digits")
			}
			p = append(p, byte(n))
			i += 2
		}
		if len(p) == 0 {
			return nil, errors.New("an empty prefix would remove every key")
		}
		list = append(list, p)
	}
	return list, nil
}
