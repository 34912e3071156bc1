//go:build tinygo

// Weak references and cleanups, plain and with a collection at every third allocation.
package main

import (
	"runtime"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
	"github.com/glebe-alloc/glebe/test/tinygo/stack"
)

type node struct {
	value, other int
	next         *node
}

const many = 300

var (
	global   node
	kept     []*node
	weak     []glebe.Weak[node]
	cleaned  int
	stopped  int
	order    string
	held     glebe.Weak[node]
	fromHeld int
	again    *node
)

func check(what string, ok bool) {
	if !ok {
		panic(what)
	}
}

// collect collects, runs ready finalizers and cleanups, and leaves no reference on the stack.
func collect() {
	for range 5 {
		stack.Clobber(200)
		runtime.GC()
		runtime.Gosched()
	}
}

//go:noinline
func make_(keep int) {
	for i := range many {
		n := &node{value: i}
		weak = append(weak, glebe.MakeWeak(n))
		if i%keep == 0 {
			kept = append(kept, n)
		}
		check("equal", glebe.MakeWeak(n) == weak[len(weak)-1])
		check("another", glebe.MakeWeak(&n.other) != glebe.MakeWeak(&n.value))
		check("value", weak[len(weak)-1].Value() == n)
	}
}

func references() {
	kept, weak = nil, nil
	make_(3)
	collect()
	alive := 0
	for i, w := range weak {
		n := w.Value()
		if i%3 == 0 {
			check("kept", n == kept[i/3] && n.value == i && glebe.MakeWeak(n) == w)
		} else if n != nil {
			alive++
		}
	}
	check("cleared", alive <= 2) // one or two may still be on the stack
	for i := range kept {
		kept[i] = nil
	}
	collect()
	alive = 0
	for _, w := range weak {
		if w.Value() != nil {
			alive++
		}
	}
	check("all cleared", alive <= 2)
	check("zero", glebe.Weak[node]{}.Value() == nil && glebe.MakeWeak[node](nil) == glebe.Weak[node]{})
	check("global", glebe.MakeWeak(&global).Value() == &global && glebe.MakeWeak(&global) == glebe.MakeWeak(&global))
}

//go:noinline
func clean() {
	var stops []glebe.Cleanup
	for i := range many {
		n := &node{value: i}
		glebe.AddCleanup(n, func(by int) { cleaned += by }, 1)
		glebe.AddCleanup(&n.other, func(by int) { cleaned += by }, 1000)
		stops = append(stops, glebe.AddCleanup(n, func(by int) { stopped += by }, 1))
		if i%2 == 0 {
			stops[i].Stop()
		}
	}
	glebe.AddCleanup(&global, func(int) { panic("a global was freed") }, 0)
}

func cleanups() {
	cleaned, stopped = 0, 0
	clean()
	collect()
	check("cleaned", cleaned >= 1001*(many-2) && cleaned <= 1001*many)
	check("stopped", stopped >= many/2-2 && stopped <= many/2)
}

// A cycle: its finalizers would never run, but its cleanups do.
//
//go:noinline
func circle() {
	a, b := &node{}, &node{}
	a.next, b.next = b, a
	glebe.AddCleanup(a, func(s string) { order += s }, "a")
	glebe.AddCleanup(b, func(s string) { order += s }, "b")
}

// The finalizer of one object uses another: its weak reference is cleared, and its cleanup waits.
//
//go:noinline
func both() {
	inner := &node{value: 42}
	held = glebe.MakeWeak(inner)
	glebe.AddCleanup(inner, func(s string) { order += s }, "c")
	runtime.SetFinalizer(&node{next: inner}, func(n *node) {
		fromHeld = n.next.value
		order += "f"
		again = n
	})
}

//go:noinline
func stillThere() bool { return again.next.value == 42 && held.Value() == nil }

func ordered() {
	order, again = "", nil
	circle()
	collect()
	check("circle "+order, order == "ab" || order == "ba")
	order = ""
	both()
	collect()
	check("finalizer first: "+order, order == "f" && fromHeld == 42 && stillThere())
	again = nil
	collect()
	check("then the cleanup: "+order, order == "fc")
}

func all() {
	references()
	cleanups()
	ordered()
}

func main() {
	all()
	glebe.SetStress(3)
	all()
	println("ok")
}
