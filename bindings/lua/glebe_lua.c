/* glebe for Lua: glebe_lua.h says what each function promises.
 *
 *     lua_State --lua_Alloc, ud--> account { heap, live, peak, ... }
 *                                     |       itself a block of that heap: destroying the heap ends both
 *                                     +-- before: the previous allocator of a state that adopted its heap
 *
 * A state's allocator is one of three functions, which also mark the state as ours:
 *
 *     account_alloc   every block is in the heap
 *     adopted_alloc   other blocks go to `before`; a block that Lua resizes moves to the heap
 *     closing_alloc   the last finalizer of glebe_lua_close has run: frees do nothing, since the heap is destroyed
 *                     afterwards
 *
 * 1. The state's first block contains the lua_State. It is the last block that lua_close frees; the heap is destroyed
 *    with it.
 * 2. Sizes are exact, since Lua passes each block's last size. Only the bytes from before an adoption are an estimate:
 *    Lua does not count the buffers of its auxiliary library.
 * 3. Nothing here calls Lua from inside lua_Alloc.
 * 4. Lua runs finalizers in reverse order of their creation, so our object (`last`), the first, comes last, unless a
 *    collection while the state closes finds more objects to finalize. Such a collection also frees an object that only
 *    a weak table holds (`witness`), so while that exists there was none. LuaJIT, and states that adopt their heap,
 *    guarantee neither: there each block is freed. */

#include "glebe_lua.h"

#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#ifdef LUA_JITLIBNAME
#include <luajit.h>
enum { IS_LUAJIT = 1 };
#else
enum { IS_LUAJIT = 0 };
#endif

/* Registry keys. LAST: the object that is finalized last; while the state closes, the weak table with the witness.
 * MARK: set in a state that has a heap, so that another copy of this code sees it too. */
#define LAST "glebe.last"
#define MARK "glebe.heap"

typedef struct account {
    glebe_heap *heap;
    size_t live, peak;
    lua_State *main; /* NULL while lua_newstate runs, and glebe_lua_close */
    size_t limit;
    size_t relieved; /* held after the last collection by glebe_lua_relieve; 0 once it is below the threshold */
    uint64_t refusals, relieved_refusals;
    bool asking; /* in the pressure callback */
    bool warns, warning; /* Lua 5.4: warnings are on; the current warning has more parts */
    glebe_lua_pressure *pressure;
    void *context;
    size_t foreign;
    lua_Alloc before;
    void *before_ud;
} account;

/* ---- allocating ---- */

/* For a NULL block Lua passes the kind of the new object instead of an old size. */
void *glebe_lua_alloc(void *heap, void *block, size_t old_bytes, size_t new_bytes)
{
    return glebe_heap_realloc_sized(heap, block, old_bytes, new_bytes);
}

static int account_limit(account *a, size_t limit_bytes)
{
    int failed = glebe_heap_limit(a->heap, limit_bytes);
    if (!failed)
        a->limit = limit_bytes;
    return failed;
}

static void *account_refused(account *a, void *block, size_t old_bytes, size_t new_bytes)
{
    size_t before = a->limit, limit = before;
    a->asking = a->pressure != NULL;
    bool again = a->pressure && a->pressure(a->context, new_bytes, glebe_heap_bytes(a->heap), &limit);
    a->asking = false;
    if (again) {
        if (limit != before)
            account_limit(a, limit);
        void *served = glebe_lua_alloc(a->heap, block, old_bytes, new_bytes);
        if (served)
            return served;
    }
    a->refusals++;
    return NULL;
}

/* `block` is NULL or in the heap. */
static inline void *account_grant(account *a, void *block, size_t old_bytes, size_t new_bytes)
{
    void *served = glebe_lua_alloc(a->heap, block, old_bytes, new_bytes);
    if (!served && !(served = account_refused(a, block, old_bytes, new_bytes)))
        return NULL;
    a->live += new_bytes - (block ? old_bytes : 0);
    if (a->live > a->peak)
        a->peak = a->live;
    return served;
}

static inline bool is_last(const account *a, const void *block, size_t bytes)
{
    return (uintptr_t)a->main - (uintptr_t)block < bytes;
}

