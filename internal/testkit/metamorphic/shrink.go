package metamorphic

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// shrink removes operations while the history still fails and patience lasts, and returns the rest
// with its failure.
func shrink(ops []op, failure error, patience time.Duration, fails func([]op) error) ([]op, error) {
	deadline := time.Now().Add(patience)
	var f *Failure
	if errors.As(failure, &f) && f.Index >= 0 && f.Index+1 < len(ops) {
		if err := fails(ops[:f.Index+1]); err != nil {
			ops, failure = ops[:f.Index+1], err
		}
	}
	for chunk := max(1, len(ops)/2); ; chunk = max(1, chunk/2) {
		removed := false
		for i := 0; i < len(ops) && time.Now().Before(deadline); {
			end := min(i+chunk, len(ops))
			less := append(append([]op(nil), ops[:i]...), ops[end:]...)
			if err := fails(less); err != nil {
				ops, failure, removed = less, err, true
			} else {
				i = end
			}
		}
		if chunk == 1 && !removed || !time.Now().Before(deadline) {
			return ops, failure
		}
	}
}

// Run generates the history of seed with n operations and runs it under each
// of the setups. The error of a history that fails holds the seed, the setup,
// and the shrunk history; shrinking takes at most patience.
func Run(seed int64, n, setups int, patience time.Duration) error {
	ops, cmp := generate(seed, n)
	for _, s := range Setups(seed, setups) {
		if err := run(ops, cmp, s); err != nil {
			return report(seed, n, s, ops, cmp, err, patience)
		}
	}
	return nil
}

func report(seed int64, n int, s Setup, ops []op, cmp *base.Comparer, failure error,
	patience time.Duration) error {
	short, last := shrink(ops, failure, patience, func(less []op) error {
		return run(less, cmp, s)
	})
	var b strings.Builder
	for _, o := range short[max(0, len(short)-200):] {
		b.WriteString("\n\t" + o.String())
	}
	return fmt.Errorf("seed %d, %d operations, options %q %+v, comparer %s: %w\nshrunk to %d "+
		"operations: %w%s",
		seed, n, s.Name, *s.options(0), cmp.Name, failure, len(short), last, b.String())
}
