//go:build tinygo && !(gc.custom && custommalloc && tinygo.wasm)

package tinygo

// The compiler names this where the flags are missing.
var _ = glebe_wants_a_wasm_target_and_the_flags__gc_custom_and__tags_custommalloc
