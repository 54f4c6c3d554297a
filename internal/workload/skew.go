package workload

import "math"

// Permutation takes the numbers [0, n) to themselves in an order that looks
// random, without memory: a Feistel network over the next power of four,
// walked until it is back below n.
type Permutation struct {
	n    uint64
	half uint
	mask uint64
	keys [4]uint64
}

// NewPermutation returns the permutation of [0, n) for a seed.
func NewPermutation(n uint64, seed uint32) Permutation {
	p := Permutation{n: n, half: 1}
	for p.half < 32 && uint64(1)<<(2*p.half) < n {
		p.half++
	}
	p.mask = 1<<p.half - 1
	for i := range p.keys {
		p.keys[i] = mix(uint64(seed)<<8 | uint64(i))
	}
	return p
}

// At returns where i goes; i is less than n.
func (p *Permutation) At(i uint64) uint64 {
	for {
		left, right := i>>p.half, i&p.mask
		for _, k := range p.keys {
			left, right = right, left^(mix(right^k)&p.mask)
		}
		if i = left<<p.half | right; i < p.n {
			return i
		}
	}
}

// mix is a bijection of 64 bits (the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Zipf draws ranks in [0, n), the low ones most often, as YCSB does: by Gray's
// method ("Quickly Generating Billion-Record Synthetic Databases", 1994) with
// the exponent 0.99.
type Zipf struct {
	n                float64
	zeta, eta, atTwo float64
	alpha            float64
}

const zipfExponent = 0.99

// NewZipf returns a generator over n ranks.
func NewZipf(n uint64) Zipf {
	z := Zipf{n: float64(max(n, 1)), zeta: zeta(max(n, 1)), alpha: 1 / (1 - zipfExponent)}
	z.atTwo = 1 + math.Pow(0.5, zipfExponent)
	z.eta = (1 - math.Pow(2/z.n, 1-zipfExponent)) / (1 - z.atTwo/z.zeta)
	return z
}

// zeta is the sum of i^-0.99 up to n; beyond the first million by the integral,
// which is then exact to ten digits.
func zeta(n uint64) float64 {
	const exact = 1 << 20
	var sum float64
	for i := range min(n, exact) {
		sum += math.Pow(float64(i+1), -zipfExponent)
	}
	if n > exact {
		const e = 1 - zipfExponent
		sum += (math.Pow(float64(n)+0.5, e) - math.Pow(exact+0.5, e)) / e
	}
	return sum
}

// Next draws a rank.
func (z *Zipf) Next(r *Rand) uint64 {
	u := float64(r.Uniform(1<<52)) / (1 << 52)
	uz := u * z.zeta
	switch {
	case uz < 1 || z.n < 2:
		return 0
	case uz < z.atTwo:
		return 1
	}
	return min(uint64(z.n*math.Pow(z.eta*u-z.eta+1, z.alpha)), uint64(z.n)-1)
}

// Action is one operation of a mixed benchmark.
type Action uint8

const (
	ReadAction Action = iota
	UpdateAction
	InsertAction
	ScanAction
	ModifyAction // read, then write
)

// MostScanned is the longest scan of a mixed benchmark.
const MostScanned = 100

// Mixer draws the operations of one thread of a mixed benchmark.
type Mixer struct {
	mix    Mix
	zipf   Zipf
	num    uint64 // keys there at the beginning
	next   uint64 // number of the next key inserted
	stride uint64
}

// NewMixer returns a generator over num keys. Thread i of n inserts the numbers
// num+i, num+i+n and so on.
func NewMixer(m Mix, num uint64, i, n int) Mixer {
	x := Mixer{mix: m, num: max(num, 1), next: max(num, 1) + uint64(i), stride: uint64(n)}
	if m.Keys != Even {
		x.zipf = NewZipf(x.num)
	}
	return x
}

// Inserted is how many keys have been drawn for insertion.
func (x *Mixer) Inserted(i int) uint64 { return (x.next - x.num - uint64(i)) / x.stride }

// Next draws an operation, its key's number and the length of a scan.
func (x *Mixer) Next(r *Rand) (a Action, n uint64, length int) {
	part, m := int(r.Uniform(100)), &x.mix
	switch {
	case part < m.Read:
		a = ReadAction
	case part < m.Read+m.Update:
		a = UpdateAction
	case part < m.Read+m.Update+m.Scan:
		a, length = ScanAction, 1+int(r.Uniform(MostScanned))
	case part < m.Read+m.Update+m.Scan+m.ReadModifyWrite:
		a = ModifyAction
	default:
		x.next += x.stride
		return InsertAction, x.next - x.stride, 0
	}
	switch m.Keys {
	case Zipfian:
		n = mix(x.zipf.Next(r)+1) % x.num
	case Latest:
		n = max(x.next, x.stride) - x.stride
		n -= min(x.zipf.Next(r), n)
	default:
		n = r.Uniform(x.num)
	}
	return a, n, length
}
