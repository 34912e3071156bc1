//go:build tinygo && tinygo.wasm && !wasip2 && !scheduler.asyncify && !scheduler.none

package tinygo

// TinyGo's others, which have no WebAssembly to run on. See refuse_flags.go.
import _ "github.com/glebe-alloc/glebe/bindings/tinygo/refused/internal/glebe-needs-scheduler-asyncify-or-none"
