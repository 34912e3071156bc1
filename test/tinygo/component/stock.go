//go:build !gc.custom

package main

func stress(n int) {}

func collected() uint32 { return 0 }
