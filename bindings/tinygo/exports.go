//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && !wasm_unknown && !(glebe_envoy || nottinygc_envoy)

package tinygo

// Hosts that pass data by a module's own malloc and free find them, as they do in other modules of TinyGo.

// #cgo LDFLAGS: --export=malloc --export=free
import "C"
