//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

import "runtime"

// runtime.MemStats, and the fields that older releases of TinyGo do not have: the compiler takes
// a field of MemStats first, which lies less deep, and otherwise the one below `since`, whose value is lost.
type memStats struct {
	*runtime.MemStats
	since
}

type since struct {
	tinygo041
	tinygo042
}

type tinygo041 struct{ HeapObjects uint64 }

type tinygo042 struct{ NumGC uint32 }
