//go:build tinygo

// A module with known objects that hands out its heap profile.
package main

import (
	"unsafe"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
)

type node struct {
	left, right *node
	value       [6]uintptr
}

var (
	nodes   []*node
	short   [][]byte
	long    []byte
	profile []byte
)

func init() {
	for i := 0; i < 5000; i++ {
		nodes = append(nodes, &node{})
		short = append(short, make([]byte, 200))
		_ = make([]byte, 300) // garbage
	}
	long = make([]byte, 3<<20)
}

//go:wasmexport heap_profile
func heapProfile() uint64 {
	long[0]++                 // so that the compiler keeps it
	profile = glebe.Profile() // stays until the next call
	return uint64(uintptr(unsafe.Pointer(&profile[0])))<<32 | uint64(len(profile))
}

func main() {}
