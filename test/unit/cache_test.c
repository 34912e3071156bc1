/* Caches of threads: objects without a lock, and collections while a thread is anywhere inside. */
#include "fixture.h"

static glebe_gc *gc;
static void *roots[8];

static int start(void **state)
{
    (void)state;
    fixture_start(1);
    memset(roots, 0, sizeof roots);
    gc = GB_RUNTIMES ? glebe_gc_create(0) : NULL;
    return gc && glebe_gc_root_add(gc, roots, sizeof roots) == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    int printed = 0;
    assert_int_equal(glebe_gc_check(gc, fixture_print, &printed), 0);
    fixture_check();
    glebe_gc_destroy(gc);
    fixture_release();
    return 0;
}

/* What a user of caches does. */
static void *take(gb_cache *cache, size_t bytes, bool plain)
{
    gb_cache_row *row = gb_cache_row_of(cache, bytes, plain);
    void *object = gb_cache_take(row);
    if (!object)
        object = gb_cache_next(row);
    if (!object && gb_cache_fill(gc, row, bytes, plain))
        object = gb_cache_next(row);
    return object;
}

static bool is_zero(const unsigned char *object, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (object[i])
            return false;
    return true;
}

static uint64_t objects_allocated(void)
{
    glebe_gc_stats stats;
    glebe_gc_stats_read(gc, &stats);
    return stats.allocated_objects;
}

static void test_objects_of_every_size(void **state)
{
    (void)state;
    gb_cache *cache = gb_cache_new(gc);
    assert_non_null(cache);
    for (size_t bytes = 0; bytes <= GB_CACHED_MAX; bytes++)
        for (int plain = 0; plain < 2; plain++) {
            uint64_t before = objects_allocated();
            unsigned char *object = take(cache, bytes, plain);
            assert_true(object && glebe_gc_usable_size(gc, object) >= bytes);
            assert_int_equal(glebe_gc_layout_of(gc, object), plain ? GB_PLAIN : 0);
            assert_true(is_zero(object, bytes));
            assert_int_equal(objects_allocated(), before + 1);
            memset(object, 0xff, bytes);
        }
    gb_cache_end(gc, cache);
}

/* Objects of the cache live as long as others; the cells that it still has are never lost, and never count. */
static void test_a_collection(void **state)
{
    (void)state;
    enum { OBJECTS = 400, BYTES = 48 };
    gb_cache *cache = gb_cache_new(gc);
    for (int round = 0; round < 5; round++) {
        roots[0] = NULL;
        for (uintptr_t i = 0; i < OBJECTS; i++) {
            uintptr_t *object = take(cache, BYTES, false);
            assert_true(object && is_zero((unsigned char *)object, BYTES));
            object[1] = i;
            object[2] = ~(uintptr_t)0;
            if (i % 3)
                continue;
            object[0] = (uintptr_t)roots[0];
            roots[0] = object;
        }
        glebe_gc_collect(gc);
        assert_int_equal(glebe_gc_check(gc, fixture_print, &(int){0}), 0);
        glebe_gc_stats stats;
        glebe_gc_stats_read(gc, &stats);
        assert_int_equal(stats.marked_objects, (OBJECTS + 2) / 3);
        assert_int_equal(stats.live_bytes, (OBJECTS + 2) / 3 * BYTES);
        assert_int_equal(stats.allocated_objects - stats.freed_objects, stats.marked_objects);
        assert_int_equal(stats.allocated_bytes - stats.freed_bytes, stats.live_bytes);
        assert_int_equal(stats.allocated_bytes, (uint64_t)(round + 1) * OBJECTS * BYTES);
        uintptr_t count = 0;
        for (uintptr_t *object = roots[0]; object; object = (uintptr_t *)object[0], count++)
            assert_true(object[1] % 3 == 0 && object[2] == ~(uintptr_t)0);
        assert_int_equal(count, (OBJECTS + 2) / 3);
    }
    gb_cache_end(gc, cache); /* it has gaps from before the last collection */
    glebe_gc_stats stats;
    glebe_gc_stats_read(gc, &stats);
    assert_int_equal(stats.allocated_bytes, 5 * OBJECTS * BYTES);
    assert_int_equal(glebe_gc_collect(gc), 0);
}

