package base

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// Shortages: the operation would succeed if the system had more of something.
// They make nothing read-only, and heal when there is more.
var (
	ErrNoSpace      = errors.New("no space left on disk")
	ErrNoMemory     = errors.New("out of memory")
	ErrTooManyFiles = errors.New("too many open files")
)

// shortages are the sentinels with the system's errors that they stand for.
var shortages = []struct {
	sentinel error
	errnos   []syscall.Errno
}{
	{ErrNoSpace, errnosNoSpace},
	{ErrTooManyFiles, errnosTooManyFiles},
	{ErrNoMemory, errnosNoMemory},
}

// shortageOf returns the sentinel that err is or stands for, or nil.
func shortageOf(err error) error {
	for i := range shortages {
		if errors.Is(err, shortages[i].sentinel) {
			return shortages[i].sentinel
		}
	}
	var no syscall.Errno
	if !errors.As(err, &no) {
		return nil
	}
	for i := range shortages {
		if slices.Contains(shortages[i].errnos, no) {
			return shortages[i].sentinel
		}
	}
	return nil
}

// IsShortage reports whether err is a lack of disk space, memory or
// descriptors: ErrNoSpace, ErrNoMemory or ErrTooManyFiles, or an error number
// of the system with that meaning.
func IsShortage(err error) bool { return err != nil && shortageOf(err) != nil }

// Classify adds the sentinel to an error number of the system that means a
// shortage. Other errors, nil too, pass through unchanged. errors.Is and
// errors.As go on finding the cause.
func Classify(err error) error {
	if err == nil {
		return nil
	}
	sentinel := shortageOf(err)
	if sentinel == nil || errors.Is(err, sentinel) {
		return err
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}
