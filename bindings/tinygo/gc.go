//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

/*
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../../include/glebe.h"

bool glebe_go_start(void);
void *glebe_go_alloc_growing(size_t bytes, uintptr_t layout);
bool glebe_go_due(void);
void glebe_go_begin(void);
void glebe_go_mark(uintptr_t start, uintptr_t end, uintptr_t go_variable);
bool glebe_go_finish(void);
void glebe_go_free(void *object);
void glebe_go_stats(glebe_gc_stats *collector, glebe_stats *all);
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// The functions that TinyGo's runtime expects of a collector (its src/runtime/gc_custom.go).

//go:linkname initHeap runtime.initHeap
func initHeap() { C.glebe_go_start() }

// runtime.alloc is in core.c, where it needs no stack slots. It calls this when a collection is due or memory is
// exhausted. Exported because C can call only exported Go functions.
//
//export glebe_go_alloc_slow
func allocSlow(size uintptr, layout unsafe.Pointer) unsafe.Pointer {
	collected := bool(C.glebe_go_due())
	if collected {
		collect()
	}
	p := C.glebe_go_alloc_growing(C.size_t(size), C.uintptr_t(uintptr(layout)))
	if p == nil && !collected {
		collect()
		p = C.glebe_go_alloc_growing(C.size_t(size), C.uintptr_t(uintptr(layout)))
	}
	if p == nil {
		panicOutOfMemory(size)
	}
	if collected {
		finalizersNotice()
	}
	return p
}

//go:linkname free runtime.free
func free(p unsafe.Pointer) { C.glebe_go_free(p) }

// Its address shows where Go's variables are. The initial value makes it a variable, not a constant.
var variable = byte(1)

//go:linkname markRoots runtime.markRoots
func markRoots(start, end uintptr) {
	C.glebe_go_mark(C.uintptr_t(start), C.uintptr_t(end), C.uintptr_t(uintptr(unsafe.Pointer(&variable))))
}

// Marks the stack and the globals through markRoots.
//
//go:linkname gcMarkReachable runtime.gcMarkReachable
func gcMarkReachable()

func collect() {
	C.glebe_go_begin()
	gcMarkReachable()
	if bool(C.glebe_go_finish()) {
		weaksCleared()
	}
}

//go:linkname gc runtime.GC
func gc() {
	collect()
	finalizersSince = 0
	finalizersNotice()
}

//go:linkname readMemStats runtime.ReadMemStats
func readMemStats(stats *runtime.MemStats) {
	m := memStats{MemStats: stats}
	var collector C.glebe_gc_stats
	var all C.glebe_stats
	C.glebe_go_stats(&collector, &all)
	used := uint64(all.used_bytes)
	m.HeapSys = uint64(all.committed_bytes)
	m.HeapInuse = used
	m.HeapIdle = m.HeapSys - used
	m.HeapReleased = 0
	m.HeapAlloc = used
	m.Alloc = used
	m.GCSys = uint64(all.table_bytes)
	m.Sys = m.HeapSys + m.GCSys
	m.TotalAlloc = uint64(collector.allocated_bytes)
	m.Mallocs = uint64(collector.allocated_objects)
	m.Frees = uint64(collector.freed_objects)
	m.HeapObjects = m.Mallocs - m.Frees
	m.NumGC = uint32(collector.collections)
}