static void *account_alloc(void *ud, void *block, size_t old_bytes, size_t new_bytes)
{
    account *a = ud;
    if (new_bytes != 0)
        return account_grant(a, block, old_bytes, new_bytes);
    if (!block)
        return NULL;
    if (is_last(a, block, old_bytes))
        glebe_heap_destroy(a->heap);
    else {
        a->live -= old_bytes;
        glebe_heap_free_sized(a->heap, block, old_bytes);
    }
    return NULL;
}

static void foreign_less(account *a, size_t bytes) { a->foreign -= bytes < a->foreign ? bytes : a->foreign; }

static void foreign_free(account *a, void *block, size_t bytes)
{
    foreign_less(a, bytes);
    a->before(a->before_ud, block, bytes, 0);
}

static void *adopted_alloc(void *ud, void *block, size_t old_bytes, size_t new_bytes)
{
    account *a = ud;
    if (!block || glebe_heap_owns(a->heap, block))
        return account_alloc(a, block, old_bytes, new_bytes);
    if (new_bytes == 0) {
        bool last = is_last(a, block, old_bytes);
        foreign_free(a, block, old_bytes);
        if (last)
            glebe_heap_destroy(a->heap);
        return NULL;
    }
    void *moved = account_grant(a, NULL, 0, new_bytes);
    if (!moved && new_bytes > old_bytes)
        return NULL;
    if (!moved) {
        foreign_less(a, old_bytes - new_bytes);
        return a->before(a->before_ud, block, old_bytes, new_bytes);
    }
    memcpy(moved, block, old_bytes < new_bytes ? old_bytes : new_bytes);
    foreign_free(a, block, old_bytes);
    return moved;
}

/* Only frees are expected. */
static void *closing_alloc(void *ud, void *block, size_t old_bytes, size_t new_bytes)
{
    return new_bytes == 0 ? NULL : account_alloc(ud, block, old_bytes, new_bytes);
}

/* ---- states ---- */

static account *account_of(lua_State *L)
{
    void *ud;
    lua_Alloc alloc = lua_getallocf(L, &ud);
    return alloc == account_alloc || alloc == adopted_alloc || alloc == closing_alloc ? ud : NULL;
}

/* The cap is set later: a state that hit it during creation would run Lua's rarely tested error paths. */
static account *account_new(const glebe_lua_options *options)
{
    glebe_heap *heap = glebe_heap_create(0);
    account *a = heap ? glebe_heap_calloc(heap, 1, sizeof *a) : NULL;
    if (!a) {
        glebe_heap_destroy(heap);
        return NULL;
    }
    a->heap = heap;
    if (options) {
        a->pressure = options->pressure;
        a->context = options->context;
    }
    return a;
}

/* The registry's value under MARK: a full collection. It is called protected, since finalizers raise errors before Lua
 * 5.4. It is stored early because in Lua 5.1 pushing a C function takes memory. It returns false if Lua does not
 * collect: Lua 5.4 in a finalizer. */
static int collect(lua_State *L)
{
    lua_pushboolean(L, lua_gc(L, LUA_GCCOLLECT, 0) >= 0);
    return 1;
}

static int mark(lua_State *L)
{
    lua_pushcfunction(L, collect);
    lua_setfield(L, LUA_REGISTRYINDEX, MARK);
    return 0;
}

static int last(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, LAST);
    if (!lua_istable(L, -1))
        return 0;
    lua_rawgeti(L, -1, 1);
    if (!lua_isnil(L, -1))
        lua_setallocf(L, closing_alloc, account_of(L));
    return 0;
}

static int witness(lua_State *L)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_newtable(L);
    lua_rawseti(L, -2, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, LAST);
    return 0;
}

/* In a new state. */
static int prepare(lua_State *L)
{
    mark(L);
    lua_newuserdata(L, 0);
    lua_newtable(L);
    lua_pushcfunction(L, last);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_setfield(L, LUA_REGISTRYINDEX, LAST);
    return 0;
}

static int protect(lua_State *L, lua_CFunction function)
{
#if LUA_VERSION_NUM < 502
    return lua_cpcall(L, function, NULL);
#else
    lua_pushcfunction(L, function);
    return lua_pcall(L, 0, 0, 0);
#endif
}

static bool is_marked(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, MARK);
    bool marked = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return marked;
}

/* As luaL_newstate's: an error outside any protected call. */
static int panic(lua_State *L)
{
    const char *what = lua_tostring(L, -1);
    fprintf(stderr, "PANIC: unprotected error in call to Lua API (%s)\n", what ? what : "error object is not a string");
    return 0;
}

