//go:build !gc.custom

package main

func setStress(int) {}
