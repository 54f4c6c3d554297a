package manifest

import (
	"errors"
	"fmt"
	"io"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
)

// CheckLog returns err, or a *base.Corruption that says more: the file f, which has a MANIFEST's
// name, is a log. Readers of a MANIFEST in which they found no edit ask it; err is what they met.
// As edits the batches of a log have unknown tags, among them those of other engines and of newer
// versions. A native log is known by its first chunk, one of LevelDB's format by its first whole
// record, which is a batch and no edit. A log without a record is not known as one.
func CheckLog(f vfs.ReadFile, name string, format base.Format, err error) error {
	if err != nil && !errors.Is(err, base.ErrCorruption) && !errors.Is(err, base.ErrNewerFormat) &&
		!errors.Is(err, base.ErrNotADatabase) {
		return err // could not read
	}
	reason, rerr := logReason(f, name, format)
	switch {
	case rerr != nil:
		return errors.Join(err, fmt.Errorf("reading %s: %w", name, rerr))
	case reason != "":
		return base.Corruptf(kindManifest, "%s", reason).At(name, 0, f.Size())
	}
	return err
}

// logReason is "" if the file is not known to be a log.
func logReason(f vfs.ReadFile, name string, format base.Format) (string, error) {
	b, begun, err := record.ReadBegin(f)
	if err != nil {
		return "", err
	}
	if begun {
		return fmt.Sprintf("the file is log %06d, not a MANIFEST", b.Num), nil
	}
	r := record.NewReader(f, f.Size(), name)
	rec, err := r.Next()
	for errors.Is(err, base.ErrCorruption) && r.Resume() {
		rec, err = r.Next()
	}
	switch {
	case err == io.EOF || errors.Is(err, base.ErrCorruption):
		return "", nil
	case err != nil:
		return "", err
	}
	if IsBatch(rec, format) {
		return "the file is a log, not a MANIFEST", nil
	}
	return "", nil
}

// IsBatch reports whether a record is the batch of a log of LevelDB's format, and no edit.
func IsBatch(rec []byte, format base.Format) bool {
	var e Edit
	return batchrepr.Validate(rec, nil) == nil && e.Decode(rec, format) != nil
}
