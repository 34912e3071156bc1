// Package tinygo replaces TinyGo's garbage collector and C allocator in WebAssembly by glebe's:
//
//	import _ "github.com/glebe-alloc/glebe/bindings/tinygo"
//
//	tinygo build -target=wasip1 -gc=custom -tags=custommalloc
//
// With any other compiler it is not there. A build without those flags, for another target or scheduler is refused.
package tinygo
