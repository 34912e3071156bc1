module github.com/glebe-alloc/glebe/test/hosts

go 1.25.0

require (
	github.com/glebe-alloc/glebe v0.0.0
	github.com/http-wasm/http-wasm-guest-tinygo v0.4.0
	github.com/http-wasm/http-wasm-host-go v0.7.0
	github.com/tetratelabs/proxy-wasm-go-sdk v0.24.0
	github.com/tetratelabs/wazero v1.12.0
)

require golang.org/x/sys v0.44.0 // indirect

replace github.com/glebe-alloc/glebe => ../..
