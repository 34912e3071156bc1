//go:build tinygo

// Calls of SetFinalizer that are mistakes, and some that look like mistakes.
package main

import (
	"runtime"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
	"github.com/glebe-alloc/glebe/test/tinygo/stack"
)

type object struct{ value int }

func (o *object) end() { ended += o.value }

var ended int

//go:wasmexport no_function
func noFunction() { runtime.SetFinalizer(&object{}, 5) }

//go:wasmexport pointer_to_function
func pointerToFunction() { f := func(*object) {}; runtime.SetFinalizer(&object{}, &f) }

//go:wasmexport no_pointer
func noPointer() { runtime.SetFinalizer(object{}, func(*object) {}) }

//go:wasmexport nothing
func nothing() { runtime.SetFinalizer(nil, func(*object) {}) }

type end func(*object)

//go:noinline
func set() {
	runtime.SetFinalizer(&object{1}, func(o *object) { ended += o.value })
	runtime.SetFinalizer(&object{10}, (*object).end)
	runtime.SetFinalizer(&object{100}, end(func(o *object) { ended += o.value }))
	other := &object{1000}
	runtime.SetFinalizer(&object{10000}, func(o *object) { ended += other.value })
}

//go:wasmexport fine
func fine() int32 {
	runtime.SetFinalizer((*object)(nil), func(*object) {})
	runtime.SetFinalizer(&ended, func(*int) {})
	runtime.SetFinalizer(&object{}, nil)
	set()
	stack.Clobber(200)
	for range 3 {
		runtime.GC()
		glebe.RunFinalizers()
	}
	return int32(ended)
}

func main() {}
