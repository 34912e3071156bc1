//go:build tinygo

// Asks C for sched_yield, as C code with locks does: whether the host is asked for it shows in the imports.
package main

// #include <sched.h>
import "C"

import _ "github.com/glebe-alloc/glebe/bindings/tinygo"

var result C.int

func init() { result = C.sched_yield() }

func main() {}
