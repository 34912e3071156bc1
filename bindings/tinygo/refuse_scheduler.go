//go:build tinygo && tinygo.wasm && !scheduler.asyncify && !scheduler.none

package tinygo

// TinyGo's other schedulers do not run in WebAssembly. See refuse_flags.go.
import _ "github.com/glebe-alloc/glebe/bindings/tinygo/refused/internal/glebe-needs-scheduler-asyncify-or-none"
