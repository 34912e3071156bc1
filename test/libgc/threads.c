/* Threads: each builds lists that only its stack, its registers or its result refers to, while others collect. */
#include "check.h"
#include "gc.h"

#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 6, ROUNDS = 60, LENGTH = 300 };

typedef struct cell {
    struct cell *next;
    uintptr_t value;
    void *more[3];
} cell;

static cell *list_new(uintptr_t seed)
{
    cell *list = NULL;
    for (uintptr_t i = 0; i < LENGTH; i++) {
        cell *c = GC_malloc(sizeof *c);
        CHECK(c->next == NULL && c->value == 0 && c->more[2] == NULL);
        c->next = list;
        c->value = seed ^ i;
        list = c;
    }
    return list;
}

static void list_check(const cell *list, uintptr_t seed)
{
    uintptr_t i = LENGTH;
    for (; list; list = list->next)
        CHECK(i && list->value == (seed ^ --i));
    CHECK(i == 0);
}

static void *sleep_a_little(void *unused)
{
    usleep(1000);
    return unused;
}

static void *active_again(void *seed)
{
    cell *list = list_new((uintptr_t)seed);
    GC_gcollect();
    list_check(list, (uintptr_t)seed);
    return NULL; /* the frames between here and GC_do_blocking are not scanned */
}

static void *blocks(void *seed)
{
    usleep(1000);
    return GC_call_with_gc_active(active_again, seed);
}

static void *work(void *data)
{
    uintptr_t seed = *(uintptr_t *)data;
    CHECK(GC_thread_is_registered());
    for (int i = 0; i < ROUNDS; i++) {
        cell *list = list_new(seed + (uintptr_t)i);
        if (i % 20 == 7)
            GC_gcollect();
        if (i % 20 == 3)
            GC_do_blocking(sleep_a_little, NULL);
        if (i % 20 == 5)
            GC_do_blocking(blocks, (void *)seed);
        list_check(list, seed + (uintptr_t)i);
    }
    cell *result = list_new(seed);
    if (seed % 2)
        GC_pthread_exit(result);
    return result;
}

/* A thread that the library learns of only by GC_register_my_thread. */
static void *foreign(void *data)
{
    struct GC_stack_base base;
    (void)data;
    CHECK(!GC_thread_is_registered());
    CHECK(GC_get_stack_base(&base) == 0 && GC_register_my_thread(&base) == 0 && GC_register_my_thread(&base) == 1);
    for (uintptr_t i = 0; i < ROUNDS; i++)
        list_check(list_new(i), i);
    CHECK(GC_unregister_my_thread() == 0 && !GC_thread_is_registered());
    return NULL;
}

/* It ends without a word. */
static void *forgetful(void *data)
{
    struct GC_stack_base base;
    CHECK(GC_get_stack_base(&base) == 0 && GC_register_my_thread(&base) == 0);
    list_check(list_new(5), 5);
    return data;
}

/* With an argument one of the threads does not unregister, of which bdwgc does not approve. */
int main(int count, char **arguments)
{
    (void)arguments;
    pthread_t threads[THREADS], others[2], detached;
    GC_init();
    GC_allow_register_threads();
    for (int round = 0; round < 3; round++) {
        for (uintptr_t i = 0; i < THREADS; i++) {
            uintptr_t *seed = GC_malloc(sizeof *seed);
            *seed = i;
            CHECK(GC_pthread_create(&threads[i], NULL, work, seed) == 0);
        }
        CHECK(pthread_create(&others[0], NULL, foreign, NULL) == 0);
        CHECK(pthread_create(&others[1], NULL, count > 1 ? forgetful : foreign, NULL) == 0);
        uintptr_t *seed = GC_malloc(sizeof *seed);
        CHECK(GC_pthread_create(&detached, NULL, work, seed) == 0 && GC_pthread_detach(detached) == 0);
        pid_t child = fork();
        if (child == 0) {
            for (uintptr_t i = 0; i < ROUNDS; i++)
                list_check(list_new(i), i);
            GC_gcollect();
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        for (int i = 0; i < 2; i++)
            CHECK(pthread_join(others[i], NULL) == 0);
        GC_gcollect();
        for (uintptr_t i = 0; i < THREADS; i++) {
            void *result;
            CHECK(GC_pthread_join(threads[i], &result) == 0);
            list_check(result, i);
        }
    }
    CHECK(GC_get_gc_no() > 20);
    puts("well");
    return 0;
}
