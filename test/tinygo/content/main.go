//go:build tinygo

// What objects hold decides nothing about others: not the heap's own constants, and no addresses. Prints "ok".
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
