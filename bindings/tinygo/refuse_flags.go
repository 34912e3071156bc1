//go:build tinygo && tinygo.wasm && !(gc.custom && custommalloc)

package tinygo

// A build without the flags ends here: this package may not import an internal package of `refused`, and the error
// names that package's path. The error comes before anything is compiled.
import _ "github.com/glebe-alloc/glebe/bindings/tinygo/refused/internal/glebe-needs-gc-custom-and-tags-custommalloc"
