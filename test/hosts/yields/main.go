//go:build tinygo

// Calls C's sched_yield, as C code with locks does. The imports show whether the host must provide it.
package main

// #include <sched.h>
import "C"

import _ "github.com/glebe-alloc/glebe/bindings/tinygo"

var result C.int

func init() { result = C.sched_yield() }

func main() {}
