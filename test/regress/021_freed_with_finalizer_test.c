/* glebe_gc_free of an object with a finalizer: the next collection still read the object, which ended in SIGSEGV if it
 * was over 1 MiB, and the finalizer ran on the object that had taken its place. A weak reference led there too. */
#include "../unit/fixture.h"

static glebe_gc *gc;
static int ran;
static void *root;

static int begin(void **state)
{
    (void)state;
    fixture_start(1);
    gc = glebe_gc_create(0);
    ran = 0;
    root = NULL;
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
    assert_int_equal(glebe_live.stats.errors, 0);
}

static void final_count(void *object, void *context)
{
    assert_non_null(object);
    ran += *(int *)context;
}

static void test_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 16, 100, 2048, 2049, 100000, (size_t)1 << 20, ((size_t)1 << 20) + 1,
        (size_t)5 << 20};
    int one = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *object = glebe_gc_alloc(gc, sizes[i]), *weak = object, *inside = (char *)object + sizes[i] / 2,
            *other = &one;
        assert_int_equal(glebe_gc_finalizer(gc, object, final_count, &one), 0);
        assert_int_equal(glebe_gc_weak_add(gc, &weak), 0);
        assert_int_equal(glebe_gc_weak_add(gc, &inside), 0);
        assert_int_equal(glebe_gc_weak_add(gc, &other), 0);
        glebe_gc_free(gc, object);
        assert_null(weak);
        assert_null(inside);
        assert_ptr_equal(other, &one);
        assert_int_equal(glebe_gc_weak_remove(gc, &weak), ENOENT);
        assert_int_equal(glebe_gc_weak_remove(gc, &other), 0);
        assert_int_equal(glebe_gc_finalizer(gc, object, final_count, &one), EINVAL);
        well();
        root = glebe_gc_alloc(gc, sizes[i]);
        glebe_gc_collect(gc);
        root = NULL;
        glebe_gc_collect(gc);
        well();
        assert_int_equal(glebe_gc_finalize(gc), 0);
    }
    assert_int_equal(ran, 0);
}

/* The object is freed when its finalizer is ready, or by that finalizer itself. */
static void final_frees(void *object, void *context)
{
    ran++;
    glebe_gc_free(gc, object);
    void **again = glebe_gc_alloc(gc, 40); /* perhaps the same place */
    glebe_gc_finalizer(gc, again, final_count, context);
    glebe_gc_collect(gc);
}

static void test_late(void **state)
{
    (void)state;
    int one = 1;
    void *object = glebe_gc_alloc(gc, 40);
    glebe_gc_finalizer(gc, object, final_count, &one);
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_usable_size(gc, object) > 0, 1);
    glebe_gc_free(gc, object);
    well();
    assert_int_equal(glebe_gc_finalize(gc), 0);
    object = glebe_gc_alloc(gc, 40);
    glebe_gc_finalizer(gc, object, final_frees, &one);
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalize(gc), 2); /* with the finalizer of the object that it left behind */
    assert_int_equal(ran, 2);
    well();
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalize(gc), 0);
}

/* A ready finalizer is removed, or set again. */
static void test_ready(void **state)
{
    (void)state;
    int one = 1, ten = 10;
    void *a = glebe_gc_alloc(gc, 40), *b = glebe_gc_alloc(gc, 40);
    glebe_gc_finalizer(gc, a, final_count, &one);
    glebe_gc_finalizer(gc, b, final_count, &one);
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalizer(gc, a, NULL, NULL), 0);
    assert_int_equal(glebe_gc_finalizer(gc, b, final_count, &ten), 0);
    well();
    assert_int_equal(glebe_gc_finalize(gc), 0);
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_usable_size(gc, a), 0);
    assert_int_equal(glebe_gc_finalize(gc), 1);
    assert_int_equal(ran, 10);
    well();
}

#define FREED_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {FREED_TEST(test_sizes), FREED_TEST(test_late), FREED_TEST(test_ready)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
