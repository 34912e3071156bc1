//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

/*
#include <stddef.h>
#include "../../include/glebe.h"

void glebe_go_pace(unsigned percent, size_t least_bytes, unsigned every);
int glebe_go_limit(size_t bytes);
void glebe_go_stats(glebe_gc_stats *collector, glebe_stats *all);
*/
import "C"

// A collection is due when the program has allocated `percent` of the bytes that the last one found live, but at least
// leastBytes; or at every n-th allocation.
const leastBytes = 128 << 10

var percent, every = defaultPercent, 0

const defaultPercent = 90

// SetGCPercent sets how much may be allocated between two collections, in percent of the bytes that the last one found
// live, and returns the previous value. The default, 90, holds up to 4 MiB live; from there on it falls with the square
// root of the live bytes, at 16 MiB to 45 and at 64 MiB to 22. Any other value is exact, but a third of it is enough
// where memory would have to grow for an object over 2 KiB, or for any object if it is at most 384 KiB. With a negative
// value only [runtime.GC] collects, until memory or its limit is exhausted.
func SetGCPercent(value int) int {
	before := percent
	percent = value
	pace()
	return before
}

// SetStress makes the collector run at every n-th allocation, for tests; 0 ends that.
func SetStress(n int) {
	every = n
	pace()
}

func pace() {
	part, least := C.uint(percent), C.size_t(leastBytes)
	if percent == defaultPercent {
		part = ^C.uint(0) // GLEBE_GC_PERCENT_DEFAULT
	} else if percent < 0 {
		part, least = 0, ^C.size_t(0)
	}
	C.glebe_go_pace(part, least, C.uint(every))
}

// SetMemoryLimit limits the memory of the collector and of malloc together; 0 is no limit. If a collection does not
// make room within it, allocation panics. It returns false, and changes nothing, if more is in use already.
func SetMemoryLimit(bytes uintptr) bool {
	return C.glebe_go_limit(C.size_t(bytes)) == 0
}

// Stats is the state of the heap.
type Stats struct {
	HeapBytes      uint64 // linear memory that the heap has
	UsedBytes      uint64 // of HeapBytes, in pages and large objects, malloc's included
	LiveBytes      uint64 // found live by the last collection
	AllocatedBytes uint64 // handed out since the start; holes count whole
	FreedBytes     uint64 // found unreachable since the start
	Collections    uint64
}

// ReadStats returns the current state of the heap. It allocates nothing.
func ReadStats() Stats {
	var collector C.glebe_gc_stats
	var all C.glebe_stats
	C.glebe_go_stats(&collector, &all)
	return Stats{
		HeapBytes:      uint64(all.committed_bytes),
		UsedBytes:      uint64(all.used_bytes),
		LiveBytes:      uint64(collector.live_bytes),
		AllocatedBytes: uint64(collector.allocated_bytes),
		FreedBytes:     uint64(collector.freed_bytes),
		Collections:    uint64(collector.collections),
	}
}
