//go:build tinygo && (!tinygo.wasm || wasip2)

package tinygo

// Native programs, microcontrollers, and wasip2, whose target has no C library headers. See refuse_flags.go.
import (
	_ "github.com/glebe-alloc/glebe/bindings/tinygo/refused/internal/glebe-needs-a-target-wasip1-wasm-or-wasm-unknown"
)
