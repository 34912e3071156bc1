//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && scheduler.none

package tinygo

func finalizersStart() {}

func finalizersNotice() {}
