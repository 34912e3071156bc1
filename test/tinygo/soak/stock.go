//go:build tinygo && !gc.custom

package main

// TinyGo's own collectors know no limit but the engine's.
func setLimit(uintptr) {}

func live() uint64 { return 0 }
