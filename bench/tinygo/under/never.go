//go:build never

package under

import (
	"runtime"
	"unsafe"
)

// A collector that never collects. TinyGo makes every function note its references for it, as for any collector. No
// collector can cost less than these notes and an addition for each allocation. Under "leaking" functions note nothing.

//go:extern __heap_base
var heapBase [0]byte

var next, end uintptr

//export llvm.wasm.memory.size.i32
func memorySize(index int32) int32

//export llvm.wasm.memory.grow.i32
func memoryGrow(index, pages int32) int32

//go:linkname initHeap runtime.initHeap
func initHeap() {
	next = (uintptr(unsafe.Pointer(&heapBase)) + 15) &^ 15
	end = uintptr(memorySize(0)) << 16
}

//go:linkname gcMarkReachable runtime.gcMarkReachable
func gcMarkReachable()

//go:linkname alloc runtime.alloc
func alloc(size uintptr, layout unsafe.Pointer) unsafe.Pointer {
	if size > 1<<31 {
		gcMarkReachable() // never called; without this call TinyGo would leave out its code for collectors
	}
	at := next
	next += (size + 15) &^ 15
	for next > end {
		pages := int32(end >> 16)
		if memoryGrow(0, pages) < 0 {
			panic("out of memory")
		}
		end *= 2
	}
	return unsafe.Pointer(at)
}

//go:linkname free runtime.free
func free(unsafe.Pointer) {}

//go:linkname markRoots runtime.markRoots
func markRoots(start, end uintptr) {}

//go:linkname collect runtime.GC
func collect() {}

//go:linkname readMemStats runtime.ReadMemStats
func readMemStats(*runtime.MemStats) {}

//go:linkname setFinalizer runtime.SetFinalizer
func setFinalizer(object, finalizer interface{}) {}
