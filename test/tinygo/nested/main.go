//go:build tinygo

// An exported function calls its host, which calls a second exported function. The second collects while the first has
// not returned, and the used part of the first one's stack is then unknown. Both are goroutines under asyncify.
package main

import (
	"runtime"

	_ "github.com/glebe-alloc/glebe/bindings/tinygo"
)

type node struct {
	next  *node
	value int
}

//go:wasmimport host back
func back()

//go:noinline
func chain(length int) *node {
	var first *node
	for i := range length {
		first = &node{first, i}
	}
	return first
}

func (n *node) sum() int {
	sum := 0
	for ; n != nil; n = n.next {
		sum += n.value
	}
	return sum
}

//go:noinline
func deeper(depth int) int {
	kept := chain(100)
	if depth == 0 {
		back()
	} else if deeper(depth-1) != depth*4950 {
		return -1
	}
	return kept.sum() * (depth + 1)
}

//go:wasmexport outer
func outer() int32 {
	runtime.Gosched() // records the end of its stack
	return int32(deeper(9))
}

var garbage *node

//go:wasmexport inner
func inner() {
	for range 5 {
		garbage = chain(10000)
		runtime.GC()
	}
}

func main() {}
