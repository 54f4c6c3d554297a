//go:build cgo

package engines

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"github.com/loamdb/loam/bench/oltp/rows"
	"github.com/loamdb/loam/internal/workload/store"
	_ "github.com/mattn/go-sqlite3" // the driver
)

var sqlite = []Engine{{"sqlite", "SQLite", "github.com/mattn/go-sqlite3",
	store.SurvivesKill, []string{
		"SQL: a table with an index, prepared statements; the WAL, synchronous=FULL; one " +
			"connection writes"},
	openSQLite}}

// sqliteTable has the connections and statements of the table.
type sqliteTable struct {
	reads, writes                         *sql.DB
	point, span, setC, addK, insert, drop *sql.Stmt
}

func openSQLite(dir string) (rows.Table, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	name := "file:" + (&url.URL{Path: filepath.Join(dir, "db")}).EscapedPath() +
		"?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=60000&_cache_size=-" +
		fmt.Sprint(cacheBytes>>10)
	t := &sqliteTable{}
	var err error
	if t.writes, err = sql.Open("sqlite3", name); err != nil {
		return nil, err
	}
	t.writes.SetMaxOpenConns(1)
	if _, err = t.writes.Exec(`CREATE TABLE sbtest (id INTEGER PRIMARY KEY, k INTEGER NOT NULL,
		c TEXT NOT NULL, pad TEXT NOT NULL); CREATE INDEX k ON sbtest(k)`); err != nil {
		return nil, errors.Join(err, t.writes.Close())
	}
	if t.reads, err = sql.Open("sqlite3", name); err != nil {
		return nil, errors.Join(err, t.writes.Close())
	}
	// More readers than processors only wait for each other.
	t.reads.SetMaxOpenConns(runtime.GOMAXPROCS(0))
	t.reads.SetMaxIdleConns(runtime.GOMAXPROCS(0))
	for _, s := range []struct {
		to   **sql.Stmt
		db   *sql.DB
		text string
	}{
		{&t.point, t.reads, "SELECT c FROM sbtest WHERE id = ?"},
		{&t.span, t.reads, "SELECT c FROM sbtest WHERE id >= ? AND id < ?"},
		{&t.setC, t.writes, "UPDATE sbtest SET c = ? WHERE id = ?"},
		{&t.addK, t.writes, "UPDATE sbtest SET k = k + 1 WHERE id = ?"},
		{&t.insert, t.writes, "INSERT INTO sbtest (id, k, c, pad) VALUES (?, ?, ?, ?)"},
		{&t.drop, t.writes, "DELETE FROM sbtest WHERE id = ?"},
	} {
		if *s.to, err = s.db.Prepare(s.text); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	return t, nil
}

func (t *sqliteTable) Conflicts() int64 { return 0 }
func (t *sqliteTable) Close() error     { return errors.Join(t.reads.Close(), t.writes.Close()) }

func (t *sqliteTable) Load(ctx context.Context, all []rows.Row) error {
	tx, err := t.writes.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	insert := tx.StmtContext(ctx, t.insert)
	for _, r := range all {
		if _, err := insert.ExecContext(ctx, r.ID, r.K, string(r.C), string(r.Pad)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (t *sqliteTable) Point(ctx context.Context, _ int, id int64) (c []byte, err error) {
	err = t.point.QueryRowContext(ctx, id).Scan(&c)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, rows.ErrMissing
	}
	return c, err
}

func (t *sqliteTable) Range(ctx context.Context, _ int, first, end int64) (n int, err error) {
	r, err := t.span.QueryContext(ctx, first, end)
	if err != nil {
		return 0, err
	}
	var c sql.RawBytes
	for err == nil && r.Next() {
		err = r.Scan(&c)
		n++
	}
	return n, errors.Join(err, r.Err(), r.Close())
}

// changed runs a statement on one row.
func changed(ctx context.Context, s *sql.Stmt, args ...any) (bool, error) {
	r, err := s.ExecContext(ctx, args...)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

func (t *sqliteTable) SetC(ctx context.Context, _ int, id int64, c []byte) (bool, error) {
	return changed(ctx, t.setC, string(c), id)
}

func (t *sqliteTable) AddK(ctx context.Context, _ int, id int64) (bool, error) {
	return changed(ctx, t.addK, id)
}

func (t *sqliteTable) Insert(ctx context.Context, _ int, r rows.Row) error {
	_, err := changed(ctx, t.insert, r.ID, r.K, string(r.C), string(r.Pad))
	return err
}

func (t *sqliteTable) Delete(ctx context.Context, _ int, id int64) (bool, error) {
	return changed(ctx, t.drop, id)
}

func (t *sqliteTable) Check(ctx context.Context) (n int64, err error) {
	var verdict string
	if err := t.reads.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&verdict); err != nil {
		return 0, err
	}
	if verdict != "ok" {
		return 0, errors.New(verdict)
	}
	return n, t.reads.QueryRowContext(ctx, "SELECT count(*) FROM sbtest").Scan(&n)
}
