//go:build cgo

// Package sqlite reads files of SQLite for importers. A table becomes the keyspace of its name.
//
// A key is made of the primary key, which is one column: text and blobs are their bytes, integers
// 8 bytes, the high one first and the sign turned, so that keys have the table's order. Where the
// table has one more column, a value is the text or the blob in it, and of numbers their text.
// Of more columns a value is a JSON object; a blob in it is {"base64": "..."}.
package sqlite

import (
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-sqlite3"

	"github.com/loamdb/loam/importers"
)

// table is a table that can be read.
type table struct {
	key     string   // an expression
	columns []string // the others
}

// rowid is the expression for the rowid of a table with such columns, "" if they have all names of
// that.
func rowid(columns []string) string {
	for _, name := range []string{"rowid", "_rowid_", "oid"} {
		taken := func(column string) bool { return strings.EqualFold(column, name) }
		if !slices.ContainsFunc(columns, taken) {
			return name // without quotes: a quoted name that there is not would be a text
		}
	}
	return ""
}

type source struct {
	db     *sql.DB
	tx     *sql.Tx
	names  importers.Names
	tables map[string]table
	named  map[string]string // the table by the keyspace
}

// Open opens the file at path. It is an importers.Open.
func Open(path string, _ importers.Options) (importers.Source, error) {
	if err := importers.Regular(path); err != nil {
		return nil, err
	}
	// A relative name may have a meaning of its own, as ":memory:" does.
	file, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	at := url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(),
		RawQuery: "mode=ro&_query_only=1&_busy_timeout=1000"}
	db, err := sql.Open("sqlite3", at.String())
	if err != nil {
		return nil, err
	}
	s := &source{db: db, tables: map[string]table{}, named: map[string]string{}}
	if s.tx, err = db.Begin(); err == nil {
		err = s.findTables()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w%s", path, err, advice(err)), s.Close())
	}
	return s, nil
}

// advice says what to do where SQLite itself would have to write.
func advice(err error) string {
	if e := (sqlite3.Error{}); errors.As(err, &e) && e.Code == sqlite3.ErrReadonly {
		return "; open it with SQLite once, which rolls back a transaction that was not " +
			"finished, or copy it with its -wal into a directory that you can write to"
	}
	return ""
}

// strings reads a column of text.
func (s *source) strings(query string, args ...any) (all []string, err error) {
	rows, err := s.tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// findTables reads the schema, and fails for a table that has no key of one column.
func (s *source) findTables() error {
	tables, err := s.strings("SELECT name FROM sqlite_schema WHERE type = 'table' AND " +
		`name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`)
	if err != nil {
		return err
	}
	for _, t := range tables {
		keys, err := s.strings("SELECT name FROM pragma_table_xinfo(?) WHERE pk > 0", t)
		if err != nil { // as of a virtual table whose module this program does not have
			return fmt.Errorf("the table %q: %w", t, err)
		}
		columns, err := s.strings(
			"SELECT name FROM pragma_table_xinfo(?) WHERE pk = 0 AND hidden = 0 ORDER BY cid", t)
		if err != nil {
			return err
		}
		for _, name := range columns { // JSON would have the same name for several
			if !utf8.ValidString(name) {
				return importers.Unsupported("the column %q of the table %q is not UTF-8", name, t)
			}
		}
		key := ""
		switch {
		case len(keys) > 1:
			return importers.Unsupported("the table %q has a primary key of %d columns", t,
				len(keys))
		case len(keys) == 1:
			key = quoted(keys[0])
		default:
			all, err := s.strings("SELECT name FROM pragma_table_xinfo(?)", t)
			if err != nil {
				return err
			}
			if key = rowid(all); key == "" {
				return importers.Unsupported("the table %q has columns of all names of the rowid",
					t)
			}
		}
		name, err := importers.Name([]byte(t))
		if err == nil {
			err = s.names.Add(name)
		}
		if err != nil {
			return err
		}
		s.tables[name], s.named[name] = table{key, columns}, t
	}
	return nil
}

func (s *source) Spaces() []string { return s.names.All }

// quoted is a name in a statement.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func (s *source) Each(space string, visit func(importers.Entry) error) error {
	t := s.tables[space]
	// An expression has no declared type, by which the driver would change values.
	selected := []string{"+" + t.key}
	for _, c := range t.columns {
		selected = append(selected, "+"+quoted(c))
	}
	rows, err := s.tx.Query("SELECT " + strings.Join(selected, ", ") + " FROM " +
		quoted(s.named[space]))
	if err != nil {
		return err
	}
	defer rows.Close()
	row, into := make([]any, len(selected)), make([]any, len(selected))
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		key, err := keyOf(row[0])
		if err != nil {
			return fmt.Errorf("column %s: %w", t.key, err)
		}
		value, err := valueOf(t.columns, row[1:])
		if err != nil {
			return fmt.Errorf("the row of the key %q: %w", key, err)
		}
		if err := visit(importers.Entry{Key: key, Value: value}); err != nil {
			return err
		}
	}
	return rows.Err()
}

func keyOf(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	case int64:
		return binary.BigEndian.AppendUint64(nil, uint64(v)^1<<63), nil
	}
	return nil, importers.Unsupported("a key that is %v: neither text nor blob nor integer", v)
}

// valueOf is the value of a row with these columns.
func valueOf(columns []string, row []any) ([]byte, error) {
	if len(row) == 0 {
		return nil, nil
	}
	if len(row) > 1 {
		object := make(map[string]any, len(row))
		for i, v := range row {
			switch b := v.(type) {
			case []byte:
				v = map[string]string{"base64": base64.StdEncoding.EncodeToString(b)}
			case string:
				if !utf8.ValidString(b) {
					return nil, importers.Unsupported("text that is not UTF-8 in the column %q",
						columns[i])
				}
			case float64:
				if math.IsInf(b, 0) || math.IsNaN(b) {
					return nil, importers.Unsupported("%v in the column %q", b, columns[i])
				}
			}
			object[columns[i]] = v
		}
		return json.Marshal(object)
	}
	switch v := row[0].(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	case int64:
		return strconv.AppendInt(nil, v, 10), nil
	case float64:
		return strconv.AppendFloat(nil, v, 'g', -1, 64), nil
	}
	return nil, importers.Unsupported("%v in the column %q, beside no other column", row[0],
		columns[0])
}

func (s *source) Close() error {
	var err error
	if s.tx != nil {
		err = s.tx.Rollback()
	}
	return errors.Join(err, s.db.Close())
}
