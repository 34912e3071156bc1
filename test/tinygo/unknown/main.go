//go:build tinygo

// A module for no particular host: it imports nothing and exports a function, which returns the length of the list that
// it kept, 5050.
package main

import glebe "github.com/glebe-alloc/glebe/bindings/tinygo"

type link struct {
	next *link
	text []byte
}

//go:wasmexport kept
func kept(rounds int32) int32 {
	var first *link
	for round := int32(0); round < rounds; round++ {
		first = nil
		for i := 1; i <= 100; i++ {
			first = &link{first, make([]byte, i)}
			first.text[i-1] = byte(i)
		}
	}
	sum := int32(0)
	for l := first; l != nil; l = l.next {
		if l.text[len(l.text)-1] != byte(len(l.text)) {
			return -1
		}
		sum += int32(len(l.text))
	}
	return sum
}

//go:wasmexport collections
func collections() int32 { return int32(glebe.ReadStats().Collections) }

func main() {}
