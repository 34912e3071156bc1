//go:build gc.custom

package main

import glebe "github.com/glebe-alloc/glebe/bindings/tinygo"

func stress(n int) { glebe.SetStress(n) }

func collected() uint32 { return uint32(glebe.ReadStats().Collections) }
