// Package tinygo replaces TinyGo's garbage collector and C allocator in WebAssembly by glebe's:
//
//	import _ "github.com/glebe-alloc/glebe/bindings/tinygo"
//
//	tinygo build -target=wasip1 -gc=custom -tags=custommalloc
//
// Other compilers see an empty package. TinyGo refuses a build without those flags, or for another target or scheduler.
package tinygo
