//go:build tinygo

// Objects of many types and sizes, without a scheduler and fmt: reachable objects keep their contents, unreachable ones
// make room, finalizers run on request, and statistics change. Prints "ok".
package main

import (
	"runtime"
	"strconv"
	"unsafe"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
	"github.com/glebe-alloc/glebe/test/tinygo/stack"
)

func require(condition bool, what string) {
	if !condition {
		panic(what)
	}
}

type shape interface{ area() int }
type square struct{ side int }
type named struct {
	name  string
	parts []shape
	more  *named
	byKey map[int]*named
	call  func() int
	words [5]uintptr
}

func (s *square) area() int { return s.side * s.side }

func make1(i int) *named {
	n := &named{name: "object " + strconv.Itoa(i), byKey: map[int]*named{}}
	for k := 0; k < i%20; k++ {
		n.parts = append(n.parts, &square{i + k})
		n.byKey[k] = &named{name: strconv.Itoa(i * k)}
	}
	n.call = func() int { return len(n.parts) + i }
	for k := range n.words {
		n.words[k] = uintptr(unsafe.Pointer(&n.words)) + uintptr(i*8) // a number that looks like an address
	}
	return n
}

func (n *named) check(i int) {
	require(n.name == "object "+strconv.Itoa(i), "a string")
	require(len(n.parts) == i%20 && len(n.byKey) == i%20, "lengths")
	for k, part := range n.parts {
		require(part.area() == (i+k)*(i+k), "an interface")
		require(n.byKey[k].name == strconv.Itoa(i*k), "a map")
	}
	require(n.call() == i%20+i, "a closure")
}

func objects() {
	const count = 300
	var kept [count]*named
	for round := 0; round < 5; round++ {
		for i := range kept {
			if kept[i] == nil || (i+round)%3 == 0 {
				kept[i] = make1(i)
				kept[i].more = kept[i*7%count]
			}
		}
		for i, n := range kept {
			n.check(i)
			if n.more != nil {
				n.more.check(i * 7 % count)
			}
		}
	}
}

func sizes() {
	var kept [64][]byte
	for i := 0; i < 20000; i++ {
		n := i * 37 % 700
		if i%50 == 0 {
			n *= 300
		}
		b := make([]byte, n)
		for k := 0; k < n; k += 97 {
			require(b[k] == 0, "fresh memory is zero")
			b[k] = byte(i)
		}
		old := kept[i%64]
		for k := 97; k < len(old); k += 97 {
			require(old[k] == old[0], "bytes")
		}
		kept[i%64] = b
	}
}

var order []int

//go:noinline
func finalizersSet() { // in a frame that has returned before the collection
	inner := &square{1}
	outer := &named{parts: []shape{inner}}
	runtime.SetFinalizer(inner, func(s *square) { order = append(order, s.side) })
	runtime.SetFinalizer(outer, func(n *named) { order = append(order, len(n.parts)+10) })
	dropped := &square{2}
	runtime.SetFinalizer(dropped, func(s *square) { order = append(order, s.side) })
	runtime.SetFinalizer(dropped, nil)
}

func finalizers() {
	finalizersSet()
	for i := 0; i < 4; i++ {
		stack.Clobber(250)
		runtime.GC()
		glebe.RunFinalizers()
	}
	require(len(order) == 2 && order[0] == 11 && order[1] == 1, "finalizers, the outer one first")
}

// A replaced or removed finalizer leaves nothing behind.
func finalizersLeave() {
	const count = 20000
	object := &square{3}
	runs := 0
	runtime.GC()
	before := glebe.ReadStats().LiveBytes
	for i := 0; i < count; i++ {
		runtime.SetFinalizer(object, func(s *square) { runs++ })
		if i%2 == 0 {
			runtime.SetFinalizer(object, nil)
		}
	}
	runtime.GC()
	require(object.side == 3 && glebe.ReadStats().LiveBytes < before+4096, "finalizers that were replaced are kept")
	runtime.SetFinalizer(object, nil)

	for i := 0; i < count; i++ {
		runtime.SetFinalizer(&square{i}, func(s *square) { runs++ })
	}
	for i := 0; i < 4; i++ {
		stack.Clobber(250)
		runtime.GC()
		glebe.RunFinalizers()
	}
	require(runs > count-100 && runs <= count, "finalizers of many objects")
	require(glebe.ReadStats().LiveBytes < before+4096, "finalizers that ran are kept")
}

func statistics() {
	defer glebe.SetGCPercent(glebe.SetGCPercent(-1)) // no collection except the requested one
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := 0; i < 1000; i++ {
		sink = make([]byte, 1000)
	}
	runtime.ReadMemStats(&after)
	require(after.TotalAlloc >= before.TotalAlloc+1000000, "TotalAlloc")
	require(after.HeapSys >= after.HeapInuse && after.HeapInuse > 0 && after.Sys >= after.HeapSys, "heap sizes")
	require(after.Mallocs >= before.Mallocs+1000 && after.Mallocs < before.Mallocs+1010, "Mallocs")
	require(after.Frees >= before.Frees && newer(after).HeapObjects == after.Mallocs-after.Frees, "Frees")
	require(after.Alloc > 0 && after.HeapAlloc == after.Alloc && after.HeapIdle == after.HeapSys-after.HeapInuse &&
		after.GCSys > 0, "every field")
	collections, collected := glebe.ReadStats().Collections, after
	runtime.GC()
	require(glebe.ReadStats().Collections == collections+1, "a collection")
	runtime.ReadMemStats(&collected)
	require(newer(collected).NumGC == collections+1, "NumGC")
	require(collected.Mallocs < after.Mallocs+10 && collected.Frees > before.Frees+900, "Frees of a collection")
	require(newer(collected).HeapObjects < newer(after).HeapObjects, "HeapObjects")

	collections = glebe.ReadStats().Collections
	for i := 0; i < 5000; i++ {
		sink = make([]byte, 1000)
	}
	require(glebe.ReadStats().Collections == collections, "SetGCPercent(-1)")
}

var sink []byte

func main() {
	constantsKeepNothing()
	objects()
	glebe.SetStress(20)
	objects()
	glebe.SetStress(0)
	sizes()
	finalizers()
	finalizersLeave()
	locales()
	statistics()
	println("ok")
}
