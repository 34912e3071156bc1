//go:build tinygo

package main

import (
	"runtime"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
)

// Fields of runtime.MemStats that came with TinyGo 0.41 and 0.42. Before, the ones that lie deeper are found, with what
// was to be expected.
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
