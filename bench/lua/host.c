/* A host of Lua states, compiled once for each allocator (-DALLOCATOR=GLIBC, ...) and linked with it: lua_Alloc calls
 * it directly.
 *
 *     host run SCRIPT ARGUMENTS...      runs a script in a state and closes the state
 *     host drop SCRIPT ARGUMENTS...     closes it without finalizers, if the allocator can
 *     host states COUNT                 makes fresh states with libraries and a cap each
 *
 * At the end it prints one line: CPU microseconds, peak KB resident, faults, CPU microseconds of closing, KB resident
 * now. */
#define _GNU_SOURCE
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define GLIBC 1 /* or any other library that is linked as malloc */
#define MIMALLOC 2
#define GLEBE 3 /* glebe_lua_alloc */
#define ACCOUNT 4 /* glebe_lua_newstate */
#define BUMP 5 /* frees nothing: the floor */

#define CAP ((size_t)16 << 20)

/* ---- allocators ---- */

#if ALLOCATOR == GLEBE || ALLOCATOR == ACCOUNT
#include "../../bindings/lua/glebe_lua.h"
#elif ALLOCATOR == MIMALLOC
#include <mimalloc.h>
#define free mi_free
#define realloc mi_realloc
#endif

#if ALLOCATOR == GLIBC || ALLOCATOR == MIMALLOC

/* The allocator of lauxlib.c. */
static void *plain(void *ud, void *block, size_t old_bytes, size_t bytes)
{
    (void)ud, (void)old_bytes;
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, bytes);
}

/* The same with a cap, as in many hosts. */
typedef struct account {
    size_t used, cap;
} account;

static void *capped(void *ud, void *block, size_t old_bytes, size_t bytes)
{
    account *a = ud;
    size_t before = block ? old_bytes : 0;
    if (bytes > before && a->used + (bytes - before) > a->cap)
        return NULL;
    void *served = plain(NULL, block, old_bytes, bytes);
    if (served || bytes == 0)
        a->used += bytes - before;
    return served;
}

static lua_State *state_new(void) { return lua_newstate(plain, NULL); }

/* mimalloc's heaps have no cap. */
static lua_State *state_capped(void)
{
    if (ALLOCATOR == MIMALLOC)
        return state_new();
    account *a = calloc(1, sizeof *a);
    a->cap = CAP;
    return lua_newstate(capped, a);
}
static void state_close(lua_State *L) { lua_close(L); }
static void state_drop(lua_State *L) { lua_close(L); }

#elif ALLOCATOR == GLEBE

static glebe_heap *heap;

static lua_State *state_new(void)
{
    heap = glebe_heap_create(0);
    return lua_newstate(glebe_lua_alloc, heap);
}

/* No cap of its own: many states in one heap. */
static lua_State *state_capped(void)
{
    if (!heap)
        heap = glebe_heap_create(0);
    return lua_newstate(glebe_lua_alloc, heap);
}

static void state_close(lua_State *L)
{
    lua_close(L);
    glebe_heap_destroy(heap);
}

static void state_drop(lua_State *L)
{
    (void)L;
    glebe_heap_destroy(heap);
}

#elif ALLOCATOR == ACCOUNT

static lua_State *state_new(void) { return glebe_lua_newstate(NULL); }

static lua_State *state_capped(void)
{
    glebe_lua_options options = {.limit_bytes = CAP};
    return glebe_lua_newstate(&options);
}
static void state_close(lua_State *L) { glebe_lua_close(L, GLEBE_LUA_FINALIZE); }
static void state_drop(lua_State *L) { glebe_lua_close(L, GLEBE_LUA_DROP); }

#elif ALLOCATOR == BUMP

static char *fresh, *last;

static void *bump(void *ud, void *block, size_t old_bytes, size_t bytes)
{
    (void)ud;
    if (bytes == 0 || (block && bytes <= old_bytes))
        return bytes ? block : NULL;
    if (block && block == last) {
        fresh = last + ((bytes + 15) & ~(size_t)15);
        return block;
    }
    last = fresh;
    fresh += (bytes + 15) & ~(size_t)15;
    return block ? memcpy(last, block, old_bytes) : last;
}

static lua_State *state_new(void)
{
    if (!fresh)
        fresh = mmap(NULL, (size_t)8 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return fresh == MAP_FAILED ? NULL : lua_newstate(bump, NULL);
}

static lua_State *state_capped(void) { return state_new(); }
static void state_close(lua_State *L) { lua_close(L); }
static void state_drop(lua_State *L) { (void)L; }

#endif

/* ---- measuring ---- */

static long cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

/* A line of /proc/self/status in KB. A child inherits its parent's ru_maxrss, but not this. */
static long status_kb(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    long kb = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            kb = atol(line + strlen(name));
    if (file)
        fclose(file);
    return kb;
}

/* Lua seeds its hashes with the time; with the real clock, counts of instructions would not repeat. */
time_t time(time_t *out)
{
    if (out)
        *out = 1700000000;
    return 1700000000;
}

static void fail(const char *what)
{
    fprintf(stderr, "host: %s\n", what);
    exit(1);
}

static void run(lua_State *L, int count, char **arguments)
{
    luaL_openlibs(L);
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushstring(L, arguments[i]);
        lua_rawseti(L, -2, i);
    }
    lua_setglobal(L, "arg");
    if (luaL_dofile(L, arguments[0]))
        fail(lua_tostring(L, -1));
}

/* A function of its own, so that valgrind can count it separately. */
__attribute__((noinline)) void closing(lua_State *L, int drop)
{
    if (drop)
        state_drop(L);
    else
        state_close(L);
}

int main(int count, char **arguments)
{
    const char *mode = count > 2 ? arguments[1] : "";
    long before = 0, after = 0;
    if (strcmp(mode, "states") == 0) {
        for (long i = atol(arguments[2]); i > 0; i--) {
            lua_State *L = state_capped();
            if (!L)
                fail("no state");
            luaL_openlibs(L);
        }
    } else if (*mode) {
        lua_State *L = state_new();
        if (!L)
            fail("no state");
        run(L, count - 2, arguments + 2);
        before = cpu_us();
        closing(L, strcmp(mode, "drop") == 0);
        after = cpu_us();
    } else
        fail("run, drop SCRIPT ..., or states COUNT");
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    long cpu = cpu_us(), peak = status_kb("VmHWM:"), now = status_kb("VmRSS:");
    printf("%ld %ld %ld %ld %ld\n", cpu, peak, usage.ru_minflt, after - before, now);
    fflush(stdout);
    _exit(0);
}
