// Package tinygo replaces TinyGo's garbage collector and C allocator in WebAssembly by glebe's:
//
//	import _ "github.com/glebe-alloc/glebe/bindings/tinygo"
//
//	tinygo build -target=wasip1 -gc=custom -tags=custommalloc
//
// With any other compiler, and without those flags, it is not there: a build without them says so.
package tinygo
