/* One thread: objects, roots, finalizers, links, kinds. Addresses that must not count as references are kept hidden. */
#include "check.h"
#include "gc.h"

#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static void *root, *excluded[2];
static uintptr_t hidden[1000];
static size_t finalized;
static uintptr_t order[16];

static void collect(void)
{
    forget();
    GC_gcollect();
}

/* ---- objects ---- */

static __attribute__((noinline)) void fill(void **to, bool atomic)
{
    for (size_t i = 0; i < 1000; i++) {
        void **object = atomic ? GC_malloc_atomic(40) : GC_malloc(40);
        if (to)
            to[i] = object;
        hidden[i] = HIDE(object);
    }
}

static size_t alive(void)
{
    size_t count = 0;
    for (size_t i = 0; i < 1000; i++)
        count += GC_base((void *)~hidden[i]) != NULL;
    return count;
}

static void test_reachability(void)
{
    root = GC_malloc(1000 * sizeof(void *));
    fill(root, false);
    collect();
    CHECK(alive() == 1000);
    root = NULL;
    collect();
    CHECK(alive() <= 20); /* a few may look referenced */
    root = GC_malloc_atomic(1000 * sizeof(void *));
    fill(root, false);
    collect();
    CHECK(alive() <= 20);
    void **pinned = GC_malloc_uncollectable(1000 * sizeof(void *));
    hidden[0] = HIDE(pinned);
    uintptr_t kept = hidden[0];
    fill(pinned, true);
    pinned = NULL;
    collect();
    CHECK(alive() == 1000);
    GC_free((void *)~kept);
    collect();
    CHECK(alive() <= 20);
}

static __attribute__((noinline)) void fill_at(void **at)
{
    *at = GC_malloc(1000 * sizeof(void *));
    fill(*at, false);
}

static void test_static_roots(void)
{
    GC_exclude_static_roots(excluded, excluded + 2);
    fill_at(excluded);
    collect();
    CHECK(alive() <= 20);
    void **block = malloc(16);
    fill_at(block);
    GC_add_roots(block, block + 2);
    collect();
    CHECK(alive() == 1000);
    GC_remove_roots(block, block + 2);
    collect();
    CHECK(alive() <= 20);
    free(block);
}

static void test_sizes(void)
{
    char *object = GC_malloc(100);
    CHECK(GC_size(object) > 100 && GC_base(object + 100) == object); /* the address behind counts */
    CHECK(GC_is_heap_ptr(object + 5) && !GC_is_heap_ptr(&object) && GC_base(&object) == NULL);
    memset(object, 7, 100);
    object = GC_realloc(object, 5000);
    CHECK(object[99] == 7 && object[100] == 0 && object[4999] == 0);
    memset(object, 7, 5000);
    object = GC_realloc(object, 4000);
    object = GC_realloc(object, 4900);
    CHECK(object[3999] == 7 && object[4000] == 0);
    CHECK(GC_realloc(object, 0) == NULL);
    for (size_t alignment = 16; alignment <= 8192; alignment *= 2)
        CHECK((uintptr_t)GC_memalign(alignment, 100) % alignment == 0);
    CHECK(strcmp(GC_strdup("text"), "text") == 0);
    size_t count = 0;
    for (void **list = GC_malloc_many(40); list; list = *list) {
        count++;
        CHECK(list[1] == NULL && list[4] == NULL);
    }
    CHECK(count > 10);
}

static void *oom(size_t bytes)
{
    CHECK(bytes == (size_t)1 << 50);
    return &root;
}

