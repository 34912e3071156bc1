/* Warm blocks: large and huge blocks that were freed last serve the next requests of their size. They are released when
 * other requests need the memory, when the heap cools, and when their thread ends or does not survive fork. */
#define FIXTURE_WARM_BYTES ((size_t)4 << 20)
#include "fixture.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };
static const size_t sizes[] = {100 * KIB, 300 * KIB, GB_LARGE_MAX, GB_LARGE_MAX + 1, 2 * MIB, 4 * MIB};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void test_the_next_of_a_size(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        char *block = glebe_malloc(sizes[i]);
        memset(block, 'x', sizes[i]);
        glebe_free(block);
        fixture_check();
        assert_int_equal(gb_self->warm_count, 1);
        uint64_t taken = glebe_live.stats.pages_taken, used = glebe_live.stats.used_bytes;
        char *again = glebe_calloc(1, sizes[i]);
        assert_ptr_equal(again, block);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(again[k], 0);
        assert_int_equal(gb_self->warm_count, 0);
        assert_int_equal(glebe_live.stats.pages_taken, taken);
        assert_int_equal(glebe_live.stats.used_bytes, used);
        glebe_free(again);
    }
    fixture_release();
}

/* A request of another size does not find it, and returns it first. */
static void test_others_use_its_memory(void **state)
{
    (void)state;
    void *block = glebe_malloc(100 * KIB);
    glebe_free(block);
    void *longer = glebe_malloc(200 * KIB);
    assert_int_equal(gb_self->warm_count, 0);
    assert_ptr_equal(longer, block);
    glebe_free(longer);
    void *shorter = glebe_malloc(150 * KIB);
    assert_int_equal(gb_self->warm_count, 0);
    glebe_free(shorter);
    fixture_release();
}

static void test_bounds(void **state)
{
    (void)state;
    void *blocks[2 * GB_WARM_BLOCKS];
    for (int i = 0; i < 2 * GB_WARM_BLOCKS; i++)
        blocks[i] = glebe_malloc(100 * KIB);
    for (int i = 0; i < 2 * GB_WARM_BLOCKS; i++)
        glebe_free(blocks[i]);
    assert_int_equal(gb_self->warm_count, GB_WARM_BLOCKS);
    for (int i = 0; i < 3; i++)
        blocks[i] = glebe_malloc(3 * MIB);
    for (int i = 0; i < 3; i++)
        glebe_free(blocks[i]);
    assert_int_equal(gb_self->warm_bytes, 3 * MIB);
    fixture_check();
    gb_the.options.background = 1; /* the thread could not return them */
    glebe_free(glebe_malloc(3 * MIB));
    glebe_free(glebe_malloc(100 * KIB));
    assert_int_equal(gb_self->warm_count, 0);
    fixture_release();
}

static void test_a_share_where_heaps_are_many(void **state)
{
    (void)state;
    glebe_free(glebe_malloc(1));
    uint32_t heaps = gb_the.records.in_use;
    gb_the.records.in_use = 16; /* four of them could keep 4 MiB each */
    glebe_free(glebe_malloc(2 * MIB));
    assert_int_equal(gb_self->warm_count, 0);
    glebe_free(glebe_malloc(1 * MIB));
    assert_int_equal(gb_self->warm_count, 1);
    gb_the.records.in_use = heaps;
    fixture_release();
}

static void test_cools(void **state)
{
    (void)state;
    enum { LATER_MS = 40 };
    glebe_free(glebe_malloc(2 * MIB));
    glebe_free(glebe_malloc(100 * KIB));
    assert_int_equal(gb_self->warm_count, 1);
    fake.now_ms += LATER_MS;
    for (int i = 0; i < 4 * GB_TICK_EVENTS; i++) {
        void *block = glebe_malloc(40 * KIB), *other = glebe_malloc(40 * KIB);
        glebe_free(block);
        glebe_free(other);
    }
    assert_int_equal(gb_self->warm_count, 0);
    fixture_release();
}

/* Freeing or using a warm block is misuse, as for any free block. */
static void test_is_free(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        char *block = glebe_malloc(sizes[i]);
        glebe_free(block);
        uint64_t errors = glebe_live.stats.errors;
        glebe_free(block);
        assert_int_equal(glebe_live.stats.errors, errors + 1);
        assert_int_equal(glebe_usable_size(block), 0);
        assert_null(glebe_realloc(block, sizes[i] * 2));
        glebe_free(block + GB_SLICE_BYTES);
        assert_int_equal(glebe_live.stats.errors, errors + 4);
        fixture_check();
    }
    fixture_release();
}

static void test_by_another_thread(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        fixture_thread(0);
        void *block = glebe_malloc(sizes[i]);
        fixture_thread(1);
        glebe_free(block);
        assert_int_equal(gb_self->warm_count, 0);
        block = glebe_malloc(sizes[i]);
        glebe_free(block);
        assert_int_equal(gb_self->warm_count, 1);
        fixture_thread_end(1);
        assert_int_equal(glebe_live.stats.large_bytes + glebe_live.stats.huge_bytes, 0);
        fixture_check();
    }
    fixture_release();
}

static void test_dead_after_fork(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        fixture_start((uint64_t)i + 1);
        fixture_thread(1);
        void *kept = glebe_malloc(sizes[i]);
        glebe_free(glebe_malloc(sizes[i]));
        fixture_thread(0);
        glebe_free(glebe_malloc(1));
        gb_fork_prepare();
        gb_fork_child();
        assert_in_range(glebe_live.stats.large_bytes + glebe_live.stats.huge_bytes, sizes[i],
            sizes[i] + GB_SLICE_BYTES);
        glebe_free(kept);
        assert_int_equal(glebe_live.stats.large_bytes + glebe_live.stats.huge_bytes, 0);
    }
}

static void test_heap_of_the_program(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        glebe_heap *heap = glebe_heap_create(0);
        void *block = glebe_heap_malloc(heap, sizes[i]);
        glebe_heap_free(heap, block);
        assert_int_equal(heap->warm_count, sizes[i] <= GB_LARGE_MAX); /* a huge block only of malloc's heap */
        fixture_check();
        glebe_heap_destroy(heap);
        assert_int_equal(glebe_live.stats.large_bytes + glebe_live.stats.huge_bytes, 0);
    }
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_the_next_of_a_size),
        FIXTURE_TEST(test_others_use_its_memory),
        FIXTURE_TEST(test_bounds),
        FIXTURE_TEST(test_a_share_where_heaps_are_many),
        FIXTURE_TEST(test_cools),
        FIXTURE_TEST(test_is_free),
        FIXTURE_TEST(test_by_another_thread),
        FIXTURE_TEST(test_dead_after_fork),
        FIXTURE_TEST(test_heap_of_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
