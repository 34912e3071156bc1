/* The collector's functions, one by one; test/model/collect_test.c has them all at once. */
#include "fixture.h"

typedef struct node {
    struct node *left, *right;
    uintptr_t value;
} node;

static glebe_gc *gc;
static void *roots[8];

static int start(void **state)
{
    (void)state;
    fixture_start(1);
    memset(roots, 0, sizeof roots);
    gc = glebe_gc_create(0);
    return gc && glebe_gc_root_add(gc, roots, sizeof roots) == 0 ? 0 : -1;
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
    fixture_check();
}

static bool alive(const void *object) { return glebe_gc_usable_size(gc, object) != 0; }

static node *node_new(node *left, node *right)
{
    node *n = glebe_gc_alloc_layout(gc, sizeof *n, GLEBE_GC_LAYOUT(3, 3));
    n->left = left;
    n->right = right;
    return n;
}

static void test_what_is_reachable_stays(void **state)
{
    (void)state;
    node *a = node_new(NULL, NULL), *b = node_new(a, NULL), *c = node_new(NULL, NULL);
    roots[0] = b;
    well();
    glebe_gc_collect(gc);
    assert_true(alive(a) && alive(b) && !alive(c));
    roots[0] = NULL;
    roots[1] = (char *)a + 5; /* anywhere inside */
    glebe_gc_collect(gc);
    assert_true(alive(a) && !alive(b));
    well();
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_usable_size(gc, (char *)a + 5), glebe_gc_usable_size(gc, a));
}

/* What a layout does not name is no reference, and neither is anything in a plain object or in memory of malloc. */
static void test_layouts(void **state)
{
    (void)state;
    static const struct { uintptr_t words; uint8_t bits[2]; } tenth = {10, {0, 2}};
    void *held[4];
    for (int i = 0; i < 200; i++) /* until the layout has pages of its own */
        roots[0] = glebe_gc_alloc_layout(gc, 30 * sizeof(void *), (uintptr_t)&tenth);
    void **precise = glebe_gc_alloc_layout(gc, 30 * sizeof(void *), (uintptr_t)&tenth);
    void **plain = glebe_gc_alloc_plain(gc, 100), **block = glebe_malloc(100);
    roots[0] = precise;
    roots[1] = plain;
    roots[2] = block;
    for (int i = 0; i < 4; i++)
        held[i] = glebe_gc_alloc(gc, 50);
    precise[19] = held[0]; /* the second element's last word */
    precise[18] = held[1];
    plain[0] = held[2];
    block[0] = held[3];
    glebe_gc_collect(gc);
    assert_true(alive(held[0]) && !alive(held[1]) && !alive(held[2]) && !alive(held[3]));
    glebe_free(block);
    void **nonsense = roots[3] = glebe_gc_alloc_layout(gc, 100, GLEBE_GC_LAYOUT(0, 5));
    nonsense[1] = glebe_gc_alloc(gc, 50);
    glebe_gc_collect(gc);
    assert_true(alive(nonsense[1])); /* every word counts */
}

/* A list of a million would overflow any recursion, arrays of arrays any stack that is bounded. */
static void test_marking_needs_little_memory(void **state)
{
    (void)state;
    enum { WIDE = 3000 };
    for (int i = 0; i < 200000; i++)
        roots[0] = node_new(roots[0], NULL);
    void **wide = glebe_gc_alloc(gc, WIDE * sizeof(void *));
    roots[1] = wide;
    for (int i = 0; i < WIDE; i++) {
        wide[i] = glebe_gc_alloc(gc, 40 * sizeof(void *));
        for (int k = 0; k < 40; k++)
            ((void **)wide[i])[k] = node_new(NULL, NULL);
    }
    gc->live_bytes = 0; /* so that the stack is made as short as it can be */
    glebe_gc_collect(gc);
    glebe_gc_stats stats;
    glebe_gc_stats_read(gc, &stats);
    assert_int_equal(stats.marked_objects, 200000 + 1 + WIDE + WIDE * 40);
    assert_true(stats.overflows > 0);
    well();
}

