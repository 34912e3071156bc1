//go:build tinygo

package main

import (
	"runtime"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
)

// Fields of runtime.MemStats since TinyGo 0.41 and 0.42. In older releases the compiler finds the deeper ones here,
// which hold the expected values.
type fields struct {
	runtime.MemStats
	older
}

type older struct{ expected }

type expected struct {
	HeapObjects uint64
	NumGC       uint32
}

type counts struct{ HeapObjects, NumGC uint64 }

func newer(stats runtime.MemStats) counts {
	f := fields{stats, older{expected{stats.Mallocs - stats.Frees, uint32(glebe.ReadStats().Collections)}}}
	return counts{f.HeapObjects, uint64(f.NumGC)}
}
