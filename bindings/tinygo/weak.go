//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

/*
void *glebe_go_object(void *address);
void **glebe_go_weak_new(void *address, int late);
void glebe_go_weak_free(void **slot);
*/
import "C"

import "unsafe"

// Weak references and cleanups. TinyGo's own, weak.Pointer and runtime.AddCleanup, are generic functions of its runtime
// and of Go's library, compiled into the program as they are: no package can take their place.

// weakly is a weak reference of the core's. They are in a hash table of lists, by their address. A collection unlinks
// those that it cleared, while the program may be in the middle of anything: so it allocates nothing, and the table has
// no state in which it may not be changed.
type weakly struct {
	next    *weakly
	address uintptr         // complemented: no reference
	slot    *unsafe.Pointer // what the core clears; nil: it did
	global  unsafe.Pointer  // or the address, of what is no object of the heap
	cleanup func()          // runs when the object is freed; nil: a reference that is asked for
}

var weaks []*weakly
var weaksCount int

// Cleanups that are to run.
var cleanupsReady *weakly

func weaksPlace(address uintptr) **weakly {
	return &weaks[address*0x9e3779b1>>8&uintptr(len(weaks)-1)]
}

// weaksFind returns the reference that is asked for by this address, or nil.
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

// end frees the slot; the caller takes w off its list.
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
	w.link() // with no collection in between, which would not find it
	weaksCount++
	return w
}

// weaksCleared unlinks what a collection cleared.
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

// Weak is a reference to a T that does not keep it alive. The zero Weak refers to nothing. Two of the same pointer are
// equal. It is what weak.Pointer is in Go, which in TinyGo does not link.
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

// AddCleanup has cleanup(arg) called once after *pointer was freed, by the goroutine that runs finalizers. It is what
// runtime.AddCleanup is in Go, which in TinyGo does nothing. The pointer may be a part of an object, and one object may
// have many. What arg and cleanup refer to stays alive until then: if that is the object, it is never freed.
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
		return // it is ready, or the pointer was to a global
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
