// Package stack is what the test programs share about the stack.
package stack

// Clobber overwrites what lay on the stack below its caller, n frames deep: references of functions that returned are
// gone then.
//
//go:noinline
func Clobber(n int) int {
	var words [32]int
	words[n%32] = n
	if n == 0 {
		return words[0]
	}
	return Clobber(n-1) + words[n%32]
}
