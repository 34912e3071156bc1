//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && !scheduler.none

package tinygo

// A goroutine's stack is an object of 64 KiB whose every word counts. What lies in the stack of one that has ended keeps older stacks
// alive, and they still older ones: each call of a //go:wasmexport function is a goroutine, and a number on its stack that happens to
// look like the address of the one before makes a chain that never ends (counts of bytes do, in a memory that begins at 0). TinyGo 0.42
// clears the stacks of goroutines that have ended if a hook of its own finalizers is set. Older releases have no such hook, and then
// nothing is done here; nor does the hook do anything.

/*
#include <stdbool.h>

// A func() bool, as TinyGo lays it out.
extern struct { void *context; bool (*function)(void *context); } glebe_go_idle __asm__("runtime.finalizerIdleGC") __attribute__((weak));

static bool idle(void *context) { (void)context; return false; }

void glebe_go_stacks(void) { if (&glebe_go_idle) glebe_go_idle.function = idle; }
*/
import "C"

func init() { C.glebe_go_stacks() }