static void test_memory_is_used_again(void **state)
{
    (void)state;
    for (int i = 0; i < 300000; i++)
        roots[i % 8] = glebe_gc_alloc(gc, (size_t)(i * 37 % 3000));
    glebe_gc_stats stats;
    glebe_gc_stats_read(gc, &stats);
    assert_true(stats.collections > 50);
    assert_true(stats.heap_bytes < 3 << 20);
    assert_true(stats.freed_bytes + (4 << 20) > stats.allocated_bytes);
    well();
}

static void test_limit(void **state)
{
    (void)state;
    glebe_gc *small = glebe_gc_create(400000);
    void *held[100] = {0};
    glebe_gc_root_add(small, held, sizeof held);
    int n = 0;
    while (n < 100 && (held[n] = glebe_gc_alloc_plain(small, 10000)) != NULL)
        n++;
    assert_in_range(n, 8, 39);
    assert_null(glebe_gc_alloc(small, 500000));
    held[0] = held[1] = NULL;
    assert_non_null(held[0] = glebe_gc_alloc_plain(small, 10000));
    glebe_gc_destroy(small);
}

static int finals_run;
static void *finals_last;

static void final_note(void *object, void *context)
{
    finals_run++;
    finals_last = object;
    assert_ptr_equal(context, &finals_run);
    assert_int_equal(((node *)object)->value, 77);
}

static void test_finalizers(void **state)
{
    (void)state;
    finals_run = 0;
    node *inner = node_new(NULL, NULL), *outer = node_new(inner, NULL);
    inner->value = outer->value = 77;
    assert_int_equal(glebe_gc_finalizer(gc, inner, final_note, &finals_run), 0);
    assert_int_equal(glebe_gc_finalizer(gc, outer, final_note, &finals_run), 0);
    assert_int_equal(glebe_gc_finalizer(gc, (char *)outer + 8, final_note, &finals_run), EINVAL);
    roots[0] = outer;
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalize(gc), 0);
    roots[0] = NULL;
    glebe_gc_collect(gc);
    assert_int_equal(finals_run, 0); /* never inside a collection */
    glebe_gc_collect(gc); /* what is ready stays until it has run */
    assert_int_equal(glebe_gc_finalize(gc), 1);
    assert_ptr_equal(finals_last, outer);
    glebe_gc_collect(gc);
    assert_true(!alive(outer) && alive(inner));
    assert_int_equal(glebe_gc_finalize(gc), 1);
    assert_ptr_equal(finals_last, inner);
    glebe_gc_collect(gc);
    assert_true(!alive(inner));
    assert_int_equal(glebe_gc_finalize(gc), 0);

    node *dropped = node_new(NULL, NULL), *a = node_new(NULL, NULL), *b = node_new(a, NULL);
    a->left = b; /* a circle */
    a->value = b->value = 77;
    glebe_gc_finalizer(gc, dropped, final_note, &finals_run);
    glebe_gc_finalizer(gc, dropped, NULL, NULL);
    glebe_gc_finalizer(gc, a, final_note, &finals_run);
    glebe_gc_finalizer(gc, b, final_note, &finals_run);
    glebe_gc_collect(gc);
    assert_true(!alive(dropped) && alive(a) && alive(b));
    assert_int_equal(glebe_gc_finalize(gc), 0);
    well();
}

