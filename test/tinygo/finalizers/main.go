//go:build tinygo

// SetFinalizer with odd arguments. The program prints the same with TinyGo's own collector and with glebe.
package main

import (
	"runtime"

	"github.com/glebe-alloc/glebe/test/tinygo/stack"
)

type pair struct{ first, second int }

type numbered interface{ number() int }

func (p *pair) number() int { return p.first }

var global pair
var ran [10]int
var sum int

func note(i, value int) { ran[i] = ran[i]*1000 + value }

//go:noinline
func set() {
	p := &pair{1, 2}
	runtime.SetFinalizer(&p.second, func(v *int) { note(0, *v) })

	p = &pair{3, 4}
	runtime.SetFinalizer(&p.second, func(v *int) { note(1, *v) })
	runtime.SetFinalizer(p, func(p *pair) { note(2, p.first) })

	p = &pair{5, 6}
	runtime.SetFinalizer(&p.second, func(v *int) { note(3, 999) })
	runtime.SetFinalizer(&p.second, func(v *int) { note(3, *v) })
	runtime.SetFinalizer(p, func(p *pair) { note(4, 999) })
	runtime.SetFinalizer(p, nil)

	s := []int{7, 8, 9}
	for i := range s {
		runtime.SetFinalizer(&s[i], func(v *int) { note(5+i, *v) })
	}
	runtime.SetFinalizer(&s[1], nil)

	runtime.SetFinalizer(&global.second, func(v *int) { note(8, *v) })
	runtime.SetFinalizer((*pair)(nil), func(p *pair) { note(9, 1) })
}

// The engine traps, since these functions have another type than the call of a finalizer. There are several objects,
// since one may still be on the stack.
//
//go:noinline
func several(set func(*pair)) {
	for i := range 10 {
		set(&pair{first: i, second: 1})
	}
}

func setResult(p *pair) { runtime.SetFinalizer(p, func(*pair) int { println("called"); return 1 }) }

func setInterface(p *pair) { runtime.SetFinalizer(p, func(numbered) { println("called") }) }

func setAny(p *pair) { runtime.SetFinalizer(p, func(p any) { sum += p.(*pair).second }) }

func collect() {
	for range 20 {
		stack.Clobber(200)
		runtime.GC()
		runtime.Gosched()
	}
}

//go:wasmexport fine
func fine() {
	set()
	collect()
	for _, value := range ran {
		print(value, " ")
	}
	println("ran")
}

//go:wasmexport result
func result() { several(setResult); collect(); println("came back") }

//go:wasmexport interface
func interfaceParameter() { several(setInterface); collect(); println("came back") }

//go:wasmexport any
func anyParameter() { several(setAny); collect(); println(sum >= 8 && sum <= 10) }

func main() {}
