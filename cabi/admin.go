//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/loamdb/loam/lsm"
)

//export loamgo_approximate_sizes
func loamgo_approximate_sizes(db C.uint64_t, n C.size_t, starts *unsafe.Pointer, startLens *C.size_t, stops *unsafe.Pointer, stopLens *C.size_t, sizes *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, err := live(db)
		if err != nil || n == 0 {
			return err
		}
		count := int(n)
		sl, ll := unsafe.Slice(startLens, count), unsafe.Slice(stopLens, count)
		ranges := make([]lsm.Range, count)
		for i := range ranges {
			ranges[i] = lsm.Range{
				Start: bound(unsafe.Slice(starts, count)[i], sl[i]),
				Limit: bound(unsafe.Slice(stops, count)[i], ll[i]),
			}
		}
		got, err := d.ApproximateSizes(ranges)
		if err != nil {
			return err
		}
		out := unsafe.Slice(sizes, count)
		for i := range out {
			out[i] = C.uint64_t(got[i])
		}
		return nil
	})
}

// loamgo_admin is the upkeep that takes a database alone.
//
//export loamgo_admin
func loamgo_admin(db C.uint64_t, what C.uint, message **C.char) status {
	return run(message, func() error {
		d, err := live(db)
		if err != nil {
			return err
		}
		switch what {
		case C.LOAMGO_FLUSH:
			return d.Flush()
		case C.LOAMGO_PAUSE:
			d.db.PauseCompaction()
		case C.LOAMGO_UNPAUSE:
			d.db.ResumeCompaction()
		case C.LOAMGO_RETRY:
			return d.db.Resume()
		case C.LOAMGO_VERIFY:
			return d.db.Verify(context.Background(), nil)
		}
		return nil
	})
}

// loamgo_text answers the questions whose answer is a string.
//
//export loamgo_text
func loamgo_text(db C.uint64_t, what C.uint, name *C.char, out **C.char, message **C.char) status {
	return run(message, func() error {
		if what == C.LOAMGO_OPTION_DOCS {
			return giveJSON(plain(reflect.ValueOf(optionDocs())), out)
		}
		d, err := live(db)
		if err != nil {
			return err
		}
		switch what {
		case C.LOAMGO_METRICS:
			m := plain(reflect.ValueOf(d.Metrics())).(map[string]any)
			m["logger_error"] = nil
			if d.logger != nil {
				if f := d.logger.failure.Load(); f != nil {
					m["logger_error"] = f.Reason
				}
			}
			return giveJSON(m, out)
		case C.LOAMGO_RECOVERY:
			return giveJSON(plain(reflect.ValueOf(d.db.RecoveryReport())), out)
		case C.LOAMGO_KEYSPACES:
			return giveJSON(d.db.Keyspaces(), out)
		case C.LOAMGO_COMPARATOR:
			return give(d.Comparer().Name, out)
		}
		v, ok := d.Property(C.GoString(name))
		if !ok {
			return lsm.ErrNotFound
		}
		return give(v, out)
	})
}

// optionDocs lists the options that can be chosen in C, with their defaults there.
func optionDocs() []lsm.OptionDoc {
	docs := slices.DeleteFunc(lsm.OptionDocs(), func(d lsm.OptionDoc) bool { return d.Name == "plain_wal" })
	for i := range docs {
		switch docs[i].Name {
		case "create_dirs":
			docs[i].Default = strconv.FormatBool(!unset().NoCreateDirs)
		case "mmap":
			docs[i].Default = unset().Mmap.String()
		}
	}
	return docs
}

func giveJSON(v any, out **C.char) error {
	s, err := marshal(v)
	if err != nil {
		return err
	}
	return give(s, out)
}

func marshal(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// plain turns a report into maps and lists with snake_case names, durations
// into nanoseconds (name_ns), keys into hexadecimal digits, and errors into
// their text.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if err, ok := v.Interface().(error); ok {
			return err.Error()
		}
		return plain(v.Elem())
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Struct:
		m := make(map[string]any, v.NumField())
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name := snake(f.Name)
			if f.Type == reflect.TypeFor[time.Duration]() {
				name += "_ns"
			}
			m[name] = plain(v.Field(i))
		}
		return m
	case reflect.Slice, reflect.Array:
		if v.Type() == reflect.TypeFor[[]byte]() {
			return hex.EncodeToString(v.Bytes())
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case reflect.Map:
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			m[fmt.Sprint(it.Key().Interface())] = plain(it.Value())
		}
		return m
	}
	return v.Interface()
}

// snake turns WriteDelayPerKiB into write_delay_per_kib.
func snake(name string) string {
	name = strings.ReplaceAll(name, "KiB", "Kib")
	var b strings.Builder
	upper := func(i int) bool { return i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
	for i := range len(name) {
		if i > 0 && upper(i) && (!upper(i-1) || i+1 < len(name) && !upper(i+1)) {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(name[i : i+1]))
	}
	return b.String()
}
