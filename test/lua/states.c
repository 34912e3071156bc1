/* States in heaps of their own, as in a host. states CASE: runs one case; without CASE prints the list. Exit status 77:
 * this Lua cannot do that. */
#define _XOPEN_SOURCE 700
#include "../../bindings/lua/glebe_lua.h"

#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(is) ((is) ? (void)0 : fail(#is, __LINE__))
#define MIB ((size_t)1 << 20)

static void fail(const char *what, int line)
{
    fprintf(stderr, "line %d: not so: %s\n", line, what);
    exit(1);
}

static void broken(void *context, int invariant, const void *address, const char *what)
{
    (void)context;
    fprintf(stderr, "invariant %d at %p: %s\n", invariant, address, what);
}

static void check_heaps(void) { CHECK(glebe_check(NULL, 2, broken, NULL) == 0); }

static uint64_t heaps(void)
{
    glebe_stats stats;
    glebe_stats_read(&stats);
    return stats.heaps;
}

static glebe_lua_stats account(lua_State *L)
{
    glebe_lua_stats stats;
    CHECK(glebe_lua_stats_read(L, &stats));
    CHECK(stats.live <= stats.peak && (stats.foreign > 0 || stats.live <= stats.held));
    return stats;
}

static lua_State *state(size_t limit)
{
    glebe_lua_options options = {.limit_bytes = limit};
    lua_State *L = glebe_lua_newstate(&options);
    CHECK(L);
    luaL_openlibs(L);
    return L;
}

/* NULL, or the error. */
static const char *run(lua_State *L, const char *script)
{
    lua_settop(L, 0);
    return luaL_loadstring(L, script) || lua_pcall(L, 0, 0, 0) ? lua_tostring(L, -1) : NULL;
}

static bool ends_memory(lua_State *L, const char *script)
{
    const char *error = run(L, script);
    return error && strstr(error, "not enough memory");
}

/* A full state has no memory to compile a script, but dropping a value takes none. */
static void let_go(lua_State *L, const char *name)
{
    lua_settop(L, 0);
    lua_pushnil(L);
    lua_setglobal(L, name);
    lua_gc(L, LUA_GCCOLLECT, 0);
    lua_gc(L, LUA_GCCOLLECT, 0);
}

#define FILL "kept = {} for i = 1, 60000 do kept[i] = {i, tostring(i)} end"

static void contract(void)
{
    glebe_heap *heap = glebe_heap_create(MIB);
    CHECK(!glebe_lua_alloc(heap, NULL, 5, 0)); /* 5: a type, not a size */
    char *p = NULL;
    size_t before = 7;
    for (size_t i = 1, bytes = 1; i < 2000; i++, bytes = i * 7919 % 70000 + 1) {
        char *q = glebe_lua_alloc(heap, p, before, bytes);
        CHECK(q && (!p || q[0] == (char)i) && (uintptr_t)q % 16 == 0);
        q[0] = (char)(i + 1);
        p = q;
        before = bytes;
    }
    CHECK(!glebe_lua_alloc(heap, p, before, 0));
    check_heaps();
    p = glebe_lua_alloc(heap, NULL, 0, 50000);
    memset(p, 'x', 50000);
    while (glebe_lua_alloc(heap, NULL, 0, 100))
        continue;
    CHECK(!glebe_lua_alloc(heap, p, 50000, 2 * MIB));
    p = glebe_lua_alloc(heap, p, 50000, 100); /* no room for a smaller block: shrinking still works */
    CHECK(p && p[99] == 'x');
    glebe_lua_alloc(heap, p, 100, 0);
    check_heaps();
    CHECK(glebe_lua_alloc(heap, NULL, 0, 50000));
    glebe_heap_destroy(heap);

    heap = glebe_heap_create(0);
    lua_State *L = lua_newstate(glebe_lua_alloc, heap);
    if (!L)
        exit(77);
    luaL_openlibs(L);
    glebe_lua_stats unknown;
    CHECK(!run(L, FILL) && !glebe_lua_stats_read(L, &unknown) && glebe_lua_limit(L, 1) == EINVAL);
    lua_close(L);
    glebe_trim(heap);
    CHECK(glebe_heap_bytes(heap) == 0);
    glebe_heap_destroy(heap);
}

