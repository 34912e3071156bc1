//go:build tinygo

// The contents of objects do not deceive the collector: neither the heap's own constants nor addresses. Prints "ok".
package main

import _ "github.com/glebe-alloc/glebe/bindings/tinygo"

func require(condition bool, what string) {
	if !condition {
		panic(what)
	}
}

func main() {
	canaries()
	parsed()
	graphs()
	println("ok")
}
