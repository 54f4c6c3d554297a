// Package options sets the fields of a struct of options by name, fills in their defaults,
// checks their ranges and describes them, all from one table. It does not know what the
// options are.
package options

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// Row describes one option, which is a field of O.
type Row[O any] struct {
	Name, Doc, Unit string // as in Doc
	Default         int64
	Min, Max        int64
	PerProcessor    bool    // the default is what Go uses of processors, at least 2, at most Max
	NoneBelow       bool    // zero given by name means "none", kept as -1
	Inverted        bool    // the field of a switch says the opposite of its name
	Fraction        float64 // default of a number with a fraction
	Dynamic         Scope   // whether it changes while what it configures is open
	// Field returns a *bool, *int, *int64, *float64, *time.Duration (of seconds), Choice, Choices
	// or Named. A field that is zero has its default, after Resolve.
	Field func(*O) any
}

// Table is all options of O.
type Table[O any] []Row[O]

// Choice is a field that takes one of some names, by their indexes. Where there is a name
// "default", it is the zero value.
type Choice struct {
	Value *uint8
	Names []string
}

// Choices is a field that takes up to seven of four names, separated by commas: two bits of
// Value for each, by their indexes, the first in the lowest. Names[0] is "default", which is
// the zero value and in no list.
type Choices struct {
	Value *uint16
	Names []string
}

const (
	choiceBits = 2
	maxChoices = 7
)

// Named is a field that takes an object by its name.
type Named struct {
	Secret bool // errors do not repeat what Set got
	// the name for nil: "none", or that of the built-in object used instead
	Default string
	Name    func() string           // of the object in the field
	Set     func(name string) error // an error says which names there are
	Check   func() error            // reports why the object cannot be used; nil: no reason
}

// set sets the names in a list.
func (c Choices) set(list string) bool {
	names := strings.Split(list, ",")
	v := uint16(0)
	for k, name := range names {
		i := slices.IndexFunc(c.Names, func(n string) bool {
			return strings.EqualFold(n, strings.TrimSpace(name))
		})
		if i < 0 || k == maxChoices || i == 0 && len(names) > 1 {
			return false
		}
		v |= uint16(i) << (choiceBits * k)
	}
	*c.Value = v
	return true
}

// valid reports whether the value is one that set makes.
func (c Choices) valid() bool {
	v := *c.Value
	for v>>choiceBits != 0 && v&(1<<choiceBits-1) != 0 {
		v >>= choiceBits
	}
	return *c.Value < 1<<(choiceBits*maxChoices) && v < 1<<choiceBits
}

// wanted lists the names: "a, b or c".
func (c Choice) wanted() string {
	names := slices.DeleteFunc(slices.Clone(c.Names), func(name string) bool {
		return name == "default"
	})
	n := len(names) - 1
	return strings.Join(names[:n], ", ") + " or " + names[n]
}

// Doc describes one option for its users.
type Doc struct {
	Name     string // as Set takes it, such as "block_size"
	Doc      string // one line of text
	Unit     string // "bytes", for instance; empty for switches and names
	Default  string // as Set takes it
	Min, Max int64  // the range of a number; both 0 for switches and names
	Dynamic  string // what SetOption changes it for: "database", "keyspace", or "": nothing
}

// Docs describes the options in the order of the table.
func (t Table[O]) Docs() []Doc {
	docs := make([]Doc, 0, len(t))
	for i := range t {
		row := &t[i]
		d := Doc{Name: row.Name, Doc: row.Doc, Unit: row.Unit, Min: max(row.Min, 0), Max: row.Max,
			Dynamic: row.Dynamic.String()}
		switch p := row.Field(new(O)).(type) {
		case *bool:
			d.Default = strconv.FormatBool(row.Inverted)
		case Choice:
			d.Default, d.Min, d.Max = p.Names[row.Default], 0, 0
		case Choices:
			d.Default = p.Names[row.Default]
		case Named:
			d.Default = p.Default
		case *float64:
			d.Default = strconv.FormatFloat(row.Fraction, 'g', -1, 64)
		default:
			d.Default = strconv.FormatInt(row.defaultValue(), 10)
		}
		docs = append(docs, d)
	}
	return docs
}

func (row *Row[O]) defaultValue() int64 {
	if row.PerProcessor {
		return min(int64(max(2, runtime.GOMAXPROCS(0))), row.Max)
	}
	return row.Default
}

