//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && (glebe_envoy || nottinygc_envoy)

package tinygo

// -tags=glebe_envoy, or its synonym nottinygc_envoy: for Envoy and other hosts of proxy-wasm.
//
// These hosts copy requested data into memory that the plugin allocates, and the plugin owns the copy. If the module
// exports malloc, the host calls it, and neither side ever frees the copy. Otherwise the host calls
// proxy_on_memory_allocate, where the Go SDK returns a slice, which the collector frees. So with this tag the module
// does not export malloc and free.
//
// From that call until the host returns to the plugin nothing refers to the slice. That is safe: only an allocation
// collects, and the host requests one at a time.

/*
// Older releases of Envoy lack this function of WASI. The only thread has no other thread to yield to.
int sched_yield(void) { return 0; }
*/
import "C"
