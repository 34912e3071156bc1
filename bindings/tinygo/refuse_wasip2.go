//go:build tinygo && wasip2 && gc.custom && custommalloc && !glebe_wasip2

package tinygo

// For wasip2 TinyGo lacks a declaration. With the tag, the program's author says that it was added, as docs/tinygo.md
// tells. See refuse_flags.go.
import _ "github.com/glebe-alloc/glebe/bindings/tinygo/refused/internal/glebe-needs-tag-glebe_wasip2-see-docs-tinygo"
