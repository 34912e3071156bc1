//go:build tinygo && !scheduler.none

package main

// Is the stack looked at only where it is in use? Goroutines' are still looked at whole, and what once lay there is kept.
const exactStack = false
