package machine

import (
	"bytes"
	"os"
	"strconv"
)

// pages reads the resident set.
func pages() (Pages, bool) {
	p, _, known := status()
	return p, known
}

// countedPeak is the largest resident set by the kernel's count.
func countedPeak() (int64, bool) {
	_, peak, known := status()
	return peak, known
}

// status allocates little: it runs beside benchmarks.
func status() (p Pages, peak int64, known bool) {
	b, err := os.ReadFile("/proc/self/status")
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "RssAnon":
			p.Anon = kilobytes(value)
		case "RssFile":
			p.File = kilobytes(value)
		case "RssShmem":
			p.Shmem = kilobytes(value)
		case "VmHWM":
			peak = kilobytes(value)
		}
	}
	return p, peak, err == nil && p.Anon > 0
}

// kilobytes is a size in bytes; 0 where the text is none.
func kilobytes(text []byte) int64 {
	text, _ = bytes.CutSuffix(bytes.TrimSpace(text), []byte(" kB"))
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return n << 10
}

// resetPeak begins that count anew.
func resetPeak() bool {
	f, err := os.OpenFile("/proc/self/clear_refs", os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	_, err = f.WriteString("5")
	return err == nil && f.Close() == nil
}
