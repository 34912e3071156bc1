//go:build tinygo

// A module that a host calls repeatedly: a store of texts, in a tree and a map.
//
//	take(at, bytes)   stores a text that the host wrote into a block of this module's malloc, replacing one of the last
//	                  500; the block stays the host's. Returns how many texts there are
//	find(bytes)       how many texts have that length
//	hold(bytes)       keeps that many bytes for good, to exhaust memory
//	used()            the UsedBytes of ReadStats
//	stress(n)         collects at every n-th allocation
package main

import (
	"strings"
	"unsafe"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
)

type node struct {
	left, right *node
	text        string
	age         int
}

var (
	root  *node
	byAge = map[int]*node{}
	age   int
	held  [][]byte
)

func (n *node) with(added *node) *node {
	if n == nil {
		return added
	}
	copied := *n // the old tree stays unchanged: most of it soon becomes garbage
	if added.text < n.text {
		copied.left = n.left.with(added)
	} else {
		copied.right = n.right.with(added)
	}
	return &copied
}

//go:wasmexport take
func take(at unsafe.Pointer, bytes int32) int32 {
	text := strings.Clone(unsafe.String((*byte)(at), int(bytes)))
	if age++; age%500 == 0 {
		root = nil
	}
	added := &node{text: text, age: age}
	root = root.with(added)
	byAge[age] = added
	delete(byAge, age-500)
	return int32(len(byAge))
}

//go:wasmexport find
func find(bytes int32) int32 {
	found := int32(0)
	for _, n := range byAge {
		if len(n.text) == int(bytes) && strings.Count(n.text, n.text[:1]) == len(n.text) {
			found++
		}
	}
	return found
}

//go:wasmexport hold
func hold(bytes int32) int32 {
	held = append(held, make([]byte, bytes))
	return int32(len(held))
}

//go:wasmexport used
func used() int32 { return int32(glebe.ReadStats().UsedBytes) }

//go:wasmexport stress
func stress(n int32) { glebe.SetStress(int(n)) }

func main() {}
