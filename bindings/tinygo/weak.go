//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

/*
void *glebe_go_object(void *address);
void **glebe_go_weak_new(void *address, int late);
void glebe_go_weak_free(void **slot);
*/
import "C"

import "unsafe"

// Weak references and cleanups. No package can replace TinyGo's own, weak.Pointer and runtime.AddCleanup: they are
// generic functions of its runtime and of Go's library, compiled into the program as they are.

// weakly is a weak reference of the core. A hash table of lists finds it by its address. A collection unlinks the
// references that it cleared. It may run at any point of the program, so it allocates nothing, and may change the table
// in every state.
type weakly struct {
	next    *weakly
	address uintptr         // complemented, so that it is not a reference
	slot    *unsafe.Pointer // the core clears *slot; nil once it has
	global  unsafe.Pointer  // the address, if it is not in an object of the heap
	cleanup func()          // runs when the object is freed; nil for a Weak
}

var weaks []*weakly
var weaksCount int

// Cleanups that are ready to run.
var cleanupsReady *weakly

func weaksPlace(address uintptr) **weakly {
	return &weaks[address*0x9e3779b1>>8&uintptr(len(weaks)-1)]
}

// weaksFind returns the reference of the Weaks to this address, or nil.
func weaksFind(address uintptr) *weakly {
	if len(weaks) == 0 {
		return nil
	}
	w := *weaksPlace(address)
	for w != nil && (w.address != address || w.cleanup != nil) {
		w = w.next
	}
	return w
}

// weaksRoom makes room for one more. It allocates first, and then changes the table.
func weaksRoom() {
	if weaksCount < len(weaks) {
		return
	}
	longer := make([]*weakly, max(16, 2*len(weaks)))
	before := weaks
	weaks = longer
	for _, first := range before {
		for first != nil {
			next := first.next
			first.link()
			first = next
		}
	}
}

func (w *weakly) link() {
	place := weaksPlace(w.address)
	w.next = *place
	*place = w
}

// end frees the slot; the caller removes w from its list.
func (w *weakly) end() {
	C.glebe_go_weak_free((*unsafe.Pointer)(unsafe.Pointer(w.slot)))
	w.slot = nil
	weaksCount--
}

func weaksNew(address unsafe.Pointer, cleanup func()) *weakly {
	w := &weakly{address: ^uintptr(address), cleanup: cleanup}
	weaksRoom()
	if C.glebe_go_object(address) == nil {
		w.global = address
	} else {
		late := C.int(0)
		if cleanup != nil {
			late = 1
		}
		slot := C.glebe_go_weak_new(address, late)
		if slot == nil {
			collect()
			if slot = C.glebe_go_weak_new(address, late); slot == nil {
				panicOutOfMemory(unsafe.Sizeof(weakly{}))
			}
		}
		w.slot = (*unsafe.Pointer)(unsafe.Pointer(slot))
	}
	w.link() // no collection since the slot was made: it would not find w
	weaksCount++
	return w
}

// weaksCleared unlinks the references that a collection cleared.
func weaksCleared() {
	for i := range weaks {
		for at := &weaks[i]; *at != nil; {
			w := *at
			if w.slot == nil || *w.slot != nil {
				at = &w.next
				continue
			}
			*at = w.next
			w.next = nil
			w.end()
			if w.cleanup != nil {
				w.next = cleanupsReady
				cleanupsReady = w
			}
		}
	}
}

// Weak is a reference to a T that does not keep it alive. The zero Weak refers to nothing. Two Weaks of the same
// pointer are equal. It works like Go's weak.Pointer, which does not link in TinyGo.
type Weak[T any] struct {
	_  [0]*T
	to *weakly
}

// MakeWeak returns a weak reference to *pointer, which may be a part of an object.
func MakeWeak[T any](pointer *T) Weak[T] {
	if pointer == nil {
		return Weak[T]{}
	}
	w := weaksFind(^uintptr(unsafe.Pointer(pointer)))
	if w == nil {
		w = weaksNew(unsafe.Pointer(pointer), nil)
	}
	return Weak[T]{to: w}
}

// Value returns the pointer, or nil once a collection has found the object unreachable.
func (w Weak[T]) Value() *T {
	switch {
	case w.to == nil:
		return nil
	case w.to.slot != nil:
		return (*T)(*w.to.slot)
	}
	return (*T)(w.to.global)
}

// Cleanup is a call that AddCleanup has arranged.
type Cleanup struct {
	of *weakly
}

// AddCleanup arranges a call of cleanup(arg), once, after *pointer was freed, in the goroutine that runs finalizers. It
// works like Go's runtime.AddCleanup, which does nothing in TinyGo. *pointer may be a part of an object, and an object
// may have several cleanups. Objects that arg and cleanup refer to stay alive until then; if one of them is the object
// itself, it is never freed.
func AddCleanup[T, S any](pointer *T, cleanup func(S), arg S) Cleanup {
	if pointer == nil {
		panic("glebe: AddCleanup: the pointer is nil")
	}
	if same, ok := any(arg).(*T); ok && same == pointer {
		panic("glebe: AddCleanup: arg is the pointer, so the cleanup would never run")
	}
	w := weaksNew(unsafe.Pointer(pointer), func() { cleanup(arg) })
	finalizersSince++
	finalizersStart()
	return Cleanup{of: w}
}

// Stop cancels the call, if it has not begun.
func (c Cleanup) Stop() {
	w := c.of
	if w == nil || w.cleanup == nil {
		return
	}
	w.cleanup = nil
	if w.slot == nil {
		return // the object is freed already, or the pointer was to a global
	}
	at := weaksPlace(w.address)
	for *at != w {
		at = &(*at).next
	}
	*at = w.next
	w.end()
}

func runCleanups() int {
	run := 0
	for cleanupsReady != nil {
		w := cleanupsReady
		cleanupsReady = w.next
		w.next = nil
		if cleanup := w.cleanup; cleanup != nil {
			w.cleanup = nil
			cleanup()
			run++
		}
	}
	return run
}