static void test_weak_references(void **state)
{
    (void)state;
    void *weak[3];
    roots[0] = weak[0] = node_new(NULL, NULL);
    weak[1] = node_new(NULL, NULL);
    weak[2] = node_new(NULL, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(glebe_gc_weak_add(gc, &weak[i]), 0);
    assert_int_equal(glebe_gc_weak_remove(gc, &weak[2]), 0);
    assert_int_equal(glebe_gc_weak_remove(gc, &weak[2]), ENOENT);
    glebe_gc_collect(gc);
    assert_ptr_equal(weak[0], roots[0]);
    assert_null(weak[1]);
    assert_non_null(weak[2]);
    assert_int_equal(glebe_gc_weak_remove(gc, &weak[1]), ENOENT); /* forgotten with its object */
}

static void *marked[2];
static void marker(void *context, glebe_gc *collector) { glebe_gc_mark(collector, context, (void **)context + 1); }

static int events[2];
static void listener(void *context, glebe_gc_event event, const glebe_gc_stats *stats)
{
    assert_ptr_equal(context, events);
    assert_int_equal(stats->collections, events[0]); /* of those that began, all but this one have ended; or all */
    events[event]++;
}

static void test_callbacks(void **state)
{
    (void)state;
    memset(events, 0, sizeof events);
    glebe_gc_on_mark(gc, marker, marked);
    glebe_gc_on_event(gc, listener, events);
    marked[0] = node_new(NULL, NULL);
    marked[1] = node_new(NULL, NULL);
    glebe_gc_collect(gc);
    assert_true(alive(marked[0]) && !alive(marked[1]));
    glebe_gc_collect(gc);
    assert_true(events[0] == 2 && events[1] == 2);
    assert_int_equal(glebe_gc_root_remove(gc, roots), 0);
    assert_int_equal(glebe_gc_root_remove(gc, roots), ENOENT);
}

static void test_in_parts(void **state)
{
    (void)state;
    node *a = node_new(NULL, NULL), *b = node_new(NULL, NULL);
    glebe_gc_begin(gc);
    void *stack[] = {a};
    glebe_gc_mark(gc, stack, stack + 1);
    glebe_gc_finish(gc);
    assert_true(alive(a) && !alive(b));
    glebe_gc_mark(gc, stack, stack + 1); /* nothing, outside a collection */
    glebe_gc_collect(gc);
    assert_false(alive(a));
}

static void test_freed_by_hand(void **state)
{
    (void)state;
    node *a = node_new(NULL, NULL), *b = node_new(NULL, NULL);
    void *large = glebe_gc_alloc(gc, 50000);
    glebe_gc_free(gc, a);
    glebe_gc_free(gc, NULL);
    glebe_gc_free(gc, large);
    assert_true(!alive(a) && alive(b) && !alive(large));
    assert_int_equal(glebe_live.stats.errors, 0);
    glebe_gc_free(gc, (char *)b + 8);
    glebe_free(b);
    assert_int_equal(glebe_live.stats.errors, 2);
    assert_non_null(strstr(fake.printed, "): not the start of an object of this collector\n"));
    assert_non_null(strstr(fake.printed, "): address is in the pages of a collector, whose objects only glebe_gc_free takes\n"));
    assert_true(alive(b));
    well();
}

/* Two collectors share the tables and nothing else. */
static void test_two_collectors(void **state)
{
    (void)state;
    glebe_gc *other = glebe_gc_create(0);
    void *held = NULL, *theirs = glebe_gc_alloc(other, 100), *ours = glebe_gc_alloc(gc, 100);
    glebe_gc_root_add(other, &held, sizeof held);
    held = theirs;
    roots[0] = theirs; /* not our reference */
    glebe_gc_collect(gc);
    assert_true(!alive(ours) && glebe_gc_usable_size(other, theirs));
    held = NULL;
    glebe_gc_collect(other);
    assert_false(glebe_gc_usable_size(other, theirs));
    glebe_gc_destroy(other);
}

/* Wherever the host fails, a collection ends, and what is reachable stays. */
static void test_host_fails(void **state)
{
    (void)state;
    for (uint64_t at = 1; at < 40; at++) {
        gb_fake_fail(1u << GB_FAKE_COMMIT | 1u << GB_FAKE_GROW, at, UINT64_MAX);
        for (int i = 0; i < 20000; i++) {
            node *n = glebe_gc_alloc_layout(gc, sizeof *n, GLEBE_GC_LAYOUT(3, 3));
            if (!n)
                break;
            n->left = i % 100 ? roots[0] : NULL;
            roots[0] = n;
        }
        glebe_gc_collect(gc);
        int length = 0;
        for (node *n = roots[0]; n; n = n->left, length++)
            assert_true(alive(n));
        assert_true(length <= 100);
        gb_fake_fail(0, 0, 0);
        well();
    }
}

#define COLLECT_TEST(f) cmocka_unit_test_setup_teardown(f, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        COLLECT_TEST(test_what_is_reachable_stays),
        COLLECT_TEST(test_layouts),
        COLLECT_TEST(test_marking_needs_little_memory),
        COLLECT_TEST(test_memory_is_used_again),
        COLLECT_TEST(test_limit),
        COLLECT_TEST(test_finalizers),
        COLLECT_TEST(test_weak_references),
        COLLECT_TEST(test_callbacks),
        COLLECT_TEST(test_in_parts),
        COLLECT_TEST(test_freed_by_hand),
        COLLECT_TEST(test_two_collectors),
        COLLECT_TEST(test_host_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
