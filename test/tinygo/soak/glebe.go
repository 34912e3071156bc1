//go:build tinygo && gc.custom

package main

import glebe "github.com/glebe-alloc/glebe/bindings/tinygo"

func setLimit(bytes uintptr) {
	if !glebe.SetMemoryLimit(bytes) {
		panic("the limit")
	}
}

func live() uint64 { return glebe.ReadStats().LiveBytes }
