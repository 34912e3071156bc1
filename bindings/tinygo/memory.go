//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

/*
#include <stddef.h>

char *glebe_go_out_of_memory(size_t bytes, char *end);
*/
import "C"

import "unsafe"

var outOfMemoryText [160]byte

// panicOutOfMemory prints what a panic would, and aborts, since WebAssembly has no recover. A panic's value would bring
// in code that prints values of all kinds.
func panicOutOfMemory(size uintptr) {
	end := (*C.char)(unsafe.Add(unsafe.Pointer(&outOfMemoryText), len(outOfMemoryText)))
	text := unsafe.Pointer(C.glebe_go_out_of_memory(C.size_t(size), end))
	println(unsafe.String((*byte)(text), uintptr(unsafe.Pointer(end))-uintptr(text)))
	abort()
}