static void cap(void)
{
    lua_State *L = state(4 * MIB), *other = state(0), *small = state(2 * MIB);
    for (int round = 0; round < 3; round++) {
        CHECK(ends_memory(L, FILL));
        CHECK(account(L).refusals > 0 && account(L).held <= 4 * MIB && account(L).peak > MIB);
        check_heaps();
        let_go(L, "kept");
        CHECK(!run(L, "local s = {} for i = 1, 1000 do s[i] = 'x' .. i end assert(#table.concat(s) == 3893)"));
        CHECK(!run(small, "local t = {} for i = 1, 1000 do t[i] = {} end"));
    }
    CHECK(ends_memory(L, "local s = 'x' while true do s = s .. s end"));
    CHECK(ends_memory(L,
        "local t = {} while true do t[#t + 1] = coroutine.wrap(function() coroutine.yield() end) t[#t]() end"));
    CHECK(!run(other, FILL) && account(other).refusals == 0); /* control */
    CHECK(glebe_lua_limit(other, MIB) == EBUSY && account(other).limit == 0);
    let_go(other, "kept");
    CHECK(glebe_lua_trim(other) > 0 && glebe_lua_limit(other, 3 * MIB) == 0 && account(other).limit == 3 * MIB);
    CHECK(ends_memory(other, FILL));
    check_heaps();
    glebe_lua_close(L, GLEBE_LUA_FINALIZE);
    glebe_lua_close(other, GLEBE_LUA_DROP);
    lua_close(small);
    CHECK(heaps() == 0);
}

/* With every cap, creating a state succeeds or fails cleanly. */
static int open_libraries(lua_State *L)
{
    luaL_openlibs(L);
    return luaL_dostring(L, "local t = {} for i = 1, 500 do t[i] = {i} end") ? lua_error(L) : 0;
}

static void tight(void)
{
    int none = 0, half = 0, whole = 0;
    for (size_t limit = 1 << 14; limit <= MIB; limit += 1 << 14) {
        glebe_lua_options options = {.limit_bytes = limit};
        lua_State *L = glebe_lua_newstate(&options);
        none += !L;
        if (!L)
            continue;
        lua_pushcfunction(L, open_libraries);
        if (lua_pcall(L, 0, 0, 0))
            half++;
        else
            whole++;
        check_heaps();
        glebe_lua_close(L, limit % (1 << 15) ? GLEBE_LUA_FINALIZE : GLEBE_LUA_DROP);
    }
    printf("%d %d %d\n", none, half, whole);
    CHECK(none && half && whole && heaps() == 0);
}

static void many(void)
{
    enum { STATES = 500 };
    static lua_State *states[STATES];
    for (int i = 0; i < 2 * STATES; i++) {
        lua_State **L = &states[i * 7 % STATES];
        if (*L) {
            CHECK(!run(*L, "assert(#text == 10 * number and list[number])"));
            if (i % 3 == 0)
                lua_close(*L);
            else
                glebe_lua_close(*L, i % 3 == 1 ? GLEBE_LUA_FINALIZE : GLEBE_LUA_DROP);
        }
        *L = state(MIB);
        lua_pushinteger(*L, i % 50 + 1);
        lua_setglobal(*L, "number");
        CHECK(!run(*L, "text = ('0123456789'):rep(number) list = {} for i = 1, number do list[i] = {i} end"));
    }
    CHECK(heaps() == STATES);
    check_heaps();
    for (int i = 0; i < STATES; i++)
        glebe_lua_close(states[i], GLEBE_LUA_DROP);
    CHECK(heaps() == 0);
    check_heaps();
}

static int finalized;

static int finalizer(lua_State *L)
{
    finalized++;
    lua_newtable(L); /* one may allocate */
    for (int i = 1; i < 100; i++) {
        lua_pushfstring(L, "%d", i);
        lua_rawseti(L, -2, i);
    }
    return 0;
}

static lua_State *with_finalizers(int count)
{
    lua_State *L = state(8 * MIB);
    finalized = 0;
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "u%d", i);
        lua_newuserdata(L, 100);
        lua_newtable(L);
        lua_pushcfunction(L, finalizer);
        lua_setfield(L, -2, "__gc");
        lua_setmetatable(L, -2);
        lua_setglobal(L, name);
    }
    CHECK(finalized == 0);
    return L;
}