/* A thread is stopped after it has read where its object will be, and before it says so. */
static void test_a_thread_is_stopped_inside(void **state)
{
    (void)state;
    gb_cache *cache = gb_cache_new(gc);
    uintptr_t *first = take(cache, 32, false);
    gb_cache_row *row = gb_cache_row_of(cache, 32, false);
    gb_gap *gap = (gb_gap *)((char *)row + row->now);
    uintptr_t at = gap->at;
    roots[0] = first;
    first[0] = at; /* a word that looks like a reference to it */
    glebe_gc_collect(gc);
    assert_true(gap->at == at && at != gap->end);
    for (int i = 0; i < 2000; i++) { /* nobody else gets the cell */
        uintptr_t *other = glebe_gc_alloc(gc, 32);
        assert_true((uintptr_t)other != at);
        other[1] = 7;
    }
    gap->at = at + row->step;
    uintptr_t *object = (uintptr_t *)at;
    assert_true(is_zero((unsigned char *)object, 32));
    glebe_gc_collect(gc);
    assert_true(glebe_gc_base(gc, object) == object);
    first[0] = 0;
    glebe_gc_collect(gc);
    assert_true(glebe_gc_base(gc, object) == NULL && glebe_gc_base(gc, first) == first);
    gb_cache_end(gc, cache);
}

/* Between live objects: gaps of one object each, whose memory must be cleared. */
static void test_short_gaps(void **state)
{
    (void)state;
    enum { OBJECTS = 3000, BYTES = 64 };
    static void *kept[OBJECTS];
    assert_int_equal(glebe_gc_root_add(gc, kept, sizeof kept), 0);
    for (int i = 0; i < OBJECTS; i++) {
        kept[i] = glebe_gc_alloc(gc, BYTES);
        memset(kept[i], i % 2 ? 0x55 : 0, BYTES);
    }
    for (int i = 1; i < OBJECTS; i += 2)
        kept[i] = NULL;
    glebe_gc_collect(gc);
    size_t before = gc->heap->collected_bytes;
    gb_cache *cache = gb_cache_new(gc);
    for (int i = 1; i < OBJECTS; i += 2) {
        kept[i] = take(cache, BYTES, false);
        assert_true(kept[i] && is_zero(kept[i], BYTES));
    }
    assert_true(gc->heap->collected_bytes == before); /* the gaps were enough */
    gb_cache_end(gc, cache);
    assert_int_equal(glebe_gc_root_remove(gc, kept), 0);
}

static void test_the_end_returns_the_cells(void **state)
{
    (void)state;
    uint64_t before = objects_allocated();
    size_t taken = gc->taken_bytes;
    gb_cache *caches[3];
    for (int i = 0; i < 3; i++) {
        caches[i] = gb_cache_new(gc);
        for (int n = 0; n < 20; n++)
            assert_non_null(take(caches[i], 16 + 16 * (size_t)(n % 5), n % 2));
    }
    assert_int_equal(objects_allocated(), before + 60);
    gb_cache_end(gc, caches[1]); /* neither first nor last */
    gb_cache_end(gc, caches[2]);
    gb_cache_end(gc, caches[0]);
    assert_true(gc->caches == NULL);
    assert_int_equal(gc->stats.allocated_objects - gb_cursors_left(gc), before + 60);
    assert_true(gc->taken_bytes < taken + 60 * 96);
    glebe_gc_collect(gc);
    assert_int_equal(gc->heap->collected_bytes, 0);
}

static size_t visited;
static void visit(void *context, void *object, size_t bytes)
{
    (void)context, (void)object, (void)bytes;
    visited++;
}

static void test_a_walk_sees_no_cell_that_waits(void **state)
{
    (void)state;
    gb_cache *cache = gb_cache_new(gc);
    for (int i = 0; i < 10; i++)
        take(cache, 32, false);
    visited = 0;
    glebe_gc_each(gc, visit, NULL);
    assert_int_equal(visited, 10);
    gb_cache_end(gc, cache);
}

/* Filling ends where a collection is due, or memory ends; then the row is empty, not broken. */
static void test_nothing_to_fill_from(void **state)
{
    (void)state;
    gb_cache *cache = gb_cache_new(gc);
    gc->trigger_bytes = gc->taken_bytes;
    assert_null(take(cache, 32, false));
    assert_true(gc->due);
    glebe_gc_collect(gc);
    assert_non_null(take(cache, 32, false));
    gb_cache_end(gc, cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_objects_of_every_size, start, end),
        cmocka_unit_test_setup_teardown(test_a_collection, start, end),
        cmocka_unit_test_setup_teardown(test_a_thread_is_stopped_inside, start, end),
        cmocka_unit_test_setup_teardown(test_short_gaps, start, end),
        cmocka_unit_test_setup_teardown(test_the_end_returns_the_cells, start, end),
        cmocka_unit_test_setup_teardown(test_a_walk_sees_no_cell_that_waits, start, end),
        cmocka_unit_test_setup_teardown(test_nothing_to_fill_from, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
