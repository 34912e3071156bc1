//go:build tinygo

// Exhausts memory: within a limit the program runs, beyond it allocation panics, and the message has the figures.
package main

import glebe "github.com/glebe-alloc/glebe/bindings/tinygo"

var sink []byte

func main() {
	sink = make([]byte, 1000)
	if !glebe.SetMemoryLimit(uintptr(glebe.ReadStats().UsedBytes) + 1<<20) {
		panic("the limit")
	}
	for i := 0; i < 3000; i++ {
		sink = make([]byte, 200000)
	}
	if glebe.SetMemoryLimit(1000) {
		panic("a limit below what is in use")
	}
	println("within")
	sink = make([]byte, 3<<20)
	println("beyond")
}
