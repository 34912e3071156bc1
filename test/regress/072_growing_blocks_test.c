/* Blocks that grow by realloc are placed with free space behind them. A search for such a place gave up too early and
 * raised the top of the address space: 100 arrays that grew from 64 KiB to 1 MiB and were freed at random took 9 KB
 * more at each step. */
#include "../unit/fixture.h"

enum { ARRAYS = 100, STEPS = 60000, LEAST = 64 << 10, MOST = 1 << 20 };

static void test_address_space_is_bounded(void **state)
{
    (void)state;
    static struct {
        void *start;
        size_t bytes;
    } arrays[ARRAYS];
    size_t live = 0, peak = 0;
    uint32_t chance = 1;
    for (int step = 0; step < STEPS; step++) {
        chance = chance * 1664525u + 1013904223u;
        uint32_t i = (chance >> 8) % ARRAYS;
        fake.now_ms += step % 16 == 0;
        size_t bytes = arrays[i].bytes ? arrays[i].bytes + arrays[i].bytes / 2 + (chance >> 12) % 5000 : LEAST;
        live -= arrays[i].bytes;
        if (arrays[i].bytes > MOST || (chance >> 20) % 12 == 0) {
            glebe_free(arrays[i].start);
            arrays[i].start = NULL;
            bytes = 0;
        } else
            assert_non_null(arrays[i].start = glebe_realloc(arrays[i].start, bytes));
        live += arrays[i].bytes = bytes;
        peak = live > peak ? live : peak;
    }
    fixture_check();
    size_t extents = (size_t)gb_load(&gb_the.huge.top) << GB_GRANULE_LOG2;
    assert_in_range(extents, 1, 8 * peak);
    for (int i = 0; i < ARRAYS; i++)
        glebe_free(arrays[i].start);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_address_space_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
