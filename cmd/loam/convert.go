package main

import (
	"github.com/spf13/cobra"

	"github.com/loamdb/loam/lsm"
)

func (a *app) convertVerb() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "convert DIR NEW",
		Short: "Copy a database into a new one of either format",
		Long: "Write what the database in DIR holds into a new database NEW, in the native " +
			"format or in LevelDB's.\nDIR stays as it is. Nothing is left of a conversion that " +
			"failed or was interrupted.",
		Example: "  loam convert --format leveldb trees trees.leveldb\n" +
			"  loam convert --format native chrome.leveldb copy",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			formats := map[string]lsm.Format{"native": lsm.FormatNative,
				"leveldb": lsm.FormatLevelDB}
			format, ok := formats[to]
			if !ok {
				return usagef("%q is no format; want native or leveldb", to)
			}
			o, err := a.options(args[0])
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			p := a.progress("converting", 0)
			defer p.end()
			// The sum of keys and values is not known before.
			return lsm.Export(ctx, args[0], args[1], format, o, func(written, _ uint64) {
				p.at(written)
			})
		},
	}
	c.Flags().StringVar(&to, "format", "native", "native or leveldb")
	return c
}

func (a *app) upgradeVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "upgrade DIR",
		Short: "Make a LevelDB directory a native one, in place",
		Long: "Make the LevelDB database in DIR a native one. Tables stay as they are until a " +
			"compaction meets\nthem, so it takes about as long as opening. There is no way back " +
			"but \"loam convert\".",
		Example: "  loam upgrade leveldb\n  loam backup leveldb /backups && loam upgrade leveldb",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o, err := a.options(args[0])
			if err != nil {
				return err
			}
			return lsm.Upgrade(args[0], o)
		},
	}
}
