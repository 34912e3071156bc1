//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && !scheduler.none

package tinygo

/*
#cgo CFLAGS: -DGB_STACKS=1

// What the runtime calls to start a goroutine. This is compiled into the program's module, where it takes the place of
// the declaration; the function itself is assembly, which core.c calls.
void glebe_go_launch(void *state);
__attribute__((visibility("hidden"))) void tinygo_launch(void *state) { glebe_go_launch(state); }
*/
import "C"
