/* A collection freed objects that a listener had allocated in the event of its begin, although the contract keeps
 * them. */
#include "../unit/fixture.h"

static glebe_gc *gc;
static void **made[3], **inner[3];
static size_t begun;

static void hears(void *context, glebe_gc_event event, const glebe_gc_stats *stats)
{
    const size_t sizes[] = {100, 5000, (size_t)2 << 20};
    assert_null(context);
    if (event != GLEBE_GC_BEGINS)
        return;
    begun++;
    assert_int_equal(stats->allocated_objects - stats->freed_objects, 1);
    assert_int_equal(glebe_gc_collect(gc), 0);
    assert_int_equal(glebe_gc_finish(gc), 0);
    for (int i = 0; i < 3; i++) {
        inner[i] = glebe_gc_alloc_plain(gc, sizes[i]);
        made[i] = glebe_gc_alloc(gc, sizes[i]);
        made[i][7] = inner[i];
    }
}

static void test_stays(void **state)
{
    (void)state;
    gc = glebe_gc_create(0);
    assert_non_null(glebe_gc_alloc(gc, 64)); /* will be freed */
    glebe_gc_on_event(gc, hears, NULL);
    assert_true(glebe_gc_collect(gc) > 0);
    assert_int_equal(begun, 1);
    for (int i = 0; i < 3; i++) {
        assert_true(glebe_gc_usable_size(gc, made[i]) >= 100 && glebe_gc_usable_size(gc, inner[i]) >= 100);
        assert_true(made[i][7] == inner[i]);
    }
    glebe_gc_on_event(gc, NULL, NULL);
    glebe_gc_stats stats;
    glebe_gc_stats_read(gc, &stats);
    assert_int_equal(stats.marked_objects, 6);
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    glebe_gc_collect(gc);
    assert_int_equal(gc->live_bytes, 0);
    glebe_gc_destroy(gc);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
