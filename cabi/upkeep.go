//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/loamdb/loam/lsm"
)

// multiGets are the buffers of multi_get.
var multiGets = sync.Pool{New: func() any { return new(multiGet) }}

type multiGet struct {
	keys   [][]byte
	result lsm.MultiResult

	apart bool // values are in buf and ends instead of result
	buf   []byte
	ends  []int // where each value ends in buf; negative: there is none
}

// each looks up the keys one by one, for the flags that MultiGet has not.
func (m *multiGet) each(d *database, s *lsm.Snapshot, flags C.uint64_t) error {
	if s == nil {
		s = d.Snapshot()
		defer s.Close()
	}
	m.apart, m.buf, m.ends = true, m.buf[:0], m.ends[:0]
	for _, key := range m.keys {
		v, err := lookup(d, s, key, m.buf, flags)
		switch {
		case errors.Is(err, lsm.ErrNotFound):
			m.ends = append(m.ends, -1-len(m.buf))
			continue
		case err != nil:
			return err
		}
		m.buf = v
		m.ends = append(m.ends, len(v))
	}
	return nil
}

// value returns the value of key i; found is false when it has none.
func (m *multiGet) value(i int) (value []byte, found bool) {
	if !m.apart {
		return m.result.Value(i)
	}
	start, end := 0, m.ends[i]
	if end < 0 {
		return nil, false
	}
	if i > 0 {
		start = m.ends[i-1]
		if start < 0 {
			start = -1 - start
		}
	}
	return m.buf[start:end:end], true
}

// loamgo_multi_get looks up n keys and lays the values into one malloc'ed
// block, each followed by a zero byte.
//
//export loamgo_multi_get
func loamgo_multi_get(db, snap C.uint64_t, n C.size_t, keys *unsafe.Pointer, keyLens *C.size_t, flags C.uint64_t, values *unsafe.Pointer, valueLens *C.size_t, memory *unsafe.Pointer, message **C.char) status {
	return run(message, func() error {
		d, s, err := open(db, snap)
		if err != nil || n == 0 {
			return err
		}
		m := multiGets.Get().(*multiGet)
		defer func() {
			clear(m.keys) // C's memory is not to be kept
			multiGets.Put(m)
		}()
		m.keys, m.apart = m.keys[:0], false
		lens := unsafe.Slice(keyLens, int(n))
		for i, key := range unsafe.Slice(keys, int(n)) {
			m.keys = append(m.keys, span(key, lens[i]))
		}
		switch {
		case flags != 0:
			err = m.each(d, s, flags)
		case s != nil:
			err = s.MultiGet(m.keys, &m.result)
		default:
			err = d.MultiGet(m.keys, &m.result)
		}
		if err != nil {
			return err
		}
		total := 1
		for i := range int(n) {
			v, _ := m.value(i)
			total += len(v) + 1
		}
		block := C.loamgo_alloc(C.size_t(total))
		if block == nil {
			return lsm.ErrNoMemory
		}
		*memory = block
		bytes := unsafe.Slice((*byte)(block), total)
		lengths := unsafe.Slice(valueLens, int(n))
		// Stored as integers: the caller's array may hold anything before.
		places := unsafe.Slice((*uintptr)(unsafe.Pointer(values)), int(n))
		used := 0
		for i := range places {
			v, found := m.value(i)
			places[i], lengths[i] = 0, C.size_t(len(v))
			if found {
				places[i] = uintptr(block) + uintptr(used)
				used += copy(bytes[used:], v)
				bytes[used] = 0
				used++
			}
		}
		return nil
	})
}

//export loamgo_approximate_sizes
func loamgo_approximate_sizes(db C.uint64_t, n C.size_t, starts *unsafe.Pointer, startLens *C.size_t, stops *unsafe.Pointer, stopLens *C.size_t, sizes *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, err := get[*database](db, kindDB)
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
		d, err := get[*database](db, kindDB)
		if err != nil {
			return err
		}
		switch what {
		case C.LOAMGO_FLUSH:
			return d.Flush()
		case C.LOAMGO_PAUSE:
			d.PauseCompaction()
		case C.LOAMGO_UNPAUSE:
			d.ResumeCompaction()
		case C.LOAMGO_RETRY:
			return d.Resume()
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
		d, err := get[*database](db, kindDB)
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
			return giveJSON(plain(reflect.ValueOf(d.RecoveryReport())), out)
		case C.LOAMGO_COMPARATOR:
			return give(d.comparer, out)
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
		if docs[i].Name == "create_dirs" {
			docs[i].Default = strconv.FormatBool(!unset().NoCreateDirs)
		}
	}
	return docs
}

func giveJSON(v any, out **C.char) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return give(string(b), out)
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
