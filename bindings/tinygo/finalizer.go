//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

/*
#include <stdbool.h>
bool glebe_go_finalizer(void *object, void *context, void **before);
void *glebe_go_ready(void **context);
*/
import "C"

import "unsafe"

// A finalizer's function. The core knows the object, and the node's address as a number; the list keeps the node alive.
type finalizer struct {
	next, before *finalizer
	function     func(unsafe.Pointer)
}

var finalizers *finalizer

// How many are on the list, and how many more than that there are since runtime.GC, or the scheduler, last collected.
var finalizersSet, finalizersSince uint

// An interface value, as TinyGo lays it out.
type boxed struct {
	typecode, value unsafe.Pointer
}

// reflect's, of a type.
const kindPointer, kindFunc = 21, 24

//go:linkname kindOf (*internal/reflectlite.RawType).Kind
func kindOf(typecode unsafe.Pointer) uint8

//go:linkname abort runtime.abort
func abort()

// What TinyGo's own collectors say: no panic, for nothing can recover from it.
func fatal(text string) {
	println("fatal error: runtime.SetFinalizer: " + text)
	abort()
}

//go:linkname setFinalizer runtime.SetFinalizer
func setFinalizer(object, function interface{}) {
	if kindOf((*boxed)(unsafe.Pointer(&object)).typecode) != kindPointer {
		fatal("first argument is not a pointer")
	}
	if function != nil && kindOf((*boxed)(unsafe.Pointer(&function)).typecode) != kindFunc {
		fatal("second argument is not a function")
	}
	pointer := (*boxed)(unsafe.Pointer(&object)).value
	if pointer == nil {
		return
	}
	var node *finalizer
	if function != nil {
		// Whatever the type of its argument is: a pointer is passed alike.
		node = &finalizer{function: *(*func(unsafe.Pointer))((*boxed)(unsafe.Pointer(&function)).value)}
	}
	var before unsafe.Pointer
	if !C.glebe_go_finalizer(pointer, unsafe.Pointer(node), &before) {
		return // not an object of the heap: a global, for one, is never unreachable
	}
	if before != nil {
		(*finalizer)(before).drop()
		if finalizersSince > 0 {
			finalizersSince--
		}
	}
	if node != nil {
		finalizersSet++
		finalizersSince++
		node.next = finalizers
		if finalizers != nil {
			finalizers.before = node
		}
		finalizers = node
		finalizersStart()
	}
}

// drop takes the node off the list. It refers to none any more: where something looks like a reference to it, it would
// keep those that were its neighbours, and they theirs.
func (node *finalizer) drop() {
	finalizersSet--
	if node.before != nil {
		node.before.next = node.next
	} else {
		finalizers = node.next
	}
	if node.next != nil {
		node.next.before = node.before
	}
	node.next, node.before = nil, nil
}

// RunFinalizers runs the finalizers of objects that were found unreachable, and returns how many. With a scheduler a
// goroutine does it after each collection; without one nothing does but this function.
func RunFinalizers() int {
	run := 0
	for {
		var context unsafe.Pointer
		object := C.glebe_go_ready(&context)
		if object == nil {
			return run
		}
		node := (*finalizer)(context)
		node.drop()
		node.function(object)
		run++
	}
}
