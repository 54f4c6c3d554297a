package base

// The value of an entry of KindSetExpiring is that of the user and, behind it, the deadline:
// the second since 1970 from which on the key has no value, in DeadlineLen bytes,
// little-endian.
const (
	DeadlineLen = 5
	// MaxDeadline is the last deadline, in the year 19391.
	MaxDeadline = 1<<39 - 1
	// Relative is set in the deadline of an operation that has not been written yet, where the
	// rest is a time to live, in seconds. Log and tables have none: the write makes a deadline
	// of it.
	Relative = 1 << 39
)

// AppendDeadline appends a deadline to a value.
func AppendDeadline(dst []byte, deadline uint64) []byte {
	return append(dst, byte(deadline), byte(deadline>>8), byte(deadline>>16), byte(deadline>>24),
		byte(deadline>>32))
}

// CutDeadline splits the value of an entry of KindSetExpiring. ok is false where it has no
// deadline, which is damage.
func CutDeadline(value []byte) (user []byte, deadline uint64, ok bool) {
	n := len(value) - DeadlineLen
	if n < 0 {
		return nil, 0, false
	}
	d := value[n:]
	return value[:n:n], uint64(d[0]) | uint64(d[1])<<8 | uint64(d[2])<<16 | uint64(d[3])<<24 |
		uint64(d[4])<<32, true
}

// NoDeadline is the error for an entry of KindSetExpiring whose value is too short.
func NoDeadline() error { return Corruptf("value", "an entry that expires says not when") }
