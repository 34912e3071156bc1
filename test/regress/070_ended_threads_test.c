/* Memory of ended threads was reused only for the same size class, and purged only by glebe_trim or the background
 * thread: 200 threads that took 2 MB each in blocks of 128 bytes left 430 MB resident after others had freed every
 * block, and blocks of another size took as much again. Now an ended thread's empty pages are free for every class at
 * once; pages that remote frees empty later are free with the next tick. */
#define FIXTURE_FEW_HEAPS 64 /* each thread has a heap */
#include "../unit/fixture.h"

enum { THREADS = 12, BLOCKS = 4000, BYTES = 128 };

static void *blocks[THREADS][BLOCKS];

static void each_thread_takes(bool frees)
{
    for (int t = 1; t < THREADS; t++) {
        fixture_thread(t);
        for (int i = 0; i < BLOCKS; i++)
            assert_non_null(blocks[t][i] = glebe_malloc(BYTES));
        for (int i = 0; frees && i < BLOCKS; i++)
            glebe_free(blocks[t][i]);
    }
    for (int t = 1; t < THREADS; t++)
        fixture_thread_end(t);
    fixture_thread(0);
    fixture_check();
}

static void test_empty_pages_go_back_as_a_thread_ends(void **state)
{
    (void)state;
    void *own = glebe_malloc(BYTES);
    size_t used = (size_t)glebe_live.stats.used_bytes;
    each_thread_takes(true);
    assert_int_equal(glebe_live.stats.used_bytes, used);
    glebe_free(own);
}

static void test_pages_go_back_when_others_emptied_them(void **state)
{
    (void)state;
    void *own = glebe_malloc(BYTES);
    size_t used = (size_t)glebe_live.stats.used_bytes;
    each_thread_takes(false);
    size_t most = (size_t)glebe_live.stats.used_bytes, committed = (size_t)glebe_live.stats.committed_bytes;
    for (int t = 1; t < THREADS; t++)
        for (int i = 0; i < BLOCKS; i++)
            glebe_free(blocks[t][i]);
    gb_store(&gb_the.now_ms, fake.now_ms++);
    gb_tick_due(gb_self);
    fixture_check();
    assert_int_equal(glebe_live.stats.used_bytes, used);
    for (size_t bytes = 0; bytes < most * 3 / 4; bytes += 2 * BYTES) /* another class finds the memory */
        assert_non_null(glebe_malloc(2 * BYTES));
    assert_int_equal(glebe_live.stats.committed_bytes, committed);
    fixture_check();
    glebe_free(own);
}

/* Abandoned heaps whose pages have room serve before new memory is taken, even if many other heaps come before them. */
static void test_every_abandoned_is_come_by(void **state)
{
    (void)state;
    enum { MANY = FIXTURE_THREADS - 1, CLASSES = 8 };
    static void *kept[MANY][400];
    assert_non_null(glebe_malloc(16));
    for (int t = 1; t < MANY; t++) { /* each has half-free pages of one class */
        fixture_thread(t);
        for (int i = 0; i < 400; i++)
            kept[t][i] = glebe_malloc(256 + 64 * (size_t)(t % CLASSES));
        for (int i = 0; i < 400; i += 2)
            glebe_free(kept[t][i]);
    }
    for (int t = 1; t < MANY; t++)
        fixture_thread_end(t);
    fixture_thread(0);
    size_t used = (size_t)glebe_live.stats.used_bytes;
    for (int c = 0; c < CLASSES; c++)
        for (int i = 0; i < 100; i++)
            assert_non_null(glebe_malloc(256 + 64 * (size_t)c));
    assert_int_equal(glebe_live.stats.used_bytes, used);
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_empty_pages_go_back_as_a_thread_ends),
        FIXTURE_TEST(test_pages_go_back_when_others_emptied_them),
        FIXTURE_TEST(test_every_abandoned_is_come_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
