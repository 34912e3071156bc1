/* The place of a huge block that other code has mapped.
 *
 * Without a reservation, a slot whose place was taken returned to the list of free slots and was tried again each time:
 * from then on every request of its size failed. And a host that unmaps the target of a move before it fails (Linux
 * before 6.17, if a block is more than one mapping) left a hole, into which the slot's next block went. Such slots are
 * no longer used. */
#include "../unit/fixture.h"

static void test_taken_slots(void **state)
{
    (void)state;
    fake.address_bytes = (size_t)64 << 20;
    glebe_free(glebe_malloc(10));
    assert_false(gb_the.reserved);
    fake.taken_from = gb_the.extents_base + ((size_t)30 << 20);
    fake.taken_to = fake.taken_from + 4096;
    void *blocks[6];
    for (int i = 0; i < 6; i++) {
        blocks[i] = glebe_malloc((size_t)7 << 20);
        assert_non_null(blocks[i]);
        fixture_fill(blocks[i], (size_t)7 << 20, (uint64_t)i);
        fixture_check();
        fixture_balance();
    }
    for (int i = 0; i < 6; i++) {
        assert_true(fixture_filled(blocks[i], (size_t)7 << 20, (uint64_t)i));
        glebe_free(blocks[i]);
    }
    fixture_release();
}

static void test_move_that_loses_its_target(void **state)
{
    (void)state;
    enum { BYTES = 6 << 20 };
    for (int round = 0; round < 4; round++) {
        char *p = glebe_malloc(BYTES), *behind = glebe_malloc(BYTES), *before = p;
        fixture_fill(p, BYTES, 3);
        fake.moves_lose = true;
        gb_fake_fail(1u << GB_FAKE_MOVE, 1, UINT64_MAX);
        p = glebe_realloc(p, (size_t)40 << 20); /* copied instead */
        assert_non_null(p);
        assert_true(p == before ? round > 0 : fake.failed > 0 || !gb_the.reserved);
        assert_true(fixture_filled(p, BYTES, 3));
        memset(p, 1, (size_t)40 << 20);
        gb_fake_fail(0, 0, 0);
        glebe_free(p);
        glebe_free(behind);
        fixture_check();
        fixture_balance();
    }
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_taken_slots), FIXTURE_TEST(test_move_that_loses_its_target)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
