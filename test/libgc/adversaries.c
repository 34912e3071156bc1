/* What strains a collector: adversaries threads N | unload LIBRARY | limit | starve.
 *
 *     threads   N threads at once, each with a list that only its stack refers to, stopped several times
 *     unload    a library whose data are roots is loaded and unloaded, while another thread collects
 *     limit     threads keep what they allocate until memory ends, in whatever another thread is doing then
 *     starve    the kernel gives no memory from the midst of a stop on, and again when the collection has ended */
#include "check.h"
#include "gc.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct cell {
    struct cell *next;
    uintptr_t number;
} cell;

/* Returns a list of the numbers below n, n - 1 first; NULL if there is no memory for all. */
static cell *list_new(uintptr_t n)
{
    cell *first = NULL;
    for (uintptr_t i = 0; i < n; i++) {
        cell *c = GC_malloc(sizeof *c);
        if (!c)
            return NULL;
        c->next = first;
        c->number = i;
        first = c;
    }
    return first;
}

static void list_check(const cell *first, uintptr_t n)
{
    for (; first; first = first->next)
        CHECK(first->number == --n);
    CHECK(n == 0);
}

/* ---- threads ---- */

static atomic_uint ready, proceed;

static void *hold(void *unused)
{
    (void)unused;
    cell *mine = list_new(100);
    CHECK(mine);
    atomic_fetch_add(&ready, 1);
    while (!proceed)
        usleep(10000);
    list_check(mine, 100);
    return NULL;
}

static void many(unsigned n)
{
    pthread_t *ids = malloc(n * sizeof *ids);
    pthread_attr_t small;
    CHECK(ids && pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 256 << 10) == 0);
    for (unsigned i = 0; i < n; i++)
        CHECK(GC_pthread_create(&ids[i], &small, hold, NULL) == 0);
    while (ready < n)
        usleep(10000);
    for (int i = 0; i < 5; i++) {
        GC_gcollect();
        CHECK(list_new(10000)); /* it would reuse what a collection lost */
    }
    proceed = 1;
    for (unsigned i = 0; i < n; i++)
        CHECK(GC_pthread_join(ids[i], NULL) == 0);
    free(ids);
}

/* ---- unload ---- */

static void *churn(void *unused)
{
    (void)unused;
    while (!proceed) {
        CHECK(list_new(1000));
        GC_gcollect();
    }
    return NULL;
}

/* Not inlined: the reference must not stay in a register. */
static __attribute__((noinline)) void fill(cell **kept, void **link)
{
    *kept = list_new(50);
    *link = (void *)HIDE(*kept);
    CHECK(*kept && GC_general_register_disappearing_link(link, *kept) == 0);
}

static void unload(const char *path)
{
    enum { ROUNDS = 40 };
    static void **links;
    pthread_t other;
    links = GC_malloc_atomic(ROUNDS * sizeof *links); /* hidden references, which keep nothing */
    CHECK(links && GC_pthread_create(&other, NULL, churn, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        void *library = dlopen(path, RTLD_NOW);
        CHECK(library);
        cell **kept = dlsym(library, "kept");
        CHECK(kept && !*kept);
        fill(kept, &links[i]);
        forget();
        GC_gcollect();
        CHECK(links[i]);
        list_check(*kept, 50);
        CHECK(dlclose(library) == 0);
    }
    proceed = 1;
    CHECK(GC_pthread_join(other, NULL) == 0);
    forget();
    GC_gcollect();
    int left = 0;
    for (int i = 0; i < ROUNDS; i++)
        left += links[i] != NULL;
    CHECK(left < ROUNDS / 2); /* some stack may still refer to a few */
}

/* ---- limit ---- */

static atomic_uint ends;

static void *exhaust(void *unused)
{
    (void)unused;
    for (int round = 0; round < 3; round++) {
        cell *mine = NULL;
        uintptr_t n = 0;
        for (cell *part; (part = list_new(100)) != NULL; n++) {
            cell *last = part;
            while (last->next)
                last = last->next;
            last->next = mine;
            mine = part;
        }
        atomic_fetch_add(&ends, 1);
        for (; mine; n--)
            for (uintptr_t i = 100; i-- > 0; mine = mine->next)
                CHECK(mine && mine->number == i);
        CHECK(n == 0);
    }
    return NULL;
}

static void limit(void)
{
    pthread_t ids[4];
    GC_set_max_heap_size(24 << 20);
    for (int i = 0; i < 4; i++)
        CHECK(GC_pthread_create(&ids[i], NULL, exhaust, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(GC_pthread_join(ids[i], NULL) == 0);
    CHECK(ends == 12);
    GC_gcollect();
    cell *first = list_new(100000);
    CHECK(first); /* memory came back */
    list_check(first, 100000);
}

/* ---- starve ---- */

enum { EVENT_END = 5, EVENT_STOPPED = 7 };
static atomic_uint starved, refused;

/* Bounds the address space of the process: a mapping beyond it fails, as at the end of memory. */
static void bound(rlim_t bytes)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void starve_at(int event)
{
    if (event == EVENT_STOPPED) {
        bound(0);
        atomic_fetch_add(&starved, 1);
        refused += mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
    } else if (event == EVENT_END)
        bound(RLIM_INFINITY);
}

static void *starving(void *data)
{
    uintptr_t length = (uintptr_t)data;
    cell *kept = list_new(length);
    CHECK(kept);
    for (int i = 0; i < 200; i++) {
        cell *lost = list_new(1000);
        CHECK(lost);
        list_check(lost, 1000);
        void **object = GC_malloc(40000 + 1000 * (size_t)i), *link;
        CHECK(object && GC_general_register_disappearing_link(&link, object) == 0);
        CHECK(GC_unregister_disappearing_link(&link));
    }
    list_check(kept, length);
    return NULL;
}

/* Enough is live that several threads would mark: they start in a collection, which must do without them. */
static void starve(void)
{
    pthread_t ids[3];
    GC_set_on_collection_event(starve_at);
    cell *kept = list_new(1000000);
    CHECK(kept);
    for (uintptr_t i = 0; i < 3; i++)
        while (GC_pthread_create(&ids[i], NULL, starving, (void *)(1000 + i)) != 0)
            continue; /* there is no memory for its stack while another thread collects */
    for (int i = 0; i < 3; i++)
        CHECK(GC_pthread_join(ids[i], NULL) == 0);
    GC_gcollect();
    list_check(kept, 1000000);
    CHECK(starved >= 5 && refused == starved);
}

int main(int count, char **words)
{
    CHECK(count >= 2);
    GC_init();
    if (!strcmp(words[1], "threads"))
        many((unsigned)strtoul(words[2], NULL, 10));
    else if (!strcmp(words[1], "unload"))
        unload(words[2]);
    else if (!strcmp(words[1], "starve"))
        starve();
    else
        limit();
    puts("well");
    return 0;
}