static void finalizers(void)
{
    glebe_lua_close(with_finalizers(50), GLEBE_LUA_FINALIZE);
    CHECK(finalized == 50 && heaps() == 0);
    lua_close(with_finalizers(50));
    CHECK(finalized == 50 && heaps() == 0);
    glebe_lua_close(with_finalizers(50), GLEBE_LUA_DROP);
    CHECK(finalized == 0 && heaps() == 0);
#if LUA_VERSION_NUM >= 504
    for (int drop = 0; drop < 2; drop++) {
        lua_State *L = with_finalizers(0);
        lua_newtable(L);
        lua_newtable(L);
        lua_pushcfunction(L, finalizer);
        lua_setfield(L, -2, "__close");
        lua_setmetatable(L, -2);
        lua_toclose(L, -1);
        glebe_lua_close(L, drop ? GLEBE_LUA_DROP : GLEBE_LUA_FINALIZE);
        CHECK(finalized == !drop);
    }
#endif
    check_heaps();
}

static int ended;
static uint64_t held_most;

/* Called from finalizers, at their ends. */
static int at_end(lua_State *L)
{
    uint64_t held = account(L).held;
    held_most = held > held_most ? held : held_most;
    ended++;
    return 0;
}

/* The function that test/lua/object.lua returns. */
#define MAKER                                                                                                          \
    "function object(finalizer)"                                                                                       \
    "  if not newproxy then return setmetatable({}, {__gc = finalizer}) end"                                           \
    "  local u = newproxy(true) getmetatable(u).__gc = finalizer return u "                                            \
    "end "

/* Finalizers that drop 400 KB each: of tables in Lua 5.2 and later, of userdata before. At the cap Lua 5.3 and later
 * collect inside them, but not for buffers; in Lua 5.1 and LuaJIT the script collects; Lua 5.2 never does. */
#define OBJECT                                                                                                         \
    "local collect = _VERSION == 'Lua 5.1' and collectgarbage or function() end "                                      \
    "local base = ('x'):rep(20000) "                                                                                   \
    "local " MAKER                                                                                                     \
    "local function strings()"                                                                                         \
    "  for i = 1, 20 do local s = (capped and base or ('x'):rep(20000)) .. i end collect() at_end() "                  \
    "end "

/* glebe_lua_close runs as many finalizers to their ends as lua_close. Memory that one drops serves the next: the heap
 * does not hold more. */
static void close_both_ways(const char *script, int expected, int expected_capped)
{
    for (size_t cap = 0; cap <= 2 * MIB; cap += 2 * MIB) {
        if (cap && LUA_VERSION_NUM == 502)
            continue;
        uint64_t held[2];
        for (int ours = 0; ours < 2; ours++) {
            lua_State *L = state(cap);
            lua_register(L, "at_end", at_end);
            lua_pushboolean(L, cap != 0);
            lua_setglobal(L, "capped");
            CHECK(!run(L, script));
            ended = 0;
            held_most = 0;
            if (ours)
                glebe_lua_close(L, GLEBE_LUA_FINALIZE);
            else
                lua_close(L);
            held[ours] = held_most;
            fprintf(stderr, "%s, cap %zu: %d finalizers ended, %llu KiB held\n", ours ? "glebe_lua_close" : "lua_close",
                cap, ended, (unsigned long long)(held_most >> 10));
            CHECK(ended == (cap ? expected_capped : expected) && heaps() == 0);
        }
        CHECK(held[1] <= held[0] + 256 * 1024);
    }
    check_heaps();
}

static jmp_buf panicked;

static int leave(lua_State *L)
{
    (void)L;
    longjmp(panicked, 1);
}

/* A panic leaves a state with no free memory: its finalizers still get the memory that they need, so a file has its
 * contents. */
static void close_full(void)
{
    static char name[] = "/tmp/glebe-lua-XXXXXX";
    static int ours, ends[2];
    static lua_State *L;
    CHECK(close(mkstemp(name)) == 0);
    for (ours = 0; ours < 2; ours++) {
        L = state(2 * MIB);
        lua_register(L, "at_end", at_end);
        lua_pushstring(L, name);
        lua_setglobal(L, "name");
        lua_atpanic(L, leave);
        CHECK(!run(L, OBJECT "file = assert(io.open(name, 'w')) file:write('written') "
                             "kept = {} for i = 1, 10 do kept[i] = object(at_end) end"));
        CHECK(luaL_loadstring(L, "local t = {} while true do t = {t} end") == 0);
        ended = 0;
        if (setjmp(panicked) == 0)
            lua_call(L, 0, 0);
        if (ours)
            glebe_lua_close(L, GLEBE_LUA_FINALIZE);
        else
            lua_close(L);
        ends[ours] = ended;
        char text[16] = "";
        FILE *file = fopen(name, "r");
        CHECK(file && fgets(text, sizeof text, file) && strcmp(text, "written") == 0 && fclose(file) == 0);
    }
    remove(name);
    CHECK(ends[0] == 10 && ends[1] == 10 && heaps() == 0);
}

