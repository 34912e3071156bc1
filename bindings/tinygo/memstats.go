//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

import "runtime"

// runtime.MemStats, and the fields that older releases of TinyGo do not have: a field is looked for in MemStats first, since it
// lies less deep there, and otherwise found below `since`, where what is written to it is lost.
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
