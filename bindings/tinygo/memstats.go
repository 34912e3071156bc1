//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

import "runtime"

// runtime.MemStats with the fields that older releases of TinyGo lack. The compiler takes MemStats's own field if there
// is one, since it is less deep; otherwise the one in `since`, whose value is ignored.
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
