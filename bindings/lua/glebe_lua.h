/* glebe for Lua: a state with a heap of its own, a cap, and an account.            MIT OR Apache-2.0
 *
 *     glebe_lua_options options = {.limit_bytes = 16 << 20};
 *     lua_State *L = glebe_lua_newstate(&options);
 *     luaL_openlibs(L);
 *     ... luaL_dofile(L, "script.lua"): beyond the cap the script gets "not enough memory", and the host goes on ...
 *     glebe_lua_close(L, GLEBE_LUA_FINALIZE);
 *
 * For Lua 5.1 to 5.4 and LuaJIT: compile glebe_lua.c with the headers of the one that you link. docs/lua.md has the
 * rest. One thread at a time may use a state, as ever; any number of threads may each have theirs. */
#ifndef GLEBE_LUA_H
#define GLEBE_LUA_H

#include "glebe.h"

#ifdef __cplusplus
extern "C" {
#endif

#include <lua.h>

/* A lua_Alloc for lua_newstate, whose `ud` is a glebe_heap. It keeps no account: with it the functions below do not
 * know the state. Blocks have no header, and small ones are resized by the sizes that Lua passes, without a look-up.
 * Shrinking never fails. */
GLEBE_API void *glebe_lua_alloc(void *heap, void *block, size_t old_bytes, size_t new_bytes);

/* Called when the cap, or the system, refuses a request: from inside lua_Alloc, so it must not touch this
 * state, not by lua_gc either (where it is safe to collect, Lua 5.2 and later do so themselves, after this). It may
 * collect or close other states that are not in such a call, free memory elsewhere, or write a new cap to
 * *limit_bytes. true: the request is tried again, once. */
typedef bool glebe_lua_pressure(void *context, size_t asked_bytes, size_t held_bytes, size_t *limit_bytes);

typedef struct glebe_lua_options {
    size_t limit_bytes; /* the cap; 0 is none */
    glebe_lua_pressure *pressure; /* or NULL */
    void *context; /* for it */
} glebe_lua_options;

/* A state in a heap of its own, or NULL where there is no memory. `options` may be NULL. The cap is on what the heap
 * holds: 32 KiB that all sizes share, then pages of 16 KiB for each, so one under 80 KiB leaves no room. LuaJIT:
 * NULL where its build wants its own allocator. */
GLEBE_API lua_State *glebe_lua_newstate(const glebe_lua_options *options);

/* GLEBE_LUA_FINALIZE: as lua_close, but what is left after the last finalizer is freed at once. GLEBE_LUA_DROP: frees
 * everything at once; no finalizer runs, so files stay open and what they buffer is lost (states that adopted their
 * heap do as with FINALIZE). lua_close does well too, block by block, as with any allocator. */
typedef enum glebe_lua_closing { GLEBE_LUA_FINALIZE, GLEBE_LUA_DROP } glebe_lua_closing;
GLEBE_API void glebe_lua_close(lua_State *L, glebe_lua_closing how);

/* Changes the cap: EBUSY where the heap holds more already (it stays as it was; collect, and glebe_lua_trim), EINVAL
 * where the state has no heap of ours, or 0. */
GLEBE_API int glebe_lua_limit(lua_State *L, size_t limit_bytes);

/* Gives back to the system what is free in the state's heap. Returns how many bytes. */
GLEBE_API size_t glebe_lua_trim(lua_State *L);

/* For the host to call between two calls into the state, or in a C function that a script calls: a full collection,
 * if the heap holds more than `percent` of the cap. After one that left more than that, the next is due when the
 * heap has grown by 1/16 of the cap, when less than 1/16 of the cap is free, or when a request has failed. Lua 5.1
 * and LuaJIT do not collect when memory ends: this does it before. It needs no protected call: an error of a
 * finalizer is dropped. true: it collected. In the pressure callback it does nothing. */
GLEBE_API bool glebe_lua_relieve(lua_State *L, unsigned percent);

/* Moves a running state to a heap of its own: what it allocates from now on comes from there. Blocks that it has
 * stay with the allocator that gave them until they are freed or resized. To be called from a function that Lua
 * calls; in Lua 5.1 not from a coroutine. 0, ENOMEM, EEXIST (it has one already), or ENOTSUP (LuaJIT: its own
 * allocator must stay). This code must stay loaded as long as the state. */
GLEBE_API int glebe_lua_adopt(lua_State *L, const glebe_lua_options *options);

/* X(name, meaning): the account of a state, all bytes but for refusals */
#define GLEBE_LUA_STATS(X)                                                                                             \
    X(live, "in blocks of the heap, by the sizes that Lua asked for")                                                  \
    X(peak, "the most that live has been")                                                                             \
    X(held, "that the heap holds in pages: what the cap is on")                                                        \
    X(limit, "the cap; 0 is none")                                                                                     \
    X(foreign, "in blocks from before glebe.adopt, which stay where they were until they are resized")                 \
    X(refusals, "requests that failed; Lua 5.2 and later collect then, and ask again")

typedef struct glebe_lua_stats {
#define GLEBE_LUA_FIELD(name, meaning) uint64_t name;
    GLEBE_LUA_STATS(GLEBE_LUA_FIELD)
#undef GLEBE_LUA_FIELD
} glebe_lua_stats;
/* false where the state has no heap of ours: nothing is written. */
GLEBE_API bool glebe_lua_stats_read(lua_State *L, glebe_lua_stats *out);

/* The module `glebe`: stats, trim, limit, adopt. For luaL_requiref, package.preload, or `require` when this is
 * linked as glebe.so. */
__attribute__((visibility("default"))) int luaopen_glebe(lua_State *L);

#ifdef __cplusplus
}
#endif
#endif