// Set sets an option of o from text: switches take true and false, numbers an optional KiB,
// MiB or GiB, choices and objects a name. It fails with base.ErrInvalidArgument; for an
// unknown name the error says the nearest one.
func (t Table[O]) Set(o *O, name, value string) error {
	row, err := t.find(name)
	if err != nil {
		return err
	}
	return row.set(o, value)
}

func (t Table[O]) find(name string) (*Row[O], error) {
	names := make([]string, len(t))
	for i := range t {
		if names[i] = t[i].Name; names[i] == name {
			return &t[i], nil
		}
	}
	return nil, base.Invalidf("no option %q; did you mean %q?", name, base.Nearest(name, names))
}

func (row *Row[O]) set(o *O, value string) error {
	bad := func(why string) error {
		return base.Invalidf("option %s = %q: %s", row.Name, value, why)
	}
	switch p := row.Field(o).(type) {
	case *bool:
		v, err := strconv.ParseBool(value)
		if err != nil {
			return bad("want true or false")
		}
		*p = v != row.Inverted
	case Choice:
		i := slices.IndexFunc(p.Names, func(name string) bool {
			return strings.EqualFold(name, value)
		})
		if i < 0 {
			return bad("want " + p.wanted())
		}
		*p.Value = uint8(i)
	case Choices:
		if !p.set(value) {
			return bad("want " + Choice{Names: p.Names}.wanted() +
				fmt.Sprintf(", or up to %d of them with commas between", maxChoices))
		}
	case Named:
		if err := p.Set(value); err != nil {
			if p.Secret {
				value = "(not told)"
			}
			return bad(err.Error())
		}
	case *int:
		v, err := row.number(value, bad)
		if err != nil {
			return err
		}
		*p = int(v)
	case *int64:
		v, err := row.number(value, bad)
		if err != nil {
			return err
		}
		*p = v
	case *time.Duration:
		if _, err := strconv.ParseFloat(value, 64); err == nil {
			value += "s"
		}
		v, err := time.ParseDuration(value)
		if err != nil || !row.holds(v.Seconds()) {
			return bad(fmt.Sprintf("want %d to %d seconds, or a number with ms, m or h behind it",
				row.Min, row.Max))
		}
		*p = v
	case *float64:
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !row.holds(v) {
			return bad(fmt.Sprintf("want %d to %d", row.Min, row.Max))
		}
		*p = v
	}
	return nil
}

// holds reports whether a number with a fraction is in range; NaN is not.
func (row *Row[O]) holds(v float64) bool { return v >= float64(row.Min) && v <= float64(row.Max) }

func (row *Row[O]) number(value string, bad func(string) error) (int64, error) {
	v, ok := base.ParseSize(value)
	if !ok {
		return 0, bad("want a number, with KiB, MiB or GiB behind it if you like")
	}
	if least := max(row.Min, 0); v < least || v > row.Max {
		return 0, bad(fmt.Sprintf("want %d to %d", least, row.Max))
	}
	if row.NoneBelow && v == 0 {
		v = -1
	}
	return v, nil
}

// Resolve fills in the defaults of numbers and choices, or fails with
// base.ErrInvalidArgument and says which of them is out of range.
func (t Table[O]) Resolve(o *O) error {
	for i := range t {
		if err := t[i].resolve(o); err != nil {
			return err
		}
	}
	return nil
}

func (row *Row[O]) resolve(o *O) error {
	switch p := row.Field(o).(type) {
	case *int:
		*p = cmp.Or(*p, int(row.defaultValue()))
		return row.check(int64(*p))
	case *int64:
		*p = cmp.Or(*p, row.defaultValue())
		return row.check(*p)
	case Choice:
		*p.Value = cmp.Or(*p.Value, uint8(row.Default))
		return row.check(int64(*p.Value))
	case Choices:
		if *p.Value = cmp.Or(*p.Value, uint16(row.Default)); !p.valid() {
			return base.Invalidf("option %s = %#x: want a list of up to %d choices", row.Name,
				*p.Value, maxChoices)
		}
	case *float64:
		if *p = cmp.Or(*p, row.Fraction); !row.holds(*p) {
			return row.outOfRange(*p, "")
		}
	case *time.Duration:
		if !row.holds(p.Seconds()) {
			return row.outOfRange(*p, " seconds")
		}
	case Named:
		if p.Check != nil {
			return p.Check()
		}
	}
	return nil
}

func (row *Row[O]) check(v int64) error {
	if v < row.Min || v > row.Max {
		return row.outOfRange(v, "")
	}
	return nil
}

func (row *Row[O]) outOfRange(value any, unit string) error {
	return base.Invalidf("option %s = %v: want %d to %d%s", row.Name, value, row.Min, row.Max, unit)
}
