//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && wasip2

package tinygo

/*
// The target has no C library, and the system's headers are not for it: the core takes clang's alone.
#cgo CFLAGS: -D__STDC_HOSTED__=0 -Wno-builtin-macro-redefined -DGB_NO_LIBC=1

#include <stddef.h>

void *glebe_go_lend(void *old, size_t bytes);
*/
import "C"

import "unsafe"

// The host of a component asks for memory by cabi_realloc, which TinyGo's runtime exports, and writes there what it
// passes to an exported function or returns from an imported one. Until then nothing refers to that memory, so this
// function never collects. The next allocation does, if a collection is due.
//
//go:linkname realloc runtime.realloc
func realloc(old unsafe.Pointer, size uintptr) unsafe.Pointer {
	p := unsafe.Pointer(C.glebe_go_lend(old, C.size_t(size)))
	if p == nil {
		panicOutOfMemory(size)
	}
	return p
}
