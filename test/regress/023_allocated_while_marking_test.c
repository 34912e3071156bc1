/* An allocation between glebe_gc_begin and glebe_gc_finish, or in a marker, could start a collection inside the other
 * one, whose later roots were not known yet, and the mark stack was freed twice. And the rest of a hole in which such
 * an allocation began was lost. */
#include "../unit/fixture.h"

enum { LENGTH = 30000 };

typedef struct node {
    struct node *next;
    uintptr_t number;
} node;

static glebe_gc *gc;
static node *list; /* not a root: a marker marks it, or the test between the parts */
static void *root;
static int events;

static int begin(void **state)
{
    (void)state;
    fixture_start(1);
    gc = glebe_gc_create(0);
    glebe_gc_pace(gc, 100, 64 << 10, 0);
    root = list = NULL;
    events = 0;
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

static void list_grow(size_t links)
{
    for (size_t i = 0; i < links; i++) {
        node *l = glebe_gc_alloc(gc, i % 1000 == 999 ? 3000 : sizeof *l);
        l->next = list;
        l->number = list ? list->number + 1 : 0;
        list = l;
    }
}

static uintptr_t list_length(void)
{
    uintptr_t length = 0, number = list ? list->number + 1 : 0;
    for (const node *l = list; l; l = l->next, length++) {
        assert_int_equal(l->number, --number);
        assert_true(glebe_gc_usable_size(gc, l) >= sizeof *l);
    }
    return length;
}

static void test_between_the_parts(void **state)
{
    (void)state;
    glebe_gc_stats stats;
    for (unsigned every = 0; every < 2; every++) { /* 1: each allocation would collect */
        list = NULL;
        glebe_gc_pace(gc, 100, 64 << 10, 0);
        for (int i = 0; i < 500; i++)
            assert_non_null(glebe_gc_alloc(gc, 32)); /* holes */
        glebe_gc_begin(gc);
        glebe_gc_pace(gc, 100, 64 << 10, every);
        list_grow(LENGTH);
        glebe_gc_begin(gc); /* does nothing */
        assert_int_equal(glebe_gc_collect(gc), 0);
        well();
        glebe_gc_stats_read(gc, &stats);
        assert_int_equal(stats.collections, every * 2);
        glebe_gc_finish(gc);
        assert_int_equal(glebe_gc_finish(gc), 0); /* does nothing */
        assert_int_equal(list_length(), LENGTH);
        glebe_gc_stats_read(gc, &stats);
        assert_int_equal(stats.collections, every * 2 + 1);
        assert_int_equal(stats.marked_objects, LENGTH);
        assert_int_equal(stats.allocated_objects - stats.freed_objects, LENGTH);
        well();
        glebe_gc_collect(gc);
        glebe_gc_stats_read(gc, &stats);
        assert_int_equal(stats.marked_objects, 0);
        assert_int_equal(stats.heap_bytes, 0);
    }
}

/* Only new objects, of all kinds, refer to the old ones. */
static void test_what_new_ones_refer_to(void **state)
{
    (void)state;
    static const struct { uintptr_t words; uint8_t bits[2]; } second = {2, {2, 0}};
    static const size_t sizes[] = {16, 2048, 2049, 100000, (size_t)3 << 20};
    enum { SIZES = sizeof sizes / sizeof sizes[0], KINDS = 4 };
    void *old[SIZES * KINDS], **fresh[SIZES * KINDS];
    const uintptr_t layouts[KINDS] = {0, GLEBE_GC_LAYOUT(2, 2), (uintptr_t)&second, GB_PLAIN};
    glebe_gc_pace(gc, 100, (size_t)512 << 20, 0);
    for (size_t i = 0; i < SIZES * KINDS; i++) {
        old[i] = glebe_gc_alloc(gc, sizes[i % SIZES]);
        *(void **)old[i] = glebe_gc_alloc(gc, 48);
    }
    glebe_gc_begin(gc);
    for (size_t i = 0; i < SIZES * KINDS; i++) {
        fresh[i] = glebe_gc_alloc_layout(gc, sizes[i % SIZES], layouts[i / SIZES]);
        glebe_gc_mark(gc, &root, &root + 1); /* marking goes on before it is filled */
        fresh[i][1] = old[i];
    }
    void *finalized = glebe_gc_alloc(gc, 16);
    assert_int_equal(glebe_gc_finalizer(gc, finalized, (glebe_gc_final *)(uintptr_t)1, NULL), 0);
    assert_int_equal(glebe_gc_finalize(gc), 0);
    well();
    glebe_gc_finish(gc);
    assert_int_equal(glebe_gc_finalizer(gc, finalized, NULL, NULL), 0);
    for (size_t i = 0; i < SIZES * KINDS; i++) {
        assert_true(glebe_gc_usable_size(gc, fresh[i]) > 0);
        assert_int_equal(glebe_gc_usable_size(gc, old[i]) > 0, i / SIZES < 3);
        if (i / SIZES < 3)
            assert_true(glebe_gc_usable_size(gc, *(void **)old[i]) > 0);
    }
    well();
    glebe_gc_collect(gc);
    for (size_t i = 0; i < SIZES * KINDS; i++)
        assert_int_equal(glebe_gc_usable_size(gc, fresh[i]), 0);
    well();
}

/* A marker allocates and collects, and names its root last. */
static void *added;
static void marker(void *context, glebe_gc *collector)
{
    (void)context;
    void *freed = glebe_gc_alloc(collector, 48), *large = glebe_gc_alloc(collector, 5000),
        *huge = glebe_gc_alloc(collector, (size_t)2 << 20);
    list_grow(LENGTH / 10);
    assert_int_equal(glebe_gc_collect(collector), 0);
    glebe_gc_begin(collector);
    assert_int_equal(glebe_gc_finish(collector), 0);
    assert_int_equal(glebe_gc_finalize(collector), 0);
    glebe_gc_free(collector, freed);
    glebe_gc_free(collector, large);
    glebe_gc_free(collector, huge);
    if (!added) { /* becomes a root, in this collection too */
        static void *keeps;
        added = keeps = list;
        assert_int_equal(glebe_gc_root_add(collector, &keeps, sizeof keeps), 0);
        list_grow(10);
    }
    glebe_gc_destroy(collector);
    glebe_gc_mark(collector, &list, &list + 1);
}

static void test_marker(void **state)
{
    (void)state;
    added = NULL;
    glebe_gc_pace(gc, 100, (size_t)512 << 20, 0); /* the list is no root yet */
    list_grow(LENGTH);
    glebe_gc_pace(gc, 100, 64 << 10, 0);
    glebe_gc_on_mark(gc, marker, NULL);
    for (uintptr_t round = 1; round <= 5; round++) {
        glebe_gc_collect(gc);
        assert_int_equal(glebe_live.stats.errors, round);
        assert_int_equal(list_length(), LENGTH + round * (LENGTH / 10) + 10);
        well();
    }
    assert_non_null(strstr(fake.printed, "glebe_gc_destroy"));
    glebe_gc_on_mark(gc, NULL, NULL);
    glebe_live.stats.errors = 0;
    list = added;
    glebe_gc_collect(gc);
    list_length();
}

/* A root that a marker adds counts in the same collection. */
static void *late_root;
static void late_marker(void *context, glebe_gc *collector)
{
    (void)context;
    assert_int_equal(glebe_gc_root_add(collector, &late_root, sizeof late_root), 0);
}

static void test_root_in_a_marker(void **state)
{
    (void)state;
    late_root = glebe_gc_alloc(gc, 100);
    glebe_gc_on_mark(gc, late_marker, NULL);
    glebe_gc_collect(gc);
    assert_true(glebe_gc_usable_size(gc, late_root) > 0);
    assert_int_equal(glebe_gc_root_remove(gc, &late_root), 0);
}

static void listener(void *context, glebe_gc_event event, const glebe_gc_stats *stats)
{
    (void)context;
    (void)stats;
    events++;
    root = NULL;
    root = glebe_gc_alloc(gc, 100000);
    assert_non_null(root);
    assert_int_equal(glebe_gc_collect(gc), 0);
    glebe_gc_begin(gc);
    assert_int_equal(glebe_gc_finish(gc), 0);
    assert_true(event == GLEBE_GC_BEGINS || event == GLEBE_GC_ENDED);
}

static void test_listener(void **state)
{
    (void)state;
    glebe_gc_on_event(gc, listener, NULL);
    glebe_gc_collect(gc);
    assert_int_equal(events, 2);
    assert_true(glebe_gc_usable_size(gc, root) > 0);
    glebe_gc_begin(gc);
    glebe_gc_finish(gc);
    assert_int_equal(events, 4);
    well();
}

/* The collector is destroyed between the parts. */
static void test_destroyed(void **state)
{
    (void)state;
    glebe_gc *other = glebe_gc_create(0);
    void *object = glebe_gc_alloc(other, 100);
    assert_non_null(glebe_gc_alloc(other, (size_t)2 << 20));
    glebe_gc_begin(other);
    glebe_gc_mark(other, &object, &object + 1);
    assert_non_null(glebe_gc_alloc(other, 5000));
    assert_non_null(glebe_gc_alloc(other, (size_t)2 << 20));
    glebe_gc_destroy(other);
    fixture_check();
}

#define MARKING_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {MARKING_TEST(test_between_the_parts), MARKING_TEST(test_what_new_ones_refer_to),
        MARKING_TEST(test_marker), MARKING_TEST(test_root_in_a_marker), MARKING_TEST(test_listener),
        MARKING_TEST(test_destroyed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
