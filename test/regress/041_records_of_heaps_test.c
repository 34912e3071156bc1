/* The records of destroyed heaps, 4 KiB each, were never freed: after a million heaps, 4 GB. */
#include "../unit/fixture.h"

enum { MOST = sizeof(void *) == 8 ? 3000 : 1200 /* the maximum */, KEPT = 64 };
static glebe_heap *heaps[MOST];

static size_t resident_after(uint32_t count, uint32_t survivors)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(heaps[i] = glebe_heap_create(0));
        heaps[i]->looks_ms = i + 1; /* any field */
    }
    fixture_check();
    for (uint32_t i = 0; i < count - survivors; i++) /* the last ones made stay */
        glebe_heap_destroy(heaps[i]);
    fixture_check();
    glebe_trim(NULL);
    size_t resident = gb_fake_resident_bytes();
    for (uint32_t i = count - survivors; i < count; i++) {
        assert_int_equal(heaps[i]->looks_ms, i + 1);
        glebe_heap_destroy(heaps[i]);
    }
    return resident;
}

static void grows_not(size_t page_bytes, size_t address_bytes, uint32_t many)
{
    fixture_start(1);
    fake.page_bytes = page_bytes;
    fake.address_bytes = address_bytes;
    fake.exact = true;
    glebe_free(glebe_malloc(1));
    fixture_check(); /* reads memory that was never touched */
    size_t before = gb_fake_resident_bytes(), most = (KEPT + 32) * page_bytes;
    if (before == SIZE_MAX)
        skip();
    const uint32_t counts[] = {many / 3, many, many, many / 3};
    for (int i = 0; i < 4; i++)
        for (uint32_t survivors = 0; survivors < 2; survivors++)
            assert_in_range(resident_after(counts[i], survivors), 0, before + most);
    assert_in_range(gb_the.records.made, many, many + 1); /* numbers are reused */
}

static void test_records_go_back(void **state)
{
    (void)state;
    grows_not(4096, SIZE_MAX, MOST);
    grows_not(16384, SIZE_MAX, MOST);
    grows_not(4096, (size_t)1 << 28, 500);
}

/* The host has little memory, or refuses to purge. */
static void test_refused(void **state)
{
    (void)state;
    for (uint32_t calls = 0; calls < 2; calls++) {
        fixture_start(1);
        for (uint32_t i = 0; i < 500; i++)
            assert_non_null(heaps[i] = glebe_heap_create(0));
        gb_fake_fail(calls ? 1u << GB_FAKE_COMMIT : 1u << GB_FAKE_PURGE, 1, UINT64_MAX);
        for (uint32_t i = 0; i < 500; i++)
            glebe_heap_destroy(heaps[i]);
        for (uint32_t i = 0; i < 500; i++)
            assert_non_null(heaps[i] = glebe_heap_create(0));
        assert_in_range(gb_the.records.made, 500, 501);
        fixture_check();
        gb_fake_fail(0, 0, 0);
        for (uint32_t i = 0; i < 500; i++)
            glebe_heap_destroy(heaps[i]);
        fixture_check();
    }
}

/* Heaps are created and destroyed at random: no number is handed out twice, and none is lost. */
static void test_numbers(void **state)
{
    (void)state;
    static bool used[MOST];
    uint32_t seed = 1, made = 0;
    for (int i = 0; i < 40000; i++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t at = (seed >> 8) % (i / 5000 % 2 ? 100 : MOST);
        if (used[at]) {
            assert_int_equal(heaps[at]->looks_ms, at);
            glebe_heap_destroy(heaps[at]);
        } else {
            assert_non_null(heaps[at] = glebe_heap_create(0));
            assert_int_equal(heaps[at]->looks_ms, 0);
            heaps[at]->looks_ms = at;
        }
        used[at] = !used[at];
        made += used[at] ? 1 : UINT32_MAX;
        assert_int_equal(glebe_live.stats.heaps, made);
    }
    uint32_t found = 0;
    for (glebe_heap *heap = NULL; (heap = gb_heap_next(heap));)
        found++;
    assert_int_equal(found, made);
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_records_go_back), FIXTURE_TEST(test_refused),
        FIXTURE_TEST(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
