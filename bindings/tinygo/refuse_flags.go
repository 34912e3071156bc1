//go:build tinygo && tinygo.wasm && !wasip2 && !(gc.custom && custommalloc)

package tinygo

// A build without the flags ends here: this package may not import that one, and the line that says so has its path. It
// is said before anything is compiled.
import _ "github.com/glebe-alloc/glebe/bindings/tinygo/refused/internal/glebe-needs-gc-custom-and-tags-custommalloc"
