/* A finalizer that allocates may collect. That freed its own object, which had left the ready list before the call. */
#include "../unit/fixture.h"

#include <setjmp.h>

enum { WORDS = 20, DEPTH = 4 };

static glebe_gc *gc;
static void *root;
static int ran;
static jmp_buf away;

static int begin(void **state)
{
    (void)state;
    fixture_start(1);
    gc = glebe_gc_create(0);
    root = NULL;
    ran = 0;
    return glebe_gc_root_add(gc, &root, sizeof root);
}

static int end(void **state)
{
    (void)state;
    glebe_gc_destroy(gc);
    fixture_release();
    return 0;
}

static void well(void)
{
    int printed = 0;
    assert_int_equal(glebe_gc_check(gc, fixture_print, &printed), 0);
}

static uintptr_t *object_new(glebe_gc_final *function, uintptr_t tag)
{
    uintptr_t *object = glebe_gc_alloc(gc, WORDS * sizeof(uintptr_t)), *child = NULL;
    assert_int_equal(glebe_gc_finalizer(gc, object, function, (void *)tag), 0);
    root = object;
    child = glebe_gc_alloc(gc, WORDS * sizeof(uintptr_t));
    object[0] = (uintptr_t)child;
    for (int i = 1; i < WORDS; i++)
        object[i] = child[i] = tag;
    root = NULL;
    return object;
}

static void object_is(const uintptr_t *object, uintptr_t tag)
{
    assert_true(glebe_gc_usable_size(gc, object) >= WORDS * sizeof(uintptr_t));
    const uintptr_t *child = (const uintptr_t *)object[0];
    assert_true(glebe_gc_usable_size(gc, child) >= WORDS * sizeof(uintptr_t));
    for (int i = 1; i < WORDS; i++)
        assert_true(object[i] == tag && child[i] == tag);
}

static void collect_and_fill(void)
{
    glebe_gc_collect(gc);
    for (int i = 0; i < 2000; i++)
        memset(glebe_gc_alloc(gc, WORDS * sizeof(uintptr_t)), 0xee, WORDS * sizeof(uintptr_t));
    glebe_gc_collect(gc);
}

static void final_collects(void *object, void *context)
{
    ran++;
    object_is(object, (uintptr_t)context);
    collect_and_fill();
    object_is(object, (uintptr_t)context);
}

static void test_collects(void **state)
{
    (void)state;
    for (uintptr_t tag = 1; tag <= 5; tag++)
        object_new(final_collects, tag);
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalize(gc), 5);
    assert_int_equal(ran, 5);
    well();
    glebe_gc_stats stats;
    glebe_gc_collect(gc);
    glebe_gc_stats_read(gc, &stats);
    assert_int_equal(stats.marked_objects, 0);
}

/* Each finalizer runs the next by calling glebe_gc_finalize. */
static void final_nests(void *object, void *context)
{
    uintptr_t tag = (uintptr_t)context;
    ran++;
    if (tag < DEPTH)
        object_new(final_nests, tag + 1);
    collect_and_fill();
    assert_int_equal(glebe_gc_finalize(gc), tag < DEPTH);
    collect_and_fill();
    object_is(object, tag);
    well();
}

static void test_nested(void **state)
{
    (void)state;
    object_new(final_nests, 1);
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalize(gc), 1);
    assert_int_equal(ran, DEPTH);
    glebe_gc_collect(gc);
    assert_int_equal(gc->finals.count, 0);
}

/* The finalizer sets itself again for the same object, and runs within itself. */
static void final_again(void *object, void *context)
{
    uintptr_t left = (uintptr_t)context;
    ran++;
    if (left) {
        assert_int_equal(glebe_gc_finalizer(gc, object, final_again, (void *)(left - 1)), 0);
        collect_and_fill(); /* its finalizer runs, so the object is not found unreachable */
        assert_int_equal(glebe_gc_finalize(gc), 0);
        object_is(object, 3);
    }
    well();
}

static void test_set_again(void **state)
{
    (void)state;
    uintptr_t *object = object_new(final_again, 3);
    for (int i = 1; i <= 4; i++) {
        glebe_gc_collect(gc);
        assert_int_equal(glebe_gc_finalize(gc), 1);
        assert_int_equal(ran, i);
        object_is(object, 3);
    }
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_usable_size(gc, object), 0);
}

/* A finalizer that does not return keeps its object; the others run, and the program may free the object by hand. */
static void final_leaves(void *object, void *context)
{
    (void)object;
    (void)context;
    ran++;
    longjmp(away, 1);
}

static void test_longjmp(void **state)
{
    (void)state;
    static uintptr_t *left;
    left = object_new(final_leaves, 7);
    for (uintptr_t tag = 1; tag <= 3; tag++)
        object_new(final_collects, tag);
    glebe_gc_collect(gc);
    while (setjmp(away) == 0 && glebe_gc_finalize(gc))
        ;
    while (glebe_gc_finalize(gc))
        ;
    assert_int_equal(ran, 4);
    collect_and_fill();
    object_is(left, 7);
    well();
    glebe_gc_free(gc, left);
    glebe_gc_collect(gc);
    assert_int_equal(gc->finals.count, 0);
    well();
}

#define RUNNING_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {RUNNING_TEST(test_collects), RUNNING_TEST(test_nested),
        RUNNING_TEST(test_set_again), RUNNING_TEST(test_longjmp)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
