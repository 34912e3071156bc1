//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

/*
#include <stdbool.h>
void *glebe_go_object(void *address);
bool glebe_go_finalizer(void *object, void *context);
void *glebe_go_finalizer_of(void *object);
bool glebe_go_any_ready(void);
void *glebe_go_ready(void **context);
*/
import "C"

import "unsafe"

// A finalizer's function. The core stores the object, and the node's address as a number; the list `finalizers` keeps
// the node alive. An object has one node for each address in it that SetFinalizer was called with.
type finalizer struct {
	next, before *finalizer
	also         *finalizer // of the same object
	offset       uintptr    // of the address in the object
	function     func(unsafe.Pointer)
}

var finalizers *finalizer

// The length of the list, and the number of finalizers and cleanups set since runtime.GC or the scheduler last
// collected.
var finalizersSet, finalizersSince uint

// An interface value, as TinyGo lays it out.
type boxed struct {
	typecode, value unsafe.Pointer
}

// reflect's kinds of types.
const kindPointer, kindFunc = 21, 24

//go:linkname kindOf (*internal/reflectlite.RawType).Kind
func kindOf(typecode unsafe.Pointer) uint8

//go:linkname abort runtime.abort
func abort()

// The message of TinyGo's own collectors. It aborts, so that the program cannot recover as from a panic.
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
	start := C.glebe_go_object(pointer)
	if start == nil {
		return // not an object of the heap: a global, for one, is never unreachable
	}
	offset := uintptr(pointer) - uintptr(start)
	var node *finalizer
	if function != nil {
		node = &finalizer{offset: offset, function: callable(object, function)}
	}
	before := (*finalizer)(C.glebe_go_finalizer_of(start))
	first := before.without(offset)
	if node != nil {
		node.also = first
		first = node
	}
	if first != before {
		finalizerSet(start, first)
	}
	if node != nil {
		node.add()
		finalizersStart()
	}
}

// callable returns the function as one that takes a pointer. Every func(*T) can be called as one. TinyGo has no types
// of parameters at run time, so a wrong type is not found; only func(any), which nottinygc takes, is recognized.
func callable(object, function interface{}) func(unsafe.Pointer) {
	if of, ok := function.(func(interface{})); ok {
		typecode := (*boxed)(unsafe.Pointer(&object)).typecode
		return func(pointer unsafe.Pointer) {
			var value interface{}
			*(*boxed)(unsafe.Pointer(&value)) = boxed{typecode, pointer}
			of(value)
		}
	}
	return *(*func(unsafe.Pointer))((*boxed)(unsafe.Pointer(&function)).value)
}

// finalizerSet tells the core to return the node when the object is unreachable; a nil node removes the finalizer.
func finalizerSet(object unsafe.Pointer, node *finalizer) {
	if !C.glebe_go_finalizer(object, unsafe.Pointer(node)) {
		collect()
		if !C.glebe_go_finalizer(object, unsafe.Pointer(node)) {
			panicOutOfMemory(unsafe.Sizeof(finalizer{}))
		}
	}
}

// without removes the finalizer of this offset, if any, from the object's, and returns the first of the others.
func (node *finalizer) without(offset uintptr) *finalizer {
	var before *finalizer
	for at := node; at != nil; before, at = at, at.also {
		if at.offset != offset {
			continue
		}
		at.drop()
		if finalizersSince > 0 {
			finalizersSince--
		}
		if before == nil {
			return at.also
		}
		before.also = at.also
		break
	}
	return node
}

func (node *finalizer) add() {
	finalizersSet++
	finalizersSince++
	node.next = finalizers
	if finalizers != nil {
		finalizers.before = node
	}
	finalizers = node
}

// drop removes the node from the list, and clears its links: a value that looks like a reference to it would otherwise
// keep its former neighbours alive, and theirs.
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

func finalizersReady() bool { return bool(C.glebe_go_any_ready()) || cleanupsReady != nil }

// RunFinalizers runs the finalizers and cleanups of objects that were found unreachable, and returns how many it ran.
// Programs need not call it: with a scheduler a goroutine runs them after each collection, without one the call that
// collected does.
func RunFinalizers() int {
	run := 0
	for {
		var context unsafe.Pointer
		object := C.glebe_go_ready(&context)
		if object == nil {
			return run + runCleanups()
		}
		for node := (*finalizer)(context); node != nil; run++ {
			next := node.also
			node.also = nil
			node.drop()
			node.function(unsafe.Add(object, node.offset))
			node = next
		}
	}
}
