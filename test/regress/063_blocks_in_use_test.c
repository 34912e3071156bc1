/* mallinfo2 counted a whole page as in use if one block was; now it counts blocks. */
#include "../unit/fixture.h"

enum { BLOCKS = 3000 };
static void *blocks[BLOCKS];

static size_t usable(int from, int step)
{
    size_t bytes = 0;
    for (int i = from; i < BLOCKS; i += step)
        bytes += glebe_usable_size(blocks[i]);
    return bytes;
}

static void free_some(int from, int step)
{
    for (int i = from; i < BLOCKS; i += step) {
        glebe_free(blocks[i]);
        blocks[i] = NULL;
    }
}

/* Every size that is not huge, on the calling thread. */
static void test_to_the_byte(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 16, 100, 500, 2048, 3000, 20000, 60000, 100000};
    glebe_free(glebe_malloc(1));
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        fixture_start(1);
        size_t none = gb_blocks_bytes();
        assert_int_equal(none, 0);
        int count = sizes[s] < 5000 ? BLOCKS : BLOCKS / 20;
        memset(blocks, 0, sizeof blocks);
        for (int i = 0; i < count; i++)
            assert_non_null(blocks[i] = glebe_malloc(sizes[s]));
        assert_int_equal(gb_blocks_bytes(), usable(0, 1));
        free_some(0, 2);
        assert_int_equal(gb_blocks_bytes(), usable(1, 2));
        free_some(1, 4);
        assert_int_equal(gb_blocks_bytes(), usable(3, 4));
        glebe_trim(NULL);
        assert_int_equal(gb_blocks_bytes(), usable(3, 4));
        free_some(3, 4);
        assert_int_equal(gb_blocks_bytes(), 0);
        fixture_check();
    }
}

/* Blocks of all sizes, some of each size freed, in any order. */
static void test_mixed_sizes(void **state)
{
    (void)state;
    uint32_t chance = 1;
    memset(blocks, 0, sizeof blocks);
    for (int round = 0; round < 30000; round++) {
        chance = chance * 1664525u + 1013904223u;
        uint32_t i = (chance >> 8) % BLOCKS;
        glebe_free(blocks[i]);
        chance = chance * 1664525u + 1013904223u;
        size_t bytes = (chance >> 8) % ((chance >> 5) % 16 ? 400 : 30000) + 1;
        blocks[i] = chance & 0x80000000 ? NULL : glebe_malloc(bytes);
        if (round % 1000 == 0)
            assert_int_equal(gb_blocks_bytes(), usable(0, 1));
    }
    free_some(0, 1);
    assert_int_equal(gb_blocks_bytes(), 0);
}

/* A block freed by another thread is not in use, whether or not its owner has seen that. Only the owner can count its
 * thread free lists. */
static void test_other_threads(void **state)
{
    (void)state;
    fixture_thread(1);
    for (int i = 0; i < BLOCKS; i++)
        assert_non_null(blocks[i] = glebe_malloc(i % 2 ? 100 : 3000));
    size_t all = usable(0, 1), at_hand;
    fixture_thread(2);
    glebe_free(glebe_malloc(1));
    at_hand = gb_blocks_bytes() - all;
    assert_in_range(at_hand, 0, 2 * GB_UNIT_BYTES);
    free_some(1, 2);
    assert_int_equal(gb_blocks_bytes() - at_hand, usable(0, 2));
    free_some(0, 4);
    assert_int_equal(gb_blocks_bytes() - at_hand, usable(2, 4));
    glebe_trim(NULL); /* takes the remote frees */
    fixture_thread(1);
    assert_int_equal(gb_blocks_bytes(), usable(2, 4));
    free_some(2, 4);
    glebe_trim(NULL);
    fixture_thread_end(1);
    fixture_thread(2);
    assert_int_equal(gb_blocks_bytes(), 0);
    fixture_release();
}

/* The same where the owner's few blocks share a mixed page. Their class is beyond the table of classes. */
static void test_other_threads_few(void **state)
{
    (void)state;
    enum { FEW = 6 };
    memset(blocks, 0, sizeof blocks);
    fixture_thread(1);
    glebe_free(glebe_malloc(1));
    gb_self->mixed.n = GB_MIXES ? GB_MIXED_LATER : 0; /* as if there were many heaps */
    for (int i = 0; i < FEW; i++)
        assert_non_null(blocks[i] = glebe_malloc(100));
    assert_int_equal(gb_page_head(gb_page_entry(blocks[0]))->cls == GB_MIXED, GB_MIXES);
    fixture_thread(2);
    glebe_free(glebe_malloc(1));
    size_t at_hand = gb_blocks_bytes() - usable(0, 1);
    glebe_free(blocks[0]);
    glebe_free(blocks[1]);
    blocks[0] = blocks[1] = NULL;
    assert_int_equal(gb_blocks_bytes() - at_hand, usable(0, 1));
    glebe_trim(NULL); /* flushes the slot, whose count stays */
    assert_int_equal(gb_blocks_bytes() - at_hand, usable(0, 1));
    for (int i = 2; i < FEW; i++)
        glebe_free(blocks[i]);
    fixture_thread_end(1);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_to_the_byte),
        FIXTURE_TEST(test_mixed_sizes),
        FIXTURE_TEST(test_other_threads),
        FIXTURE_TEST(test_other_threads_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
