package main

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/lsm"
)

// encryptionEnv is the environment variable that has what --encryption takes.
const encryptionEnv = "LOAM_ENCRYPTION"

// readKeys reads the keys of --encryption, or those of the shell or the environment.
func (a *app) readKeys() error {
	value := cmp.Or(a.encryption, a.outer, os.Getenv(encryptionEnv))
	if value == "" {
		return nil
	}
	var o lsm.Options
	if err := o.Set("encryption", value); err != nil {
		return usagef("%v", err)
	}
	a.keys = o.Encryption
	return nil
}

// files is the operating system's file system for verbs that read files of the database in dir by
// hand: encrypted ones are opened with the keys.
func (a *app) files(dir string) lsm.FS { return a.sealed(lsm.OSFS(), dir) }

// sealed is files above another file system.
func (a *app) sealed(fsys lsm.FS, dir string) lsm.FS {
	var keys *seal.Keys // nil: an encrypted file is lsm.ErrEncryption
	if a.keys != nil {
		keys = seal.NewKeys(a.keys, true)
	}
	return seal.Over(fsys, dir, keys)
}

// keyUse is a key of the files of a directory.
type keyUse struct {
	Provider string `json:"provider"`
	ID       string `json:"id"`
	Files    int    `json:"files"`
}

func (a *app) rekeyVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "rekey DIR",
		Short: "Encrypt all files with the current key",
		Long: "Encrypt all files of the database in DIR with the first key of --encryption, and " +
			"say which keys its\nfiles have then. Older keys, with which files are encrypted " +
			"now, stand behind it in the key file.\nA database that is not encrypted becomes an " +
			"encrypted one. An interrupted rekey goes on where it was.",
		Example: "  openssl rand -hex 32 > keys && loam rekey --encryption file:keys trees\n" +
			"  (openssl rand -hex 32; cat keys) > new && loam rekey --encryption file:new trees",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.keys == nil {
				return usagef("rekey needs --encryption, or %s", encryptionEnv)
			}
			o, err := a.options(args[0])
			if err != nil {
				return err
			}
			o.CacheSize, o.AllowClear = 0, true
			ctx, stop := interruptible(cmd)
			defer stop()
			db, err := lsm.Open(args[0], o)
			if err != nil {
				return err
			}
			a.tell(db)
			if err = db.Rekey(ctx); err == nil {
				err = a.printKeys(db)
			}
			if cerr := db.Close(); err == nil {
				err = cerr
			}
			return err
		},
	}
}

// printKeys prints the keys of a database's files.
func (a *app) printKeys(db *lsm.DB) error {
	uses, err := db.KeysInUse()
	if err != nil {
		return err
	}
	for _, u := range uses {
		if a.json {
			err = a.printJSON(keyUse(u))
		} else if u.ID == "" {
			err = a.printf("%s not encrypted\n", text.Plural(u.Files, "file"))
		} else {
			err = a.printf("%s with key %s of %q\n", text.Plural(u.Files, "file"), u.ID,
				u.Provider)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
