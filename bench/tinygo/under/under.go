// Package under runs a program's steps and times each. Its other files put the program under the collector that its
// build names.
//
// It prints the sum of the steps' results, which must be the same under every collector, and the longest step, in units
// of the host's clock: nanoseconds, or fuel.
package under

import "unsafe"

//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clockTimeGet(id uint32, precision uint64, out unsafe.Pointer) uint32

var clock uint64

func now() uint64 {
	clockTimeGet(1, 1, unsafe.Pointer(&clock))
	return clock
}

// Run calls step with 0, 1 ... steps-1. A step should take well below a millisecond, so that the longest one is due to
// a collection.
func Run(steps int, step func(int) int) {
	sum, longest := 0, uint64(0)
	for i := 0; i < steps; i++ {
		begin := now()
		sum += step(i)
		if took := now() - begin; took > longest {
			longest = took
		}
	}
	println("sum", sum)
	println("longest", longest)
}

// Random is a small generator that gives every collector the same work.
type Random uint32

// Below returns a number in [0, n).
func (r *Random) Below(n int) int {
	x := uint32(*r)
	x ^= x << 13
	x ^= x >> 17
	x ^= x << 5
	*r = Random(x)
	return int(uint64(x) * uint64(n) >> 32)
}
