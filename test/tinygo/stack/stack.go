// Package stack has the test programs' shared code about the stack.
package stack

// Clobber overwrites the stack below its caller, n frames deep, to remove the references of functions that returned.
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