#if LUA_VERSION_NUM >= 504
/* As luaL_newstate's: off until a message "@on". */
static void warn(void *ud, const char *message, int goes_on)
{
    account *a = ud;
    if (!goes_on && !a->warning && message[0] == '@') {
        if (strcmp(message, "@on") == 0 || strcmp(message, "@off") == 0)
            a->warns = message[2] == 'n';
    } else if (a->warns) {
        fprintf(stderr, "%s%s%s", a->warning ? "" : "Lua warning: ", message, goes_on ? "" : "\n");
        a->warning = goes_on;
    }
}
#endif

lua_State *glebe_lua_newstate(const glebe_lua_options *options)
{
    account *a = account_new(options);
    if (!a)
        return NULL;
    lua_State *L = lua_newstate(account_alloc, a);
    if (!L) {
        glebe_heap_destroy(a->heap);
        return NULL;
    }
    a->main = L;
    lua_atpanic(L, panic);
#if LUA_VERSION_NUM >= 504
    lua_setwarnf(L, warn, a);
#endif
    if (protect(L, prepare) != 0 || glebe_lua_limit(L, options ? options->limit_bytes : 0) != 0) {
        lua_close(L);
        return NULL;
    }
    return L;
}

/* Is there room for the witness, in pages of its own? A failed attempt would hurt the finalizers: Lua 5.3 then frees
 * call frames that they need. */
static bool has_room(const account *a)
{
    size_t room = 64 << 10;
    return a->limit == 0 || (a->limit >= room && glebe_heap_bytes(a->heap) <= a->limit - room);
}

void glebe_lua_close(lua_State *L, glebe_lua_closing how)
{
    account *a = account_of(L);
    if (!a || a->before) {
        lua_close(L);
        return;
    }
    glebe_heap *heap = a->heap;
    if (how == GLEBE_LUA_FINALIZE) {
        if (!IS_LUAJIT && has_room(a))
            protect(a->main, witness); /* if it fails, each block is freed */
        a->main = NULL; /* the heap stays after its last block */
        lua_close(L);
    }
#ifdef LUA_JITLIBNAME
    else
        luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_FLUSH); /* machine code is in mappings of its own */
#endif
    glebe_heap_destroy(heap);
}

/* NULL in a coroutine of Lua 5.1, which does not know its main state. */
static lua_State *main_state(lua_State *L)
{
#ifdef LUA_RIDX_MAINTHREAD
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    bool is_main = true;
#else
    bool is_main = lua_pushthread(L);
#endif
    lua_State *state = lua_tothread(L, -1);
    lua_pop(L, 1);
    return is_main ? state : NULL;
}

/* LuaJIT is binary compatible with Lua 5.1, so it may load a module compiled for 5.1. It frees its own allocator as a
 * whole only while the state uses it, and some of its builds accept no blocks of other allocators. */
