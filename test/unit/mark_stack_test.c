/* glebe_gc_mark_stack: local variables and registers as roots, by a marker and in parts. */
#include "fixture.h"

/* AddressSanitizer must leave locals whose address is taken on the stack: by default it has some frames on its own
 * heap. */
__attribute__((visibility("default"), unused)) const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_stack_use_after_return=0"; }

typedef struct tree {
    struct tree *left, *right;
    uintptr_t depth;
} tree;

static glebe_gc *gc;
static uintptr_t base; /* an integer, as its frame may have ended */

static void marker(void *context, glebe_gc *of)
{
    assert_ptr_equal(context, &gc);
    glebe_gc_mark_stack(of, (const void *)base);
}

static int start(void **state)
{
    (void)state;
    fixture_start(1);
    gc = glebe_gc_create(0);
    if (gc)
        glebe_gc_on_mark(gc, marker, &gc);
    return gc ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    int printed = 0;
    assert_int_equal(glebe_gc_check(gc, fixture_print, &printed), 0);
    glebe_gc_destroy(gc);
    fixture_release();
    return 0;
}

static bool alive(const void *object) { return glebe_gc_usable_size(gc, object) != 0; }

/* Keeps its unfinished trees in an array on the stack: in WebAssembly marking sees nothing else. */
static GB_NOINLINE tree *grow(uintptr_t depth)
{
    tree *volatile part[2] = {NULL, NULL};
    for (int i = 0; i < 2 && depth > 0; i++)
        part[i] = grow(depth - 1);
    tree *t = glebe_gc_alloc_layout(gc, sizeof *t, GLEBE_GC_LAYOUT(3, 3));
    t->left = part[0];
    t->right = part[1];
    t->depth = depth;
    return t;
}

static uintptr_t count(const tree *t, uintptr_t depth)
{
    if (!t)
        return 0;
    assert_true(alive(t) && t->depth == depth);
    return 1 + count(t->left, depth - 1) + count(t->right, depth - 1);
}

static GB_NOINLINE void growing(void)
{
    tree *volatile t = grow(9);
    glebe_gc_collect(gc);
    assert_int_equal(count(t, 9), 1023);
    t = NULL;
}

/* Collects at every allocation. Objects that locals refer to stay, and are freed later, except a few that stray words
 * keep. */
static void test_locals_are_roots(void **state)
{
    (void)state;
    glebe_gc_pace(gc, 90, 0, 1);
    base = (uintptr_t)&state;
    for (int i = 0; i < 20; i++)
        growing();
    glebe_gc_stats stats;
    glebe_gc_stats_read(gc, &stats);
    assert_true(stats.collections > 20 * 1000);
    assert_true(stats.allocated_objects == 20 * 1023 && stats.freed_objects > 16 * 1023);
}

/* As many references as the registers that calls preserve can hold, and more; no marker. */
static GB_NOINLINE void in_registers(void)
{
    void *a = glebe_gc_alloc(gc, 100), *b = glebe_gc_alloc(gc, 100), *c = glebe_gc_alloc(gc, 100);
    void *d = glebe_gc_alloc(gc, 100), *e = glebe_gc_alloc(gc, 100), *f = glebe_gc_alloc(gc, 100);
    glebe_gc_begin(gc);
    glebe_gc_mark_stack(gc, (const void *)base);
    glebe_gc_finish(gc);
    assert_true(alive(a) && alive(b) && alive(c) && alive(d) && alive(e) && alive(f));
    ((char *)a)[99] = ((char *)b)[99] = ((char *)c)[99] = ((char *)d)[99] = ((char *)e)[99] = ((char *)f)[99] = 1;
}

static void test_registers_are_roots(void **state)
{
    (void)state;
    glebe_gc_on_mark(gc, NULL, NULL);
    base = (uintptr_t)&state;
    if (!GB_LINEAR)
        in_registers();
}

static GB_NOINLINE void below(void)
{
    volatile char deep[64 << 10];
    deep[0] = 0;
    base = (uintptr_t)deep;
}

/* A base below the stack's top would mark nothing, and is reported. Outside a collection the call does nothing. */
static void test_base(void **state)
{
    (void)state;
    base = 0;
    glebe_gc_mark_stack(gc, (const void *)base);
    assert_int_equal(glebe_live.stats.errors, 0);
    glebe_gc_collect(gc);
    assert_int_equal(glebe_live.stats.errors, 1);
    below();
    glebe_gc_collect(gc);
    assert_int_equal(glebe_live.stats.errors, 2);
    base = (uintptr_t)&state + 1; /* the base need not be aligned */
    glebe_gc_collect(gc);
    assert_int_equal(glebe_live.stats.errors, 2);
    glebe_live.stats.errors = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_locals_are_roots, start, end),
        cmocka_unit_test_setup_teardown(test_registers_are_roots, start, end),
        cmocka_unit_test_setup_teardown(test_base, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
