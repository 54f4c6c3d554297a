package options

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

type settings struct {
	off   bool
	size  int64
	jobs  int
	ratio float64
	color uint8
	coats uint16
	shape string
}

var table = Table[settings]{
	{Name: "on", Doc: "a switch", Inverted: true, Field: func(s *settings) any { return &s.off }},
	{Name: "size", Doc: "a size", Unit: "bytes", Default: 64, Min: -1, Max: 1 << 20,
		NoneBelow: true, Field: func(s *settings) any { return &s.size }},
	{Name: "jobs", Doc: "goroutines", PerProcessor: true, Min: 1, Max: 256,
		Field: func(s *settings) any { return &s.jobs }},
	{Name: "ratio", Doc: "a fraction", Fraction: 1.5, Min: 1, Max: 10,
		Field: func(s *settings) any { return &s.ratio }},
	{Name: "color", Doc: "a choice", Default: 2, Max: 2, Field: func(s *settings) any {
		return Choice{&s.color, []string{"default", "red", "blue"}}
	}},
	{Name: "coats", Doc: "choices", Default: 2, Field: func(s *settings) any {
		return Choices{&s.coats, []string{"default", "red", "blue", "none"}}
	}},
	{Name: "shape", Doc: "an object", Field: func(s *settings) any { return shapeField(&s.shape) }},
}

// shapeField is an option whose objects are strings; "broken" cannot be used.
func shapeField(shape *string) Named {
	return Named{
		Default: "round",
		Name:    func() string { return *shape },
		Set: func(name string) error {
			if name != "round" && name != "broken" {
				return errors.New("want round or broken")
			}
			*shape = name
			return nil
		},
		Check: func() error {
			if *shape == "broken" {
				return fmt.Errorf("%w: a shape is not broken", base.ErrInvalidArgument)
			}
			return nil
		},
	}
}

func TestSet(t *testing.T) {
	var s settings
	for _, c := range []struct{ name, value, want string }{
		{"on", "false", ""}, {"size", "4 KiB", ""}, {"jobs", "3", ""}, {"ratio", "2.5", ""},
		{"color", "RED", ""}, {"coats", "red, NONE,blue", ""}, {"shape", "round", ""},
		{"on", "maybe", "true or false"}, {"size", "1G", "0 to 1048576"}, {"jobs", "0", "1 to 256"},
		{"ratio", "NaN", "1 to 10"}, {"color", "green", "red or blue"},
		{"coats", "red,", "red, blue or none, or up to 7"}, {"coats", "red,default", "up to 7"},
		{"coats", "red,red,red,red,red,red,red,red", "up to 7"},
		{"shape", "flat", "want round or broken"}, {"siz", "1", `"size"`},
	} {
		err := table.Set(&s, c.name, c.value)
		if (err == nil) != (c.want == "") || err != nil &&
			(!errors.Is(err, base.ErrInvalidArgument) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s = %s: %v; want %q", c.name, c.value, err, c.want)
		}
	}
	if want := (settings{off: true, size: 4 << 10, jobs: 3, ratio: 2.5, color: 1, coats: 1 | 3<<2 |
		2<<4, shape: "round"}); s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	if err := table.Set(&s, "size", "0"); err != nil || s.size != -1 {
		t.Errorf("none is %d, %v", s.size, err)
	}
}

func TestResolve(t *testing.T) {
	var s settings
	if err := table.Resolve(&s); err != nil || s.size != 64 || s.jobs < 2 || s.ratio != 1.5 ||
		s.color != 2 || s.coats != 2 {
		t.Errorf("defaults are %+v, %v", s, err)
	}
	for name, s := range map[string]settings{
		"size": {size: -2}, "jobs": {jobs: 257}, "ratio": {ratio: math.NaN()}, "color": {color: 3},
		"coats": {coats: 0b1101_0001}, "option coats": {coats: 1 << 14}, "coats =": {coats: 0b1100},
		"shape": {shape: "broken"},
	} {
		if err := table.Resolve(&s); !errors.Is(err, base.ErrInvalidArgument) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s out of range: %v", name, err)
		}
	}
}

// TestMoreProcessorsThanMost is a machine with more processors than an option may have.
func TestMoreProcessorsThanMost(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(300))
	var s settings
	if err := table.Resolve(&s); err != nil || s.jobs != 256 {
		t.Errorf("%d jobs, %v", s.jobs, err)
	}
	for _, d := range table.Docs() {
		if err := table.Set(&s, d.Name, d.Default); err != nil {
			t.Errorf("its own default: %v", err)
		}
	}
}

func TestDocs(t *testing.T) {
	want := map[string]string{"on": "true", "size": "64", "ratio": "1.5", "color": "blue",
		"coats": "blue", "shape": "round"}
	for _, d := range table.Docs() {
		if w := want[d.Name]; w != "" && d.Default != w {
			t.Errorf("%s: default %s, want %s", d.Name, d.Default, w)
		}
		if err := table.Set(new(settings), d.Name, d.Default); err != nil {
			t.Errorf("its own default: %v", err)
		}
		if d.Min < 0 {
			t.Errorf("%s: by name it takes %d", d.Name, d.Min)
		}
	}
}
