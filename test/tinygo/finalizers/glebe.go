//go:build tinygo && gc.custom

package main

import _ "github.com/glebe-alloc/glebe/bindings/tinygo"
