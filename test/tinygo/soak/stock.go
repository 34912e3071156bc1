//go:build tinygo && !gc.custom

package main

// TinyGo's own collectors have no limit except the engine's.
func setLimit(uintptr) {}

func live() uint64 { return 0 }