/* Also those that come after the last one of before: a finalizer makes 100 objects and collects. Lua 5.3 would not
 * return from that, but does it itself at the cap; Lua 5.4 finalizes nothing that was made while it closes. */
static void closing(void)
{
    close_both_ways(OBJECT "kept = {} for i = 1, 100 do kept[i] = object(strings) end", 100, 100);
    close_full();
    close_both_ways(OBJECT "late = object(function()"
                           "  for i = 1, 100 do object(strings) end"
                           "  if _VERSION ~= 'Lua 5.3' then collectgarbage() end"
                           "  for i = 1, capped and 200 or 0 do local s = base .. i end at_end() "
                           "end)", LUA_VERSION_NUM < 503 ? 101 : 1, LUA_VERSION_NUM < 504 ? 101 : 1);
}

typedef struct relief {
    lua_State *other;
    int calls, raises;
} relief;

static bool relieve(void *context, size_t asked, size_t held, size_t *limit)
{
    relief *r = context;
    r->calls++;
    CHECK(asked > 0 && held <= *limit);
    if (r->other) {
        let_go(r->other, "kept");
        r->other = NULL;
    }
    if (r->raises == 0)
        return false;
    r->raises--;
    *limit += 4 * MIB;
    return true;
}

static void pressure(void)
{
    lua_State *other = state(0);
    relief r = {.other = other, .raises = 6};
    CHECK(!run(other, FILL));
    uint64_t live = account(other).live;
    glebe_lua_options options = {.limit_bytes = 2 * MIB, .pressure = relieve, .context = &r};
    lua_State *L = glebe_lua_newstate(&options);
    luaL_openlibs(L);
    CHECK(!run(L, FILL) && r.calls > 0 && account(L).limit > 2 * MIB && account(L).refusals == 0);
    CHECK(account(other).live < live / 10);
    r.raises = r.calls = 0;
    CHECK(ends_memory(L, "local s = 'x' while true do s = s .. s end") && r.calls > 0); /* control: it says no */
    let_go(L, "kept");
    CHECK(!glebe_lua_relieve(L, 90));
    CHECK(!run(L, "collectgarbage('stop') for i = 1, 100000 do last = {i, i} end"));
    uint64_t held = account(L).held;
    glebe_lua_limit(L, held + MIB);
    CHECK(glebe_lua_relieve(L, 75) && account(L).held < held / 4);
    CHECK(!glebe_lua_relieve(L, 1)); /* it has not grown since */
    CHECK(!glebe_lua_relieve(other, 1)); /* no cap */
    check_heaps();
    glebe_lua_close(L, GLEBE_LUA_FINALIZE);
    glebe_lua_close(other, GLEBE_LUA_DROP);
}

static int held(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)account(L).held);
    return 1;
}

static void fill_to(lua_State *L, size_t bytes)
{
    lua_register(L, "held", held);
    lua_pushinteger(L, (lua_Integer)bytes);
    lua_setglobal(L, "wanted");
    CHECK(!run(L, "collectgarbage('stop') kept = {('x'):rep(1000)} "
                  "while held() < wanted do kept[#kept + 1] = kept[1] .. #kept end "
                  "collectgarbage('restart')"));
}

/* A state that was full of live values is collected again after it has dropped them, and a state with much room is not
 * collected needlessly. */
