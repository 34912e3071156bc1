/* glebe for Lua: a state with a heap of its own, a cap, and an account.            MIT OR Apache-2.0
 *
 *     glebe_lua_options options = {.limit_bytes = 16 << 20};
 *     lua_State *L = glebe_lua_newstate(&options);
 *     luaL_openlibs(L);
 *     ... luaL_dofile(L, "script.lua"): beyond the cap the script gets "not enough memory"; the host continues ...
 *     glebe_lua_close(L, GLEBE_LUA_FINALIZE);
 *
 * For Lua 5.1 to 5.4 and LuaJIT: compile glebe_lua.c with the headers of the Lua that you link. docs/lua.md says more.
 * As always in Lua, one thread at a time may use a state; each thread may have its own states. */
#ifndef GLEBE_LUA_H
#define GLEBE_LUA_H

#include "glebe.h"

#ifdef __cplusplus
extern "C" {
#endif

#include <lua.h>

/* A lua_Alloc for lua_newstate, whose `ud` is a glebe_heap. It keeps no account, so the functions below do not know a
 * state that uses it. Blocks have no header. Small ones are resized by the sizes that Lua passes, without a look-up.
 * Shrinking never fails. */
GLEBE_API void *glebe_lua_alloc(void *heap, void *block, size_t old_bytes, size_t new_bytes);

/* Called when the cap or the system refuses a request. The call comes from inside lua_Alloc, so it must not touch this
 * state, not even with lua_gc (Lua 5.2 and later collect after this call, if that is safe). It may collect or close
 * other states that are not in such a call, free memory elsewhere, or write a new cap to *limit_bytes. true: the
 * request is tried again, once. */
typedef bool glebe_lua_pressure(void *context, size_t asked_bytes, size_t held_bytes, size_t *limit_bytes);

typedef struct glebe_lua_options {
    size_t limit_bytes; /* the cap; 0 is none */
    glebe_lua_pressure *pressure; /* or NULL */
    void *context; /* passed to `pressure` */
} glebe_lua_options;

/* A state in a heap of its own, or NULL if there is no memory. `options` may be NULL. The cap limits what the heap
 * holds: 32 KiB that all sizes share, then pages of 16 KiB for each size, so a cap under 80 KiB is too small. LuaJIT:
 * NULL if its build requires its own allocator. */
GLEBE_API lua_State *glebe_lua_newstate(const glebe_lua_options *options);

/* GLEBE_LUA_FINALIZE: as lua_close, but frees everything at once after the last finalizer. GLEBE_LUA_DROP: frees
 * everything at once and runs no finalizer, so files stay open and their buffered data is lost (in states that adopted
 * their heap it works as FINALIZE). lua_close works too, and frees each block, as with any allocator. */
typedef enum glebe_lua_closing { GLEBE_LUA_FINALIZE, GLEBE_LUA_DROP } glebe_lua_closing;
GLEBE_API void glebe_lua_close(lua_State *L, glebe_lua_closing how);

/* Changes the cap. Returns 0; EBUSY if the heap holds more already (the cap stays; collect, then call glebe_lua_trim);
 * EINVAL if the state has no heap of ours. */
GLEBE_API int glebe_lua_limit(lua_State *L, size_t limit_bytes);

/* Returns the free memory of the state's heap to the system. Returns the number of bytes. */
GLEBE_API size_t glebe_lua_trim(lua_State *L);

/* Runs a full collection if the heap holds more than `percent` of the cap. The host calls it between calls into the
 * state, or in a C function that a script calls. If more than that is left, the next collection is due when the heap
 * has grown by 1/16 of the cap, when less than 1/16 of the cap is free, or when a request has failed. Lua 5.1 and
 * LuaJIT do not collect when memory is exhausted, so this collects before. It needs no protected call: errors of
 * finalizers are dropped. true: it collected. In the pressure callback, and in a finalizer that glebe_lua_close
 * runs, it does nothing. (In Lua 5.3 a full collection may never end if a finalizer that lua_close runs starts it: it
 * depends on the phase of the collection that the state was in.) */
GLEBE_API bool glebe_lua_relieve(lua_State *L, unsigned percent);

/* Moves a running state to a heap of its own, for all later allocations. Existing blocks stay with the old allocator
 * until they are freed or resized. Call it from a function that Lua calls; in Lua 5.1 not from a coroutine. Returns 0,
 * ENOMEM, EEXIST (it has one already), or ENOTSUP (LuaJIT must keep its own allocator; a coroutine of Lua 5.1). This
 * code must stay loaded as long as the state exists. */
GLEBE_API int glebe_lua_adopt(lua_State *L, const glebe_lua_options *options);

/* X(name, meaning): the account of a state, in bytes except for refusals */
#define GLEBE_LUA_STATS(X)                                                                                             \
    X(live, "in blocks of the heap, by the sizes that Lua requested")                                                  \
    X(peak, "the highest value of live")                                                                               \
    X(held, "that the heap holds in pages, which the cap limits")                                                      \
    X(limit, "the cap; 0 is none")                                                                                     \
    X(foreign, "in blocks from before glebe.adopt, which stay in the old allocator until they are resized")            \
    X(refusals, "requests that failed; Lua 5.2 and later then collect and try again")

typedef struct glebe_lua_stats {
#define GLEBE_LUA_FIELD(name, meaning) uint64_t name;
    GLEBE_LUA_STATS(GLEBE_LUA_FIELD)
#undef GLEBE_LUA_FIELD
} glebe_lua_stats;
/* false if the state has no heap of ours; then *out is not written. */
GLEBE_API bool glebe_lua_stats_read(lua_State *L, glebe_lua_stats *out);

/* The module `glebe`: stats, trim, limit, adopt. For luaL_requiref, package.preload, or `require` if this is linked as
 * glebe.so. */
__attribute__((visibility("default"))) int luaopen_glebe(lua_State *L);

#ifdef __cplusplus
}
#endif
#endif
