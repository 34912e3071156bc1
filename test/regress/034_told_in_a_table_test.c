/* While a table of the collector grows, the callback of memory pressure may run. An entry that the callback added was
 * added a second time, without its data. A collection in the callback freed the object whose root was just being added,
 * and the object that was just being freed by hand. */
#include "../unit/fixture.h"

enum { MANY = 10000, KEPT_BYTES = 8 << 20 };
enum { WEAK, ROOT, FINALIZER, KINDS };

static glebe_gc *gc;
static void *kept, *objects[MANY], *slots[MANY];
static int kind, next, told;

static void no_final(void *object, void *context)
{
    assert_non_null(object);
    (*(int *)context)++;
}

static int add(int i)
{
    static int ran;
    return kind == WEAK ? glebe_gc_weak_add(gc, &slots[i])
        : kind == ROOT ? glebe_gc_root_add(gc, &slots[i], sizeof slots[i])
        : glebe_gc_finalizer(gc, objects[i], no_final, &ran);
}

static int taken_back(int i)
{
    return kind == WEAK ? glebe_gc_weak_remove(gc, &slots[i])
        : kind == ROOT ? glebe_gc_root_remove(gc, &slots[i])
        : glebe_gc_finalizer(gc, objects[i], NULL, NULL);
}

static const gb_table *table_of(void) { return kind == WEAK ? &gc->weak : kind == ROOT ? &gc->roots : &gc->finals; }

/* Every callback does this first. */
static void makes_room(const void *context, uint64_t used, uint64_t limit)
{
    assert_true(!context && used <= limit);
    told++;
    glebe_free(kept);
    kept = NULL;
}

static void adds_the_same(void *context, uint64_t used, uint64_t limit)
{
    makes_room(context, used, limit);
    if (told == 1)
        assert_int_equal(add(next), 0);
}

/* The next allocation of the collector's tables calls the program back, which then frees enough. */
static void limit_here(void)
{
    gb_the.options.limit = 0;
    kept = kept ? kept : glebe_malloc(KEPT_BYTES);
    gb_the.options.limit = (size_t)glebe_live.stats.used_bytes;
    told = 0;
}

static void begin(glebe_pressure *callback)
{
    gc = glebe_gc_create(0);
    assert_int_equal(glebe_gc_root_add(gc, objects, sizeof objects), 0);
    for (int i = 0; i < MANY; i++)
        slots[i] = objects[i] = glebe_gc_alloc(gc, 16);
    glebe_on_pressure(callback, NULL);
}

static void end(void)
{
    gb_the.options.limit = 0;
    glebe_on_pressure(NULL, NULL);
    glebe_free(kept);
    kept = NULL;
    glebe_gc_destroy(gc);
    fixture_release();
}

static void test_added_twice(void **state)
{
    (void)state;
    for (kind = WEAK; kind < KINDS; kind++) {
        int tellings = 0;
        begin(adds_the_same);
        uint32_t before = table_of()->count;
        for (next = 0; next < MANY; next++) {
            limit_here();
            assert_int_equal(add(next), 0);
            tellings += told;
            assert_int_equal(table_of()->count, before + (uint32_t)next + 1);
            if (!told)
                continue;
            assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
            for (int times = kind == FINALIZER ? 1 : 2; times > 0; times--)
                assert_int_equal(taken_back(next), 0);
            assert_int_equal(table_of()->count, before + (uint32_t)next);
            assert_int_equal(add(next), 0);
        }
        assert_true(tellings >= 3);
        end();
    }
}

static void collects(void *context, uint64_t used, uint64_t limit)
{
    makes_room(context, used, limit);
    glebe_gc_collect(gc);
}

/* The slots are not roots until they are added, and no other root refers to the new object. */
static void test_freed_before_added(void **state)
{
    (void)state;
    for (kind = ROOT; kind < KINDS; kind++) {
        int tellings = 0;
        begin(collects);
        memset(slots, 0, sizeof slots);
        assert_int_equal(glebe_gc_root_remove(gc, objects), 0);
        for (next = 0; next < MANY; next++) {
            slots[next] = objects[next] = glebe_gc_alloc(gc, 16);
            limit_here();
            assert_int_equal(add(next), 0);
            tellings += told;
            assert_true(glebe_gc_usable_size(gc, slots[next]) >= 16);
        }
        assert_true(tellings >= 3);
        gb_the.options.limit = 0;
        glebe_gc_collect(gc);
        for (next = 0; next < MANY; next++)
            assert_true(glebe_gc_usable_size(gc, slots[next]) >= 16);
        end();
    }
}

static void finishes(void *context, uint64_t used, uint64_t limit)
{
    makes_room(context, used, limit);
    glebe_gc_finish(gc);
}

/* The callback ends the collection that the program has begun, and other collections begin afterwards. */
static void test_finished_meanwhile(void **state)
{
    (void)state;
    uint64_t finished = 0;
    glebe_gc_stats stats;
    begin(finishes);
    kind = ROOT;
    for (next = 0; next < 500; next++) {
        glebe_gc_begin(gc);
        limit_here();
        assert_int_equal(add(next), 0);
        finished += told > 0;
        glebe_gc_finish(gc);
        glebe_gc_stats_read(gc, &stats);
        assert_int_equal(stats.collections, next + 1);
    }
    assert_true(finished >= 2);
    end();
}

static void test_freed_meanwhile(void **state)
{
    (void)state;
    glebe_gc_stats stats;
    begin(collects);
    kind = FINALIZER;
    for (int i = 0; i < MANY; i++)
        assert_int_equal(add(i), 0);
    for (int i = 0; i < MANY; i++) {
        void *object = objects[i];
        objects[i] = NULL;
        limit_here();
        glebe_gc_free(gc, object);
        assert_int_equal(glebe_gc_usable_size(gc, object), 0);
    }
    glebe_gc_stats_read(gc, &stats);
    assert_int_equal(stats.freed_objects, MANY);
    assert_int_equal(gc->finals.count, 0);
    assert_int_equal(glebe_live.stats.errors, 0);
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_added_twice),
        FIXTURE_TEST(test_freed_before_added),
        FIXTURE_TEST(test_finished_meanwhile),
        FIXTURE_TEST(test_freed_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
