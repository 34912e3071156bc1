//go:build tinygo && (!tinygo.wasm || wasip2)

package tinygo

// Native programs and microcontrollers; wasip2, whose target has no C library that C could include. See
// refuse_flags.go.
import (
	_ "github.com/glebe-alloc/glebe/bindings/tinygo/refused/internal/glebe-needs-a-target-wasip1-wasm-or-wasm-unknown"
)
