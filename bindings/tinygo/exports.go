//go:build gc.custom && custommalloc && tinygo.wasm && !(wasm_unknown || wasip2 || glebe_envoy || nottinygc_envoy)

package tinygo

// Some hosts pass data in memory from the module's malloc and free. They find both here, as in other TinyGo modules.

// #cgo LDFLAGS: --export=malloc --export=free
import "C"
