/* Sets of slices, against an array of booleans: every range, and every query on sets of every density. */
#include "fixture.h"

enum { N = GB_CHUNK_SLICES };

static gb_slice_set set_of(const bool *members)
{
    gb_slice_set s = {0, 0};
    for (uint32_t i = 0; i < N; i++)
        if (members[i])
            s = gb_set_with(s, gb_set_range(i, 1));
    return s;
}

static void test_every_range(void **state)
{
    (void)state;
    for (uint32_t from = 0; from < N; from++)
        for (uint32_t count = 0; from + count <= N; count++) {
            gb_slice_set s = gb_set_range(from, count);
            for (uint32_t i = 0; i < N; i++)
                assert_int_equal(gb_set_has(s, i), i >= from && i < from + count);
            assert_int_equal(gb_set_count(s), count);
            assert_int_equal(gb_set_first(s), count ? from : N);
            assert_int_equal(gb_set_longest(s), count);
            assert_int_equal(gb_set_empty(s), count == 0);
        }
}

static void ask(const bool *members)
{
    gb_slice_set s = set_of(members);
    uint32_t row[N + 1] = {0}, longest = 0; /* row[i]: members from i on without a gap */
    for (uint32_t i = N; i-- > 0;) {
        row[i] = members[i] ? row[i + 1] + 1 : 0;
        longest = row[i] > longest ? row[i] : longest;
    }
    assert_int_equal(gb_set_longest(s), longest);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(gb_set_has(s, i), members[i]);
        assert_int_equal(gb_set_run(s, i), row[i]);
        uint32_t before = 0;
        while (before < i && members[i - 1 - before])
            before++;
        assert_int_equal(gb_set_run_before(s, i), before);
    }
    for (uint32_t n = 1; n < N; n++) {
        gb_slice_set runs = gb_set_runs(s, n), down = gb_set_down(s, n);
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(gb_set_has(runs, i), row[i] >= n);
            assert_int_equal(gb_set_has(down, i), i + n < N && members[i + n]);
        }
    }
    for (uint32_t alignment = 1; alignment <= 64; alignment *= 2)
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(gb_set_has(gb_set_aligned(s, alignment), i), members[i] && i % alignment == 0);
}

static void test_every_question(void **state)
{
    (void)state;
    uint64_t chance = 12345;
    for (unsigned density = 0; density <= 32; density++)
        for (int again = 0; again < 20; again++) {
            bool members[N];
            for (uint32_t i = 0; i < N; i++) {
                chance = chance * 6364136223846793005u + 1442695040888963407u;
                members[i] = (chance >> 33) % 32 < density;
            }
            ask(members);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_range), cmocka_unit_test(test_every_question)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
