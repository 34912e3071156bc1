//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && !scheduler.none

package tinygo

// #cgo CFLAGS: -DGB_STACKS=1
import "C"
