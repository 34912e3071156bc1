// The requirements of the TinyGo bench, in a module of its own so that no user of glebe gets them.
module github.com/glebe-alloc/glebe/bench/tinygo

go 1.25.0

require (
	github.com/glebe-alloc/glebe v0.0.0
	github.com/tetratelabs/wazero v1.12.0
	github.com/wasilibs/nottinygc v0.7.1
)

require (
	github.com/magefile/mage v1.14.0 // indirect
	golang.org/x/sys v0.44.0 // indirect
)

replace github.com/glebe-alloc/glebe => ../..
