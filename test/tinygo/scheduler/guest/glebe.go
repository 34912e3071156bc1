//go:build gc.custom

package main

import glebe "github.com/glebe-alloc/glebe/bindings/tinygo"

//export set_stress
func setStress(every int32) { glebe.SetStress(int(every)) }

//export collections
func collections() uint32 { return uint32(glebe.ReadStats().Collections) }
