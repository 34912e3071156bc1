/* A heap at its limit, and what the environment and the program may ask for: `limits WHAT`. */
#define GC_THREADS
#include "check.h"
#include "gc.h"

#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static void **kept;

/* Keeps objects until there is no memory; returns how many. */
static int fill(size_t bytes, int most)
{
    int count = 0;
    for (void **object; count < most && (object = GC_malloc(bytes)) != NULL; count++) {
        *object = kept;
        kept = object;
    }
    return count;
}

static void drop(void)
{
    kept = NULL;
    forget();
    GC_gcollect();
}

/* A limit below what the heap has holds from then on, and falls with the heap. */
static void lowered(void)
{
    CHECK(fill(1000, 20000) == 20000);
    GC_set_max_heap_size(10 << 20);
    CHECK(fill(1000, 20000) < 2000);
    drop();
    int count = fill(1000, 20000);
    CHECK(count > 5000 && count < 11000);
    GC_set_max_heap_size(0);
    CHECK(fill(1000, 20000) == 20000);
}

/* Requests that are refused do not each cost a collection; those after objects were dropped are served again. */
static void full(void)
{
    GC_set_max_heap_size(20 << 20);
    fill(1000, 1 << 20);
    GC_word before = GC_get_gc_no();
    for (int i = 0; i < 1000; i++)
        CHECK(!GC_malloc(1000));
    CHECK(GC_get_gc_no() - before <= 16);
    kept = NULL;
    forget();
    int tries = 0;
    while (!GC_malloc(1000))
        CHECK(++tries < 1024);
    CHECK(fill(1000, 10000) == 10000);
}

/* GC_MAXIMUM_HEAP_SIZE=10M */
static void environment(void)
{
    int count = fill(1000, 1 << 20);
    CHECK(count > 5000 && count < 11000);
}

static int finalized;
static void finalize(void *object, void *data)
{
    finalized++;
    if (data)
        GC_register_finalizer(object, finalize, (char *)data - 1, NULL, NULL);
}

static void finalizers(void)
{
    GC_register_finalizer(GC_malloc(16), finalize, (char *)NULL + 3, NULL, NULL);
    GC_finalize_all();
    CHECK(finalized == 4);
}

static int threads_here(void)
{
    int count = -2; /* . and .. */
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

/* Whatever GC_MARKERS and the program say */
static void markers(void)
{
    GC_set_markers_count((unsigned)-1);
    fill(1000, 30000);
    GC_gcollect();
    CHECK(threads_here() <= 8 && GC_get_parallel() >= 0);
}

static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Compilers leave out calls whose results go nowhere. */
static void *volatile somewhere;

static pthread_barrier_t begun, done;
static void *waiting(void *allocates)
{
    if (allocates)
        somewhere = malloc(100);
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&done);
    return NULL;
}

/* How much 8 threads with stacks of 256 KiB add. The C library maps 64 MiB for a thread that calls malloc. */
static size_t added(void *allocates)
{
    enum { COUNT = 8 };
    pthread_t ids[COUNT];
    pthread_attr_t small;
    size_t before = address_space();
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_barrier_init(&begun, NULL, COUNT + 1);
    pthread_barrier_init(&done, NULL, COUNT + 1);
    for (int i = 0; i < COUNT; i++)
        CHECK(GC_pthread_create(&ids[i], &small, waiting, allocates) == 0);
    pthread_barrier_wait(&begun);
    size_t after = address_space();
    pthread_barrier_wait(&done);
    for (int i = 0; i < COUNT; i++)
        CHECK(GC_pthread_join(ids[i], NULL) == 0);
    return after - before;
}

static void addresses(void)
{
    CHECK(added(NULL) < 32 << 20);
    CHECK(added(&finalized) > 64 << 20); /* control */
}

/* The program's calloc, which fails in other threads than main and while `armed`. */
static _Thread_local char is_main;
static volatile int armed;
static int failed, ran;
extern void *__libc_calloc(size_t, size_t);
void *calloc(size_t count, size_t bytes)
{
    if (armed && !is_main) {
        failed++;
        return NULL;
    }
    return __libc_calloc(count, bytes);
}

static void *runs(void *unused)
{
    somewhere = calloc(1, 1); /* control: it fails */
    ran++;
    return unused;
}

/* A thread that was created runs. */
static void memoryless(void)
{
    pthread_t id;
    armed = is_main = 1;
    CHECK(GC_pthread_create(&id, NULL, runs, NULL) == 0);
    CHECK(GC_pthread_join(id, NULL) == 0 && ran == 1 && failed == 1);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } all[] = {{"lowered", lowered}, {"full", full}, {"environment", environment}, {"finalizers", finalizers},
        {"markers", markers}, {"addresses", addresses}, {"memoryless", memoryless}};
    CHECK(count == 2);
    GC_init();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(words[1], all[i].name)) {
            all[i].function();
            puts("well");
        }
    return 0;
}
