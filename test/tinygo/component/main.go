// Command component exchanges lists of strings with its host: what the host writes lies in memory that it asked the
// module for, and that nothing else refers to until the call begins or returns.
package main

import (
	"os"
	"strconv"
	"strings"
	"unsafe"
)

func main() {}

func init() {
	if n, err := strconv.Atoi(os.Getenv("STRESS")); err == nil {
		stress(n)
	}
}

//go:wasmimport $root words
func hostWords(count uint32, result unsafe.Pointer)

var sink []*[64]byte

// joined allocates before it looks at the words.
func joined(words []string) *string {
	for i := 0; i < 20; i++ {
		sink = append(sink[:i%7], new([64]byte))
		*sink[i%7] = [64]byte{1, 2, 3}
	}
	result := strings.Join(words, " ")
	return &result
}

//go:wasmexport join
func join(words *string, count uint32) *string { return joined(unsafe.Slice(words, count)) }

// The same without a goroutine, as older generators of bindings have it.
//
//export join-directly
func joinDirectly(words *string, count uint32) *string { return joined(unsafe.Slice(words, count)) }

//go:wasmexport collections
func collections() uint32 { return collected() }

//go:wasmexport ask
func ask(count uint32) *string {
	var result struct {
		words *string
		count uint32
	}
	hostWords(count, unsafe.Pointer(&result))
	return joined(unsafe.Slice(result.words, result.count))
}
