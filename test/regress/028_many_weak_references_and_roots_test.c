/* Removing a weak reference or a root searched all of them: 200,000 took 6 to 9 seconds. The test counts steps in their
 * tables. */
#include "../unit/fixture.h"

enum { MANY = 200000 };

static void *slots[MANY];

static size_t mixed(size_t i) { return i * 7919 % MANY; } /* in no order */

static void test_weak(void **state)
{
    (void)state;
    glebe_gc *gc = glebe_gc_create(0);
    void **objects = glebe_malloc(1000 * sizeof *objects);
    for (size_t i = 0; i < 1000; i++)
        objects[i] = glebe_gc_alloc(gc, 32);
    fixture_probes = 0;
    for (size_t i = 0; i < MANY; i++) {
        slots[i] = objects[i % 1000];
        assert_int_equal(glebe_gc_weak_add(gc, &slots[i]), 0);
    }
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    for (size_t i = 0; i < MANY / 2; i++)
        assert_int_equal(glebe_gc_weak_remove(gc, &slots[mixed(i)]), 0);
    for (size_t i = 0; i < MANY / 2; i++)
        assert_int_equal(glebe_gc_weak_remove(gc, &slots[mixed(i)]), ENOENT);
    assert_int_equal(gc->weak.count, MANY / 2);
    assert_true(fixture_probes > 0 && fixture_probes < 8ul * MANY);
    assert_int_equal(glebe_gc_weak_add(gc, &slots[mixed(0)]), 0);
    assert_int_equal(glebe_gc_weak_add(gc, &slots[mixed(0)]), 0); /* known twice: removed twice */
    assert_int_equal(glebe_gc_weak_remove(gc, &slots[mixed(0)]), 0);
    glebe_gc_collect(gc);
    assert_int_equal(gc->weak.count, 0);
    for (size_t i = 0; i < MANY; i++)
        if (i == 0 || i >= MANY / 2)
            assert_null(slots[mixed(i)]);
        else
            assert_non_null(slots[mixed(i)]);
    assert_int_equal(glebe_gc_weak_add(gc, NULL), EINVAL);
    assert_int_equal(glebe_gc_weak_add(gc, glebe_gc_alloc(gc, 32)), EINVAL); /* a slot in an object */
    assert_int_equal(glebe_gc_weak_add(gc, slots), 0);
    assert_true(gc->weak.room < 100); /* the table has shrunk */
    glebe_free(objects);
    glebe_gc_destroy(gc);
    fixture_release();
}

static void test_roots(void **state)
{
    (void)state;
    glebe_gc *gc = glebe_gc_create(0);
    memset(slots, 0, sizeof slots);
    fixture_probes = 0;
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(glebe_gc_root_add(gc, &slots[i], sizeof slots[i]), 0);
    glebe_gc_pace(gc, 100, (size_t)512 << 20, 0);
    for (size_t i = 0; i < MANY; i++)
        slots[i] = glebe_gc_alloc(gc, 32);
    for (size_t i = 0; i < MANY; i += 2)
        assert_int_equal(glebe_gc_root_remove(gc, &slots[mixed(i)]), 0);
    for (size_t i = 0; i < MANY; i += 2)
        assert_int_equal(glebe_gc_root_remove(gc, &slots[mixed(i)]), ENOENT);
    assert_true(fixture_probes > 0 && fixture_probes < 8ul * MANY);
    glebe_gc_collect(gc);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(glebe_gc_usable_size(gc, slots[mixed(i)]) > 0, i % 2);
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    glebe_gc_destroy(gc);
    fixture_release();
}

/* Ranges that begin at the same address or overlap: each keeps its objects. A range past the end of memory was ignored.
 */
static void test_ranges(void **state)
{
    (void)state;
    static void *words[8];
    glebe_gc *gc = glebe_gc_create(0);
    assert_int_equal(glebe_gc_root_add(gc, words, SIZE_MAX), EINVAL);
    assert_int_equal(glebe_gc_root_add(gc, (void *)UINTPTR_MAX, 0), EINVAL);
    assert_int_equal(glebe_gc_root_add(gc, words, sizeof words), 0);
    assert_int_equal(glebe_gc_root_add(gc, words, sizeof words[0]), 0);
    assert_int_equal(glebe_gc_root_add(gc, words + 1, 3 * sizeof words[0]), 0);
    for (int i = 0; i < 8; i++)
        words[i] = glebe_gc_alloc(gc, 32);
    assert_int_equal(glebe_gc_root_remove(gc, words), 0);
    glebe_gc_collect(gc);
    for (int i = 0; i < 8; i++)
        assert_true(glebe_gc_usable_size(gc, words[i]) > 0);
    assert_int_equal(glebe_gc_root_remove(gc, words), 0);
    assert_int_equal(glebe_gc_root_remove(gc, words), ENOENT);
    glebe_gc_collect(gc);
    for (int i = 0; i < 8; i++)
        assert_int_equal(glebe_gc_usable_size(gc, words[i]) > 0, i >= 1 && i <= 3);
    glebe_gc_destroy(gc);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_weak), FIXTURE_TEST(test_roots), FIXTURE_TEST(test_ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
