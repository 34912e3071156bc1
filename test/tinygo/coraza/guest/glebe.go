//go:build gc.custom

package main

import glebe "github.com/glebe-alloc/glebe/bindings/tinygo"

func setStress(every int) { glebe.SetStress(every) }
