package iters

import "encoding/binary"

// AppendForward appends entries of the present span to dst, from the present one on,
// each as key length, value length (32 bits, little-endian), key, value. It stops after
// the given number of entries, and when dst has limit bytes. It moves to the last entry
// appended and returns how many there were. Without values, values are left out and have
// length 0.
//
// REQUIRES: Valid, entries > 0, len(dst) < limit.
func (c *Cursor) AppendForward(dst []byte, entries, limit int, values bool) ([]byte, int) {
	return c.appendSpan(dst, entries, limit, values, 1, c.hi)
}

// AppendBackward is AppendForward towards the beginning of the span.
func (c *Cursor) AppendBackward(dst []byte, entries, limit int, values bool) ([]byte, int) {
	return c.appendSpan(dst, entries, limit, values, -1, c.lo-1)
}

func (c *Cursor) appendSpan(dst []byte, entries, limit int, values bool, step,
	stop int) ([]byte, int) {
	if values && c.apart != nil {
		key := c.Key()
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(key))|uint64(len(c.apart))<<32)
		return append(append(dst, key...), c.apart...), 1
	}
	e, i, n := c.e, c.at, 0
	for {
		from, mid := e.KeyOff[i], e.ValOff[i]
		to := mid
		if values {
			to = e.ValEnd[i]
		}
		dst = binary.LittleEndian.AppendUint64(dst, uint64(mid-from)|uint64(to-mid)<<32)
		dst = append(dst, e.Data[from:to]...) // the value lies behind the key
		n++
		if n == entries || len(dst) >= limit || i+step == stop {
			break
		}
		i += step
	}
	c.at = i
	return dst, n
}
