/* Blocks that a cursor has not handed out yet count as allocated, so glebe_gc_usable_size, glebe_gc_finalizer and
 * glebe_gc_free took them for objects: the finalizer ran on the object that got the block later, and a freed block was
 * handed out twice. */
#include "../unit/fixture.h"

static void no_final(void *object, void *context)
{
    (void)object;
    (void)context;
    fail();
}

static void test_no_objects(void **state)
{
    (void)state;
    static const struct { uintptr_t words; uint8_t bits[2]; } first = {3, {1, 0}};
    const uintptr_t layouts[] = {0, GB_PLAIN, GLEBE_GC_LAYOUT(3, 1), (uintptr_t)&first};
    glebe_gc *gc = glebe_gc_create(0);
    for (size_t kind = 0; kind < 4; kind++)
        for (int i = 0, moves = 0; i < 100; i++) { /* until a layout has pages of its own: then it moves, once */
            char *object = glebe_gc_alloc_layout(gc, 48, layouts[kind]),
                *next = object + glebe_gc_usable_size(gc, object);
            uintptr_t start;
            if (gb_object_at(gc, (uintptr_t)next, &start)) { /* its bit is set already */
                int errors = (int)glebe_live.stats.errors;
                assert_int_equal(glebe_gc_usable_size(gc, next), 0);
                assert_int_equal(glebe_gc_finalizer(gc, next, no_final, NULL), EINVAL);
                glebe_gc_free(gc, next);
                assert_int_equal(glebe_live.stats.errors, errors + 1);
                char *fresh = glebe_gc_alloc_layout(gc, 48, layouts[kind]);
                assert_true(fresh == next || ++moves == 1);
                assert_true(glebe_gc_usable_size(gc, fresh) >= 48);
            }
            assert_true(glebe_gc_usable_size(gc, object) >= 48);
        }
    assert_true(glebe_live.stats.errors > 100);
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalize(gc), 0);
    glebe_gc_destroy(gc);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_no_objects)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
