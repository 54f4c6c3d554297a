package base

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"
)

func TestShortages(t *testing.T) {
	for no, want := range map[syscall.Errno]error{
		syscall.ENOSPC: ErrNoSpace, syscall.EDQUOT: ErrNoSpace, syscall.EFBIG: ErrNoSpace,
		syscall.EMFILE: ErrTooManyFiles, syscall.ENFILE: ErrTooManyFiles,
		syscall.ENOMEM: ErrNoMemory, syscall.EIO: nil, syscall.EROFS: nil, syscall.EACCES: nil,
	} {
		err := fmt.Errorf("writing: %w", &fs.PathError{Op: "append", Path: "000001.log", Err: no})
		if got := IsShortage(err); got != (want != nil) {
			t.Errorf("%v: a shortage: %v", no, got)
		}
		typed := Classify(err)
		if want == nil {
			if typed != err {
				t.Errorf("%v: became %v", no, typed)
			}
			continue
		}
		var path *fs.PathError
		if !errors.Is(typed, want) || !errors.Is(typed, no) || !errors.As(typed, &path) ||
			!IsShortage(typed) {
			t.Errorf("%v: became %v", no, typed)
		}
		if again := Classify(fmt.Errorf("outer: %w", typed)); !errors.Is(again, want) ||
			again.Error() != "outer: "+typed.Error() {
			t.Errorf("%v: classified twice: %v", no, again)
		}
	}
	if IsShortage(nil) || Classify(nil) != nil || IsShortage(io.ErrShortWrite) ||
		!IsShortage(ErrNoMemory) {
		t.Error("nil, a short write or a sentinel itself is taken for something else")
	}
}
