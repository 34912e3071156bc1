/* A collector at its limit whose objects had finalizers never freed anything again: the ready list found no room, and
 * then every object with a finalizer lived on. */
#include "../unit/fixture.h"

static size_t ran;

static void final_count(void *object, void *context)
{
    assert_non_null(object);
    assert_null(context);
    ran++;
}

static void fill_and_drain(size_t limit_bytes, size_t bytes)
{
    glebe_gc *gc = glebe_gc_create(limit_bytes);
    size_t registered, finalized = 0;
    assert_non_null(gc);
    ran = 0;
    for (int round = 0; round < 3; round++) {
        for (registered = 0;; registered++) {
            void *object = glebe_gc_alloc(gc, bytes);
            if (!object || glebe_gc_finalizer(gc, object, final_count, NULL) != 0)
                break;
        }
        assert_true(registered > 10);
        finalized += registered;
        glebe_gc_collect(gc);
        glebe_gc_finalize(gc);
        assert_int_equal(ran, finalized);
        assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
        glebe_gc_collect(gc);
        assert_int_equal(gc->live_bytes, 0);
    }
    glebe_gc_destroy(gc);
    fixture_check();
}

static void test_drains(void **state)
{
    (void)state;
    fill_and_drain((size_t)1 << 20, 1000);
    fill_and_drain((size_t)1 << 20, 16);
    fill_and_drain((size_t)1 << 20, 2048);
    fill_and_drain((size_t)2 << 20, 20000);
    fill_and_drain((size_t)30 << 20, (size_t)2 << 20 >> (GB_LINEAR ? 2 : 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_drains)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