static void relieved(void)
{
    static const size_t room[] = {64 << 10, 128 << 10, 384 << 10, 512 << 10, 2 << 20};
    size_t cap = 4 * MIB;
    for (size_t i = 0; i < sizeof room / sizeof *room; i++) {
        size_t free_bytes = room[i];
        lua_State *L = state(cap);
        fill_to(L, cap - free_bytes);
        bool above = free_bytes < cap / 4;
        CHECK(glebe_lua_relieve(L, 75) == above && account(L).held > cap - free_bytes - cap / 16);
        bool full = account(L).held > cap - cap / 16;
        CHECK(glebe_lua_relieve(L, 75) == full); /* nothing happened since */
        lua_settop(L, 0);
        lua_pushnil(L);
        lua_setglobal(L, "kept");
        int failed = 0;
        for (int i = 0; i < 100; i++) {
            glebe_lua_relieve(L, 75);
            failed += run(L, "local t = {} for i = 1, 100 do t[i] = ('y'):rep(1000) .. i end") != NULL;
        }
        CHECK(failed == 0);
        CHECK(ends_memory(L, "kept = {} for i = 1, 1e7 do kept[i] = {} end")); /* a refusal; then nothing is live */
        lua_settop(L, 0);
        lua_pushnil(L);
        lua_setglobal(L, "kept");
        glebe_lua_relieve(L, 75);
        CHECK(!run(L, "local t = {} for i = 1, 1000 do t[i] = ('y'):rep(1000) .. i end"));
        glebe_lua_close(L, GLEBE_LUA_FINALIZE);
    }
    check_heaps();
}

static size_t mapped_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages;
}

static void *close_finalize(void *L)
{
    glebe_lua_close(L, GLEBE_LUA_FINALIZE);
    return NULL;
}

/* However and wherever a state is closed, none of its memory stays mapped, not even LuaJIT's machine code. */
static void churn(void)
{
    for (int how = 0; how < 4; how++) {
        size_t before = 0;
        for (int i = 0; i < 600; i++) {
            lua_State *L = state(4 * MIB);
            CHECK(!run(L, "local s = 0 for i = 1, 1000 do s = s + i end "
                          "kept = {} for i = 1, 500 do kept[i] = {i, tostring(i)} end"));
            pthread_t thread;
            if (how == 0)
                lua_close(L);
            else if (how < 3)
                glebe_lua_close(L, how == 1 ? GLEBE_LUA_FINALIZE : GLEBE_LUA_DROP);
            else
                CHECK(pthread_create(&thread, NULL, close_finalize, L) == 0 && pthread_join(thread, NULL) == 0);
            before = i == 100 ? mapped_pages() : before;
        }
        CHECK(mapped_pages() <= before + 256 && heaps() == 0);
    }
    check_heaps();
}

static int relieve_now(lua_State *L)
{
    lua_pushboolean(L, glebe_lua_relieve(L, 1));
    return 1;
}

static bool relieve_inside(void *context, size_t asked, size_t held, size_t *limit)
{
    (void)asked, (void)held, (void)limit;
    lua_State *L = *(lua_State **)context;
    CHECK(!glebe_lua_relieve(L, 1)); /* it cannot collect here */
    return glebe_lua_limit(L, account(L).limit + MIB) == 0;
}

/* glebe_lua_relieve works outside of any protected call, even if a finalizer raises an error; in finalizers, coroutines
 * and hooks; and in the pressure callback, which may also raise the cap with glebe_lua_limit. */
static void relieving(void)
{
    lua_State *L = NULL;
    glebe_lua_options options = {.limit_bytes = MIB, .pressure = relieve_inside, .context = &L};
    L = glebe_lua_newstate(&options);
    luaL_openlibs(L);
    lua_register(L, "relieve", relieve_now);
    lua_register(L, "at_end", at_end);
    CHECK(!run(L, MAKER "object(function() error('raised') end) object(function() error() end)"));
    CHECK(glebe_lua_relieve(L, 1) && lua_gettop(L) == 0);
    ended = 0;
    const char *error = run(L, "pcall(collectgarbage) object(function() relieve() at_end() end) "
                               "collectgarbage() collectgarbage()");
    CHECK(!error && ended == 1);
    CHECK(!run(L, "assert(coroutine.wrap(function() return type(relieve()) end)() == 'boolean')"));
    CHECK(!run(L, "debug.sethook(relieve, '', 100) local t = {} for i = 1, 1000 do t[i] = {i} end "
                  "debug.sethook() assert(t[1000][1] == 1000)"));
    CHECK(!run(L, "kept = {} for i = 1, 60000 do kept[i] = {i} end"));
    CHECK(account(L).limit > 2 * MIB && account(L).refusals == 0);
    CHECK(!run(L, "object(function() relieve() at_end() error('raised') end) "
                  "co = coroutine.wrap(function() coroutine.yield() end) co()"));
    glebe_lua_close(L, GLEBE_LUA_FINALIZE);
    CHECK(ended == 2 && heaps() == 0);
    check_heaps();
}