static bool is_luajit(lua_State *L)
{
    bool found = false;
    lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
    if (lua_istable(L, -1)) {
        lua_getfield(L, -1, "jit");
        found = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return found;
}

int glebe_lua_adopt(lua_State *L, const glebe_lua_options *options)
{
    luaL_checkstack(L, 3, "adopt");
    if (is_marked(L))
        return EEXIST;
    lua_State *main = main_state(L);
    if (!main || is_luajit(L))
        return ENOTSUP;
    mark(L); /* may raise an error, and nothing has happened yet */
    account *a = account_new(options);
    if (!a || account_limit(a, options ? options->limit_bytes : 0) != 0) {
        if (a)
            glebe_heap_destroy(a->heap);
        lua_pushnil(L);
        lua_setfield(L, LUA_REGISTRYINDEX, MARK);
        return ENOMEM;
    }
    a->main = main;
    a->before = lua_getallocf(L, &a->before_ud);
    int kib = lua_gc(L, LUA_GCCOUNT, 0); /* -1 in a finalizer */
    a->foreign = kib < 0 ? 0 : ((size_t)kib << 10) + (size_t)lua_gc(L, LUA_GCCOUNTB, 0);
    lua_setallocf(L, adopted_alloc, a);
    return 0;
}

/* ---- the account ---- */

bool glebe_lua_stats_read(lua_State *L, glebe_lua_stats *out)
{
    const account *a = account_of(L);
    if (!a)
        return false;
    *out = (glebe_lua_stats){.live = a->live, .peak = a->peak, .held = glebe_heap_bytes(a->heap), .limit = a->limit,
        .foreign = a->foreign, .refusals = a->refusals};
    return true;
}

int glebe_lua_limit(lua_State *L, size_t limit_bytes)
{
    account *a = account_of(L);
    return a ? account_limit(a, limit_bytes) : EINVAL;
}

size_t glebe_lua_trim(lua_State *L)
{
    account *a = account_of(L);
    return a ? glebe_trim(a->heap) : 0;
}

/* A state near its cap is not collected at each call, but when it has grown by a sixteenth of the cap. If less than
 * that is left, or a request has failed since, it is collected at once. */
static bool relief_is_due(const account *a, size_t held)
{
    size_t part = a->limit / 16;
    return a->relieved == 0 || held >= a->relieved + part || held > a->limit - part ||
        a->refusals != a->relieved_refusals;
}

bool glebe_lua_relieve(lua_State *L, unsigned percent)
{
    account *a = account_of(L);
    if (!a || !a->main || a->limit == 0 || a->asking)
        return false;
    size_t held = glebe_heap_bytes(a->heap);
    if (held <= a->limit / 100 * percent) {
        a->relieved = 0;
        return false;
    }
    if (!relief_is_due(a, held))
        return false;
    lua_getfield(L, LUA_REGISTRYINDEX, MARK);
    bool collected = lua_pcall(L, 0, 1, 0) != 0 || lua_toboolean(L, -1); /* a finalizer fails after the sweep */
    lua_pop(L, 1);
    if (!collected)
        return false;
    glebe_trim(a->heap);
    a->relieved = glebe_heap_bytes(a->heap);
    a->relieved_refusals = a->refusals;
    return true;
}

/* ---- the module ---- */

static void push_bytes(lua_State *L, const char *name, uint64_t bytes)
{
    lua_pushinteger(L, (lua_Integer)bytes);
    lua_setfield(L, -2, name);
}

/* stats() -> table, or nothing if the state has no heap of its own */
static int module_stats(lua_State *L)
{
    glebe_lua_stats stats;
    if (!glebe_lua_stats_read(L, &stats))
        return 0;
    lua_newtable(L);
#define PUSH(name, meaning) push_bytes(L, #name, stats.name);
    GLEBE_LUA_STATS(PUSH)
#undef PUSH
    return 1;
}

/* trim() -> bytes returned to the system */
static int module_trim(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)glebe_lua_trim(L));
    return 1;
}

/* true, or nil and why not */
static int module_result(lua_State *L, int failed)
{
    lua_settop(L, 0);
    if (!failed) {
        lua_pushboolean(L, true);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, failed == EBUSY ? "the heap holds more already"
                       : failed == ENOMEM ? "not enough memory"
                       : failed == EEXIST ? "the state has a heap of its own already"
                       : failed == EINVAL ? "the state has no heap of its own: call adopt first"
                                          : "not here: in LuaJIT, or in a coroutine of Lua 5.1");
    return 2;
}

static size_t check_bytes(lua_State *L)
{
    lua_Integer bytes = luaL_optinteger(L, 1, 0);
    luaL_argcheck(L, bytes >= 0, 1, "a cap is 0 bytes or more, and a number that this Lua can count to");
    /* before Lua 5.3 half a byte would become 0, which means no cap */
    luaL_argcheck(L, lua_isnoneornil(L, 1) || lua_tonumber(L, 1) == (lua_Number)bytes, 1, "a cap is whole bytes");
    return (size_t)bytes;
}

/* limit(bytes) -> true, or nil and why not */
static int module_limit(lua_State *L)
{
    luaL_checkinteger(L, 1);
    return module_result(L, glebe_lua_limit(L, check_bytes(L)));
}

/* adopt([limit]) -> true, or nil and why not */
static int module_adopt(lua_State *L)
{
    glebe_lua_options options = {.limit_bytes = check_bytes(L)};
    return module_result(L, glebe_lua_adopt(L, &options));
}

int luaopen_glebe(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"stats", module_stats}, {"trim", module_trim}, {"limit", module_limit}, {"adopt", module_adopt}};
    lua_newtable(L);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushcfunction(L, functions[i].func);
        lua_setfield(L, -2, functions[i].name);
    }
    return 1;
}
