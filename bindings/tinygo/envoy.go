//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && (glebe_envoy || nottinygc_envoy)

package tinygo

// -tags=glebe_envoy (or nottinygc_envoy, the same): for Envoy, and other hosts of proxy-wasm.
//
// Such a host copies what the plugin asks for into memory that the plugin allocates, and the plugin owns the copy. If
// the module exports malloc, the host calls that, and nothing frees the copy: neither side calls free. If it
// does not, the host calls proxy_on_memory_allocate, where the Go SDK returns a slice, which the collector frees. So
// this module exports nothing of malloc.
//
// Between that call and its return into the plugin nothing refers to the slice. That is safe: only an allocation
// collects, and the host asks for one at a time.

/*
// Older releases of Envoy lack this function of WASI. There is one thread, so there is none to yield to.
int sched_yield(void) { return 0; }
*/
import "C"
