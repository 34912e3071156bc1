/* What happens to objects before their memory is reused: disclaim procedures, toggle references, leaks. */
#include "check.h"
#include "gc.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { OBJECTS = 1000 };
static uintptr_t hidden[OBJECTS];
static size_t asked, freed_later;
static bool refuses;
static void *root;

static void collect(void)
{
    forget();
    GC_gcollect();
}

static size_t alive(size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += GC_base((void *)~hidden[i]) != NULL;
    return found;
}

/* ---- disclaim ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* The first word of an object is set by the program; it refers to another object by its second. */
static int disclaim(void *object)
{
    void **words = object;
    CHECK(pthread_mutex_lock(&mutex) == 0); /* the thread that has it runs on */
    asked++;
    CHECK(words[0] == &root && !GC_is_marked(object));
    if (words[1])
        freed_later += memcmp(words[1], "alive", 6) == 0;
    pthread_mutex_unlock(&mutex);
    return refuses;
}

static __attribute__((noinline)) void fill(int kind, bool refer)
{
    for (size_t i = 0; i < OBJECTS; i++) {
        void **object = GC_generic_malloc(40, kind);
        object[0] = &root;
        object[1] = refer ? GC_strdup("alive") : NULL;
        hidden[i] = HIDE(object);
    }
}

static void test_disclaim(void)
{
    int kind = (int)GC_new_kind(GC_new_free_list(), 0, 1, 1), from_all = (int)GC_new_kind(GC_new_free_list(), 0, 1, 1);
    GC_register_disclaim_proc(kind, disclaim, 0);
    GC_register_disclaim_proc(from_all, disclaim, 1);
    refuses = true;
    fill(kind, false);
    collect();
    CHECK(asked >= OBJECTS - 20 && alive(OBJECTS) == OBJECTS);
    refuses = false;
    collect();
    CHECK(alive(OBJECTS) <= 20);
    asked = 0;
    fill(from_all, true);
    for (size_t i = 0; i < 100; i++)
        free(malloc(100)); /* nothing of this was freed before the procedure saw it */
    collect();
    CHECK(asked >= OBJECTS - 20 && freed_later == asked && alive(OBJECTS) <= 20);
    void **object = GC_generic_malloc(40, kind);
    asked = 0;
    GC_free(object);
    collect();
    CHECK(asked <= 20); /* not asked about what the program frees */
    GC_register_disclaim_proc(kind, NULL, 0);
    GC_register_disclaim_proc(from_all, NULL, 0);
}

/* A thread that holds the procedure's mutex, and does not allocate, is not stopped while the procedure waits for it. */
static volatile int holds;
static void *hold(void *data)
{
    pthread_mutex_lock(&mutex);
    holds = 1;
    usleep(100000);
    pthread_mutex_unlock(&mutex);
    return data;
}

static void test_disclaim_waits(void)
{
    int kind = (int)GC_new_kind(GC_new_free_list(), 0, 1, 1);
    pthread_t id;
    GC_register_disclaim_proc(kind, disclaim, 0);
    fill(kind, false);
    asked = 0;
    CHECK(GC_pthread_create(&id, NULL, hold, NULL) == 0);
    while (!holds)
        usleep(1000);
    collect();
    CHECK(asked >= OBJECTS - 20);
    GC_pthread_join(id, NULL);
    GC_register_disclaim_proc(kind, NULL, 0);
}

/* ---- toggle references ---- */

enum { DROP, STRONG, WEAK };
static int status_of(void *object) { return ((int *)object)[0]; }

static __attribute__((noinline)) void toggles(int status, size_t from)
{
    for (size_t i = from; i < from + 100; i++) {
        int *object = GC_malloc(40);
        *object = status;
        hidden[i] = HIDE(object);
        CHECK(GC_toggleref_add(object, i % 2) == 0);
    }
}

static void test_toggles(void)
{
    CHECK(GC_get_toggleref_func() == NULL && GC_toggleref_add(&root, 1) == 0); /* nobody to ask: ignored */
    GC_set_toggleref_func(status_of);
    CHECK(GC_get_toggleref_func() == status_of);
    toggles(WEAK, 0);
    toggles(DROP, 100);
    toggles(STRONG, 200);
    collect();
    collect();
    CHECK(alive(200) <= 20);
    for (size_t i = 200; i < 300; i++)
        CHECK(GC_base((void *)~hidden[i]) != NULL);
    for (size_t i = 200; i < 300; i++)
        *(int *)~hidden[i] = DROP;
    collect();
    CHECK(alive(300) <= 40);
    GC_set_toggleref_func(NULL);
}

/* ---- leaks ---- */

static __attribute__((noinline)) void leak(void)
{
    for (size_t i = 0; i < 100; i++) {
        void *object = i % 2 ? GC_malloc(1000) : GC_malloc_atomic(1000);
        hidden[i] = HIDE(object);
        if (i >= 50)
            GC_free(object);
    }
}

static void test_leaks(void)
{
    char text[8192] = "";
    int ends[2], saved = dup(2);
    collect();
    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    GC_set_find_leak(1);
    leak();
    collect();
    GC_set_find_leak(0);
    dup2(saved, 2);
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    unsigned long found = 0;
    const char *line = strstr(text, "Found ");
    CHECK(strstr(text, "Leaked atomic object at 0x") && strstr(text, "Leaked composite object at 0x") && line);
    CHECK(sscanf(line, "Found %lu leaked objects: ", &found) == 1 && found >= 40 && found <= 60);
    CHECK(alive(50) <= 10);
}

int main(void)
{
    GC_init();
    test_disclaim();
    test_disclaim_waits();
    test_toggles();
    test_leaks();
    puts("well");
    return 0;
}