static void *oom_none(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void test_limits(void)
{
    GC_set_oom_fn(oom);
    CHECK(GC_malloc((size_t)1 << 50) == &root);
    GC_set_oom_fn(oom_none);
    GC_word before = GC_get_gc_no();
    GC_disable();
    for (int i = 0; i < 100000; i++)
        GC_malloc(100);
    GC_gcollect();
    CHECK(GC_get_gc_no() == before);
    GC_enable();
    GC_gcollect();
    CHECK(GC_get_gc_no() == before + 1);
    CHECK(GC_expand_hp(64 << 20));
    for (int i = 0; i < 100000; i++)
        GC_malloc(100);
    CHECK(GC_get_gc_no() == before + 1);
    GC_set_max_heap_size(32 << 20);
    CHECK(GC_malloc(64 << 20) == NULL);
    GC_set_max_heap_size(0);
    CHECK(GC_malloc(64 << 20) != NULL);
}

/* ---- finalizers and links ---- */

static void finalize(void *object, void *data)
{
    CHECK(data == NULL || GC_base(data) == data);
    if (finalized < 16)
        order[finalized] = HIDE(object);
    finalized++;
}

static void notify(void) { finalized += 1000; }

static __attribute__((noinline)) void make_finals(void)
{
    for (int i = 0; i < 100; i++) {
        GC_finalization_proc *old = finalize;
        void *old_data = &old;
        void **object = GC_malloc(40);
        GC_register_finalizer(object, finalize, GC_malloc(16), &old, &old_data);
        CHECK(old == NULL && old_data == NULL);
        GC_register_finalizer(object, finalize, NULL, &old, &old_data);
        CHECK(old == finalize && GC_base(old_data) == old_data);
    }
    GC_finalization_proc *old = finalize;
    GC_register_finalizer(&old, finalize, NULL, &old, NULL);
    CHECK(old == NULL); /* not an object */
}

static void test_finalizers(void)
{
    make_finals();
    collect();
    CHECK(finalized >= 95 && finalized <= 100);
    GC_set_finalize_on_demand(1);
    GC_set_finalizer_notifier(notify);
    finalized = 0;
    make_finals();
    collect();
    CHECK(finalized == 1000 && GC_should_invoke_finalizers());
    CHECK(GC_invoke_finalizers() >= 95 && finalized >= 1095 && !GC_should_invoke_finalizers());
    GC_set_finalizer_notifier(NULL);
}

static __attribute__((noinline)) void make_orders(void)
{
    void **a = GC_malloc(40), **b = GC_malloc(40), **cycle = GC_malloc(40), **self = GC_malloc(40);
    *a = b;
    *cycle = cycle;
    *self = self;
    GC_register_finalizer(b, finalize, NULL, NULL, NULL);
    GC_register_finalizer(a, finalize, NULL, NULL, NULL);
    GC_register_finalizer(cycle, finalize, NULL, NULL, NULL);
    GC_register_finalizer_ignore_self(self, finalize, NULL, NULL, NULL);
    hidden[0] = HIDE(a), hidden[1] = HIDE(b), hidden[2] = HIDE(cycle), hidden[3] = HIDE(self);
}

static void test_orders(void)
{
    GC_invoke_finalizers();
    finalized = 0;
    make_orders();
    collect();
    GC_invoke_finalizers();
    CHECK(finalized == 2 && (order[0] == hidden[0] || order[1] == hidden[0]));
    CHECK(order[0] == hidden[3] || order[1] == hidden[3]);
    collect();
    GC_invoke_finalizers();
    CHECK(finalized == 3 && order[2] == hidden[1]);
}

static void *links[3];

static __attribute__((noinline)) void make_links(void)
{
    void **object = GC_malloc(40), **plain = GC_malloc_atomic(40);
    root = plain;
    for (int i = 0; i < 2; i++) {
        links[i] = (void *)HIDE(object);
        CHECK(GC_general_register_disappearing_link(&links[i], object) == 0);
    }
    CHECK(GC_general_register_disappearing_link(&links[0], object) == 1);
    CHECK(GC_unregister_disappearing_link(&links[1]) == 1 && GC_unregister_disappearing_link(&links[1]) == 0);
    links[2] = (void *)HIDE(object);
    CHECK(GC_register_long_link(&links[2], object) == 0);
    plain[0] = object;
    CHECK(GC_general_register_disappearing_link(&plain[1], object) == 0);
    CHECK(GC_move_disappearing_link(&plain[1], &plain[0]) == 0 && GC_move_disappearing_link(&plain[1], plain) == 4);
    GC_register_finalizer_no_order(object, finalize, NULL, NULL, NULL);
}

static void test_links(void)
{
    make_links();
    collect();
    CHECK(links[0] == NULL && links[1] != NULL && links[2] != NULL && *(void **)root == NULL);
    CHECK(GC_invoke_finalizers() == 1);
    collect();
    CHECK(links[2] == NULL);
}

/* ---- kinds ---- */

static GC_word marks, environment;

static struct GC_ms_entry *mark(GC_word *object, struct GC_ms_entry *top, struct GC_ms_entry *end, GC_word data)
{
    marks++;
    environment = data;
    return object[0] ? GC_mark_and_push((void *)HIDE(object[0]), top, end, (void **)object) : top;
}

static __attribute__((noinline)) void make_kinds(int kind)
{
    uintptr_t *object = GC_generic_malloc(24, kind);
    root = object;
    void *kept = GC_malloc(32), *lost = GC_malloc(32);
    object[0] = HIDE(kept);
    object[1] = (uintptr_t)lost;
    hidden[0] = HIDE(kept);
    hidden[1] = HIDE(lost);
}

static void test_kinds(void)
{
    enum { ENVIRONMENT = 77 };
    unsigned procedure = GC_new_proc(mark);
    int kind = (int)GC_new_kind(GC_new_free_list(), ((ENVIRONMENT << 6 | procedure) << 2) | 2, 0, 1);
    make_kinds(kind);
    collect();
    CHECK(marks >= 1 && environment == ENVIRONMENT);
    CHECK(GC_base((void *)~hidden[0]) && !GC_base((void *)~hidden[1]));
    void *list = NULL;
    GC_generic_malloc_many(24, kind, &list);
    CHECK(list && *(void **)list);
}

static __attribute__((noinline)) void make_typed(size_t words, size_t at)
{
    GC_word bits[20] = {0};
    bits[at / 64] = (GC_word)1 << at % 64;
    void **object = GC_malloc_explicitly_typed(words * sizeof(void *), GC_make_descriptor(bits, words));
    void **array = GC_calloc_explicitly_typed(10, words * sizeof(void *), GC_make_descriptor(bits, words));
    void **both = root = GC_malloc(16);
    both[0] = object;
    both[1] = array;
    void *objects[4];
    for (int i = 0; i < 4; i++)
        hidden[i] = HIDE(objects[i] = GC_malloc(32));
    object[at] = objects[0];
    object[(at + 1) % words] = objects[1];
    array[9 * words + at] = objects[2];
    array[9 * words + (at + 1) % words] = objects[3];
}

static void test_typed(void)
{
    static const size_t cases[][2] = {{4, 1}, {4, 3}, {61, 60}, {62, 1}, {200, 150}, {1000, 999}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_typed(cases[i][0], cases[i][1]);
        collect();
        CHECK(GC_base((void *)~hidden[0]) && !GC_base((void *)~hidden[1]));
        CHECK(GC_base((void *)~hidden[2]) && !GC_base((void *)~hidden[3]));
    }
}

/* The count of bytes changes where a thread's cache is filled, under the lock: once in 4 KiB of objects. */
static void test_the_lock_is_rare(void)
{
    enum { OBJECTS = 20000, BYTES = 24 };
    size_t before = 0, changes = 0;
    for (int i = 0; i < OBJECTS; i++) {
        CHECK(GC_malloc(BYTES) && GC_malloc_atomic(BYTES));
        size_t now = GC_get_bytes_since_gc();
        changes += now != before;
        before = now;
    }
    CHECK(changes > 2 * OBJECTS * BYTES / 8192 && changes < 2 * OBJECTS / 40);
}

static void test_fork(void)
{
    root = GC_malloc(1000 * sizeof(void *));
    fill(root, false);
    pid_t child = fork();
    if (child == 0) {
        collect();
        CHECK(alive() == 1000);
        root = NULL;
        collect();
        CHECK(alive() <= 20);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    collect();
    CHECK(alive() == 1000);
}

static void ignore(void *object, void *data) { (void)object, (void)data; }

/* What only waits for its finalizer does not put the next collection off: the heap stays small. */
static void test_finalizers_do_not_pile_up(void)
{
    size_t most = 0;
    root = GC_malloc(2 << 20);
    GC_set_finalize_on_demand(0);
    for (size_t i = 0; i < 1000000; i++) {
        GC_register_finalizer_no_order(GC_malloc(40), ignore, NULL, NULL, NULL);
        most = GC_get_heap_size() > most ? GC_get_heap_size() : most;
    }
    GC_set_finalize_on_demand(1);
    root = NULL;
    CHECK(most < 12 << 20);
}

/* A coroutine says where its stack ends by writing GC_stackbottom, as Crystal's fibers do: its locals are roots. */
static ucontext_t coroutine, caller;
static size_t found_there;

static void run_there(void)
{
    void **kept = GC_malloc(1000 * sizeof *kept);
    fill(kept, false);
    collect();
    found_there = alive();
    __asm__ volatile("" : : "r"(kept) : "memory");
    swapcontext(&coroutine, &caller);
}

static void test_stackbottom(void)
{
    enum { STACK_BYTES = 256 << 10 };
    char *stack = malloc(STACK_BYTES), *before = GC_stackbottom;
    CHECK(stack && before && getcontext(&coroutine) == 0);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = STACK_BYTES;
    makecontext(&coroutine, run_there, 0);
    GC_stackbottom = stack + STACK_BYTES;
    swapcontext(&caller, &coroutine);
    GC_stackbottom = before;
    CHECK(found_there == 1000);
    memset(&coroutine, 0, sizeof coroutine); /* it holds the coroutine's registers */
    collect();
    CHECK(alive() <= 20);
    free(stack);
}

int main(void)
{
    GC_init();
    test_reachability();
    test_static_roots();
    test_sizes();
    test_finalizers();
    test_orders();
    test_stackbottom();
    test_links();
    test_kinds();
    test_typed();
    test_the_lock_is_rare();
    test_fork();
    test_finalizers_do_not_pile_up();
    test_limits();
    puts("well");
    return 0;
}