static int adopt_now(lua_State *L)
{
    glebe_lua_options options = {.limit_bytes = 8 * MIB};
    lua_pushinteger(L, glebe_lua_adopt(L, &options));
    return 1;
}

/* A block from before the adoption that shrinks while the heap is full stays with malloc, and `foreign` counts it. */
static void shrink_foreign(lua_State *L)
{
    void *ud, *filled = NULL;
    lua_Alloc alloc = lua_getallocf(L, &ud);
    for (void *block; (block = alloc(ud, NULL, 0, 500)) != NULL; filled = block)
        memcpy(block, &filled, sizeof filled);
    char *foreign = malloc(10000);
    memset(foreign, 'x', 10000);
    uint64_t before = account(L).foreign;
    foreign = alloc(ud, foreign, 10000, 500);
    CHECK(foreign && foreign[499] == 'x' && account(L).foreign == before - 9500);
    alloc(ud, foreign, 500, 0);
    CHECK(account(L).foreign == before - 10000);
    for (void *next; filled; filled = next) {
        memcpy(&next, filled, sizeof next);
        alloc(ud, filled, 500, 0);
    }
}

/* Blocks from before the adoption return to malloc; else the leak sanitizer would report them. */
static void adopt(void)
{
    for (int close = 0; close < 3; close++) {
        lua_State *L = luaL_newstate();
        luaL_openlibs(L);
        lua_register(L, "adopt", adopt_now);
        CHECK(!run(L, "kept = {} for i = 1, 20000 do kept[i] = {i, tostring(i)} end"));
        const char *error = run(L, "local parts = ('a b c d'):gsub('%w', function(c) "
                                   "if c == 'b' then result = adopt() end return c:rep(3000) end)"
                                   " assert(#parts == 12003)");
        CHECK(!error);
        lua_getglobal(L, "result");
        int result = (int)lua_tointeger(L, -1);
        if (result == ENOTSUP)
            exit(77);
        CHECK(result == 0);
        uint64_t foreign = account(L).foreign;
        CHECK(foreign > MIB);
        CHECK(!run(L, "for i = 1, 10000 do kept[i] = {} end for i = 1, 20000 do kept[#kept + 1] = i end "
                      "collectgarbage()"
                      " for i = 10001, 20000 do assert(kept[i][2] == tostring(i)) end result = adopt()"));
        lua_getglobal(L, "result");
        CHECK(lua_tointeger(L, -1) == EEXIST);
        CHECK(account(L).foreign < foreign && account(L).live > 0);
        check_heaps();
        CHECK(ends_memory(L, "more = {} for i = 1, 1000000 do more[i] = {i, tostring(i)} end"));
        shrink_foreign(L);
        let_go(L, "more");
        CHECK(!run(L, "co = coroutine.wrap(function() for i = 1, 100 do local t = {i} coroutine.yield(t) end end)"
                      " for i = 1, 50 do co() end"));
        if (close == 0)
            lua_close(L);
        else
            glebe_lua_close(L, close == 1 ? GLEBE_LUA_FINALIZE : GLEBE_LUA_DROP);
        CHECK(heaps() == 0);
        check_heaps();
    }
}

/* The control: leaks that the sanitizer must report. */
static void leak(void)
{
    for (int i = 0; i < 10; i++)
        luaL_openlibs(luaL_newstate());
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"contract", contract}, {"cap", cap}, {"tight", tight}, {"many", many}, {"churn", churn},
                 {"finalizers", finalizers}, {"closing", closing}, {"pressure", pressure}, {"relieved", relieved},
                 {"relieving", relieving}, {"adopt", adopt}, {"leak", leak}};
    glebe_lua_options options = {0};
    lua_State *L = glebe_lua_newstate(&options);
    if (!L)
        return 77;
    glebe_lua_close(L, GLEBE_LUA_DROP);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (count < 2)
            puts(cases[i].name);
        else if (strcmp(arguments[1], cases[i].name) == 0)
            cases[i].run();
    return 0;
}
