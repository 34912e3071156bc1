module github.com/glebe-alloc/glebe/test/hosts

go 1.25.0

require (
	github.com/glebe-alloc/glebe v0.0.0
	github.com/tetratelabs/proxy-wasm-go-sdk v0.24.0
)

replace github.com/glebe-alloc/glebe => ../..
