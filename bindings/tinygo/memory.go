//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

import "unsafe"

// The error for exhausted memory: its text is in a static buffer, so it needs no allocation.
type outOfMemory struct {
	text   [160]byte
	length int
}

var outOfMemoryError outOfMemory

func (e *outOfMemory) Error() string { return unsafe.String(&e.text[0], e.length) }

func (e *outOfMemory) add(text string) {
	e.length += copy(e.text[e.length:], text)
}

func (e *outOfMemory) addNumber(n uint64) {
	var digits [20]byte
	i := len(digits)
	for {
		i--
		digits[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			break
		}
	}
	e.length += copy(e.text[e.length:], digits[i:])
}

func panicOutOfMemory(size uintptr) {
	stats := ReadStats()
	e := &outOfMemoryError
	e.length = 0
	e.add("glebe: out of memory: ")
	e.addNumber(uint64(size))
	e.add(" bytes wanted, ")
	e.addNumber(stats.UsedBytes)
	e.add(" of ")
	e.addNumber(stats.HeapBytes)
	e.add(" in use, ")
	e.addNumber(stats.LiveBytes)
	e.add(" live after ")
	e.addNumber(stats.Collections)
	e.add(" collections")
	panic(e)
}
