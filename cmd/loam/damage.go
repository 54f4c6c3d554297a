package main

import (
	"fmt"

	"github.com/loamdb/loam/cmd/loam/internal/damage"
	"github.com/loamdb/loam/lsm"
)

// tell says which parts of logs an opening left out. The verb has exit code 1 then: what it shows,
// writes or copies lacks their entries.
func (a *app) tell(db *lsm.DB) {
	r := db.RecoveryReport()
	if parts := damage.LeftOut(&r); parts != nil {
		a.lacks = true
		fmt.Fprintln(a.err, "loam: left out,", damage.List(parts))
	}
}

// tellOf is tell of a directory that a call is about to open by itself.
func (a *app) tellOf(dir string) error {
	db, err := a.openAlone(dir)
	if err != nil {
		return err
	}
	a.tell(db)
	return db.Close()
}

// unreadable makes damage a problem, exit code 1; another error stays what it is.
func (a *app) unreadable(err error) error {
	if found := damage.Of(err); found != nil {
		if a.json {
			if err := a.printJSON(map[string]any{"damage": found}); err != nil {
				return err
			}
		}
		return &problem{damage.List(found)}
	}
	return err
}
