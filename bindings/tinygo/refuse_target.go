//go:build tinygo && !tinygo.wasm

package tinygo

// Native programs and microcontrollers. See refuse_flags.go.
import (
	_ "github.com/glebe-alloc/glebe/bindings/tinygo/refused/internal/glebe-needs-a-target-wasip1-wasm-or-wasm-unknown"
)
