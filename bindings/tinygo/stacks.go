//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && !scheduler.none

package tinygo

/*
#cgo CFLAGS: -DGB_STACKS=1

// The runtime calls tinygo_launch to start a goroutine. This definition is compiled into the program's module, where it
// replaces the declaration; core.c calls the real function, which is assembly.
void glebe_go_launch(void *state);
__attribute__((visibility("hidden"))) void tinygo_launch(void *state) { glebe_go_launch(state); }
*/
import "C"
