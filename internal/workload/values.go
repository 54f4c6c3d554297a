package workload

// valuePool is how much value data is made and then used over and over: more
// than any compressor's window.
const valuePool = 1 << 20

// ValueData is a pool of bytes that compress to a given fraction. It is
// constant once made and may be shared by goroutines.
type ValueData struct{ data []byte }

// NewValueData makes the pool that LevelDB's benchmark makes: stretches of 100
// bytes, the first ratio*100 of them random printable characters, repeated to
// fill the stretch; seeded with 301. maxValue is the longest value asked for.
func NewValueData(ratio float64, maxValue int) *ValueData {
	const stretch = 100
	size := max(valuePool, 2*maxValue)
	data := make([]byte, 0, size+stretch)
	rnd := NewRand(301)
	raw := min(max(int(stretch*ratio), 1), stretch)
	for len(data) < size {
		start := len(data)
		for range raw {
			data = append(data, ' '+byte(rnd.Uniform(95)))
		}
		for n := stretch - raw; n > 0; {
			m := min(n, raw)
			data = append(data, data[start:start+m]...)
			n -= m
		}
	}
	return &ValueData{data}
}

// Values hands out consecutive slices of the pool, from its start again when
// the rest is too short.
type Values struct {
	data []byte
	pos  int
}

// Values returns a reader of the pool that starts at its beginning.
func (d *ValueData) Values() Values { return Values{data: d.data} }

// Next returns n bytes, which the caller must not change. n is at most the
// maxValue that the pool was made for.
func (v *Values) Next(n int) []byte {
	if v.pos+n > len(v.data) {
		v.pos = 0
	}
	v.pos += n
	return v.data[v.pos-n : v.pos : v.pos]
}

// Fits reports whether values of n bytes can be taken from the pool.
func (d *ValueData) Fits(n int) bool { return 2*n <= len(d.data) }
