//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && (glebe_envoy || nottinygc_envoy)

package tinygo

// -tags=glebe_envoy (or nottinygc_envoy, the same): for Envoy, and other hosts of proxy-wasm.
//
// Such a host copies what the plugin asks for into memory that the plugin allocates, and the plugin takes it over. If malloc is
// exported the host calls that, and the copy is never freed, for no one calls free. If it is not, the host calls
// proxy_on_memory_allocate, by which the Go SDK hands out a slice, and the collector sees to it. So nothing of malloc is exported.
//
// Between that call and its return into the plugin nothing refers to the slice. That is safe: a collection happens inside an allocation
// only, and the host asks for one at a time.

/*
// Older releases of Envoy lack this function of WASI. There is one thread, so there is none to yield to.
int sched_yield(void) { return 0; }
*/
import "C"
