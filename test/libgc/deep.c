/* Deep graphs: deep SHAPE N [SPOIL]. Marking must need neither a deep stack nor memory of its own.
 *
 *     list    N objects, each of which only the one before refers to
 *     comb    the same, each with a leaf, in the word before or behind the reference to the next
 *
 * The thread that collects has a stack of 128 KiB. While a collection runs, the process may take 4 MiB of memory; one
 * before has mapped what collections use. To show that these bounds are felt, SPOIL makes the program exceed one:
 * `stack` walks the list by recursion, `memory` takes 8 MiB. Compiled with CORE it uses glebe_gc_*, else the names of
 * libgc.so.1. */
#include "check.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { STACK_BYTES = 128 << 10, MOST_KIB = 4096 };

typedef struct cell {
    void *words[2]; /* the rest, and a leaf or nothing */
} cell;

static cell *first; /* a root */

#ifdef CORE
#include <glebe.h>

static glebe_gc *gc;
static void *take(void) { return glebe_gc_alloc(gc, sizeof(cell)); }
static void collect(void) { glebe_gc_collect(gc); }
static void start(void)
{
    gc = glebe_gc_create(0);
    CHECK(gc && glebe_gc_root_add(gc, &first, sizeof first) == 0);
}
static int by_thread(pthread_t *id, const pthread_attr_t *how, void *(*run)(void *), void *data)
{
    return pthread_create(id, how, run, data);
}
#else
#include "gc.h"

static void *take(void) { return GC_malloc(sizeof(cell)); }
static void collect(void) { GC_gcollect(); }
static void start(void)
{
    GC_init();
    GC_allow_register_threads();
}
static int by_thread(pthread_t *id, const pthread_attr_t *how, void *(*run)(void *), void *data)
{
    return GC_pthread_create(id, how, run, data);
}
#endif

/* KiB of this process by a name of /proc/self/status. */
static unsigned long kib(const char *name)
{
    char line[200];
    unsigned long found = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status);
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, name, strlen(name)))
            found = strtoul(line + strlen(name), NULL, 10);
    fclose(status);
    CHECK(found);
    return found;
}

/* The most resident memory counts from here on. */
static void peak_reset(void)
{
    FILE *clear = fopen("/proc/self/clear_refs", "w");
    CHECK(clear && fputs("5", clear) >= 0 && fclose(clear) == 0);
}

static bool comb;
static uintptr_t length;

/* A cell is linked before its leaf is allocated: only `first` is a root of the core's collector. */
static void build(void)
{
    for (uintptr_t i = 0; i < length; i++) {
        cell *c = take();
        CHECK(c);
        c->words[i % 2] = first;
        first = c;
        if (comb) {
            uintptr_t *leaf = take();
            CHECK(leaf);
            leaf[0] = ~i; /* no address */
            c->words[1 - i % 2] = leaf;
        }
    }
}

static void walk(void)
{
    uintptr_t i = length;
    for (const cell *c = first; c; c = c->words[i % 2]) {
        CHECK(i-- > 0);
        CHECK(!comb || *(uintptr_t *)c->words[1 - i % 2] == ~i);
    }
    CHECK(i == 0);
}

static __attribute__((noinline)) uintptr_t walk_deep(const cell *c, uintptr_t i)
{
    volatile uintptr_t rest = c ? walk_deep(c->words[(i - 1) % 2], i - 1) : 0;
    return rest + 1;
}

static void *run(void *spoil)
{
    build();
    collect();
    peak_reset();
    unsigned long before = kib("VmRSS:");
    collect();
    if (spoil && !strcmp(spoil, "stack"))
        CHECK(walk_deep(first, length) == length + 1);
    if (spoil && !strcmp(spoil, "memory"))
        CHECK(memset(malloc(8 << 20), 1, 8 << 20));
    unsigned long peak = kib("VmHWM:"), grown = peak > before ? peak - before : 0;
    fprintf(stderr, "%lu KiB, and %lu while it collects\n", before, grown);
    walk();
    CHECK(grown <= MOST_KIB);
    return NULL;
}

int main(int count, char **words)
{
    pthread_t id;
    pthread_attr_t small;
    CHECK(count == 3 || count == 4);
    comb = !strcmp(words[1], "comb");
    length = strtoul(words[2], NULL, 10);
    start();
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, STACK_BYTES) == 0);
    CHECK(by_thread(&id, &small, run, words[3]) == 0 && pthread_join(id, NULL) == 0);
    puts("well");
    return 0;
}
