// Package plain turns structs into maps and lists that encoding/json writes with the names of the
// JSON interface.
package plain

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Of is a report, such as lsm.Metrics, as maps and lists with snake_case names. Durations are
// nanoseconds (name_ns), keys hexadecimal digits, and errors their texts.
func Of(v any) any { return plain(reflect.ValueOf(v)) }

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
