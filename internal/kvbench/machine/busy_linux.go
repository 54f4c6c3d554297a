package machine

import (
	"strconv"
	"strings"
	"time"
)

// BusyCores watches for a moment how many cores are at work; this process
// sleeps meanwhile; negative: unknown. Time that the hypervisor took is work of others.
func BusyCores() float64 {
	const moment = 200 * time.Millisecond
	before, ok := busyTicks()
	if !ok {
		return -1
	}
	start := time.Now()
	time.Sleep(moment)
	after, ok := busyTicks()
	if !ok {
		return -1
	}
	const ticksPerSecond = 100 // USER_HZ, fixed on Linux
	return float64(after-before) / ticksPerSecond / time.Since(start).Seconds()
}

// busyTicks adds up user, nice, system, irq, softirq and steal.
func busyTicks() (int64, bool) {
	f := strings.Fields(firstLine("/proc/stat"))
	if len(f) < 9 {
		return 0, false
	}
	var sum int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0, false
		}
		sum += n
	}
	return sum, true
}
