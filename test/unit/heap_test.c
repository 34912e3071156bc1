/* First-class heaps: they own their blocks, keep to their limit, free everything at once, and have sized functions.
 * Their counterparts of the malloc family keep the C library's promises. */
#include "fixture.h"

static void test_destroy_gives_everything_back(void **state)
{
    (void)state;
    glebe_free(glebe_malloc(1));
    glebe_trim(NULL);
    glebe_heap *heap = glebe_heap_create(0);
    uint32_t made = gb_the.records.made;
    for (int round = 0; round < 5; round++) {
        assert_non_null(heap);
        void *last = NULL;
        for (size_t bytes = 0; bytes < (size_t)4 << 20; bytes = bytes * 9 / 8 + 7) {
            void *p = glebe_heap_malloc(heap, bytes), *q = glebe_heap_calloc(heap, 1, bytes);
            assert_non_null(p);
            assert_true(fixture_zero(q, bytes));
            memset(p, 1, bytes);
            memset(q, 1, bytes);
            glebe_heap_free(heap, last);
            last = p;
        }
        assert_true(glebe_heap_bytes(heap) > 0);
        assert_int_equal(glebe_heap_bytes(heap), glebe_live.stats.used_bytes);
        fixture_check();
        glebe_heap_destroy(heap);
        fixture_check();
        assert_int_equal(glebe_live.stats.used_bytes, 0);
        heap = glebe_heap_create(0);
        assert_int_equal(gb_the.records.made, made);
    }
    glebe_heap_destroy(heap);
    glebe_heap_destroy(NULL);
    glebe_heap_destroy(heap);
    assert_int_equal(glebe_live.stats.errors, 1);
    fixture_release();
}

static void test_limit(void **state)
{
    (void)state;
    const size_t limit = (size_t)256 << 10;
    glebe_heap *heap = glebe_heap_create(limit);
    for (size_t bytes = 16; bytes <= (size_t)2 << 20; bytes *= 4) {
        int count = 0;
        void *chain = NULL, *p;
        errno = 0;
        while ((p = glebe_heap_malloc(heap, bytes)) != NULL) {
            *(void **)p = chain;
            chain = p;
            count++;
            assert_in_range(glebe_heap_bytes(heap), 1, limit);
        }
        assert_int_equal(errno, ENOMEM);
        assert_true(bytes > limit ? count == 0 : (size_t)count >= limit / bytes / 2);
        fixture_check();
        if (count) {
            assert_int_equal(glebe_heap_limit(heap, GB_SLICE_BYTES / 2), EBUSY);
            assert_int_equal(glebe_heap_limit(heap, limit), 0);
        }
        while (chain) {
            p = *(void **)chain;
            glebe_heap_free(heap, chain);
            chain = p;
        }
        fixture_check();
    }
    assert_int_equal(glebe_heap_limit(heap, 0), 0);
    assert_non_null(glebe_heap_malloc(heap, (size_t)8 << 20));
    glebe_heap_destroy(heap);
    fixture_release();
}

static void test_heaps_do_not_share_pages(void **state)
{
    (void)state;
    glebe_heap *a = glebe_heap_create(0), *b = glebe_heap_create(0);
    for (int i = 0; i < 100; i++) {
        void *p = glebe_heap_malloc(a, 100), *q = glebe_heap_malloc(b, 100);
        assert_ptr_equal((void *)gb_load(&gb_page_entry(p)->owner), a);
        assert_ptr_equal((void *)gb_load(&gb_page_entry(q)->owner), b);
    }
    glebe_heap_destroy(a);
    fixture_check();
    assert_int_equal(glebe_live.stats.used_bytes, glebe_heap_bytes(b));
    glebe_heap_destroy(b);
}

/* free() of a heap's block, by its own thread and by another. */
static void test_plain_free_works(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    void *blocks[300];
    for (int i = 0; i < 300; i++)
        blocks[i] = glebe_heap_malloc(heap, (size_t)i * 40);
    for (int i = 0; i < 300; i += 2)
        glebe_free(blocks[i]);
    fixture_thread(1);
    for (int i = 1; i < 300; i += 2)
        glebe_free(blocks[i]);
    fixture_check();
    fixture_thread(0);
    glebe_trim(heap);
    assert_int_equal(glebe_heap_bytes(heap), 0);
    fixture_check();
    glebe_heap_destroy(heap);
    fixture_release();
}

static void test_sized(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    for (int round = 0; round < 300; round++)
        for (size_t bytes = 1; bytes < 5000; bytes += 97) {
            unsigned char *p = glebe_heap_malloc(heap, bytes);
            fixture_fill(p, bytes, bytes);
            size_t more = bytes + bytes / 3 + 1;
            p = glebe_heap_realloc_sized(heap, p, bytes, more);
            assert_true(fixture_filled(p, bytes, bytes));
            glebe_heap_free_sized(heap, p, more);
        }
    fixture_check();
    glebe_heap_free_sized(heap, NULL, 0);
    void *p = glebe_heap_malloc(heap, 100);
    assert_ptr_equal(glebe_heap_realloc_sized(heap, p, 100, 105), p); /* the same class */
    p = glebe_heap_realloc_sized(heap, NULL, 0, 10);
    assert_non_null(p);
    /* Blocks that need only a word's alignment are shorter than malloc's; either kind may become the other. */
    for (size_t bytes = 1; bytes <= 128; bytes++) {
        p = glebe_heap_malloc(heap, bytes);
        size_t of_malloc = glebe_usable_size(p);
        size_t short_by = (bytes + 7) / 8 * 8 % 16 && bytes > 16 && bytes <= 56 ? 8 : 0;
        assert_int_equal((uintptr_t)p % 16, 0);
        fixture_fill(p, bytes, bytes);
        p = glebe_heap_realloc_sized(heap, p, bytes, 200);
        p = glebe_heap_realloc_sized(heap, p, 200, bytes);
        assert_true(fixture_filled(p, bytes, bytes));
        assert_int_equal(glebe_usable_size(p), of_malloc - (GB_LINEAR ? 0 : short_by));
        p = glebe_heap_realloc(heap, p, 100 + bytes);
        assert_true((uintptr_t)p % 16 == 0 && fixture_filled(p, bytes, bytes));
    }
    fixture_check();
    glebe_heap_destroy(heap);
    fixture_release();
}

/* Records of heaps share OS pages. Such a page is purged when all of its heaps are unused, and no sooner. */
static void test_records_of_destroyed_heaps(void **state)
{
    (void)state;
    enum { N = 400 };
    static glebe_heap *heaps[N];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            heaps[i] = glebe_heap_create(0);
            assert_non_null(glebe_heap_malloc(heaps[i], 100));
        }
        for (int i = 0; i < N; i++) /* all but 40 in a row and some others, in two orders */
            if ((i < 100 || i >= 140) && i % 37 != 5)
                glebe_heap_destroy(heaps[round % 2 ? N - 1 - i : i]);
        fixture_check();
        uintptr_t end = (uintptr_t)gb_heap_at((gb_heap_id){gb_the.records.made});
        for (uintptr_t page = (uintptr_t)gb_the.heaps; page + gb_the.page_bytes <= end; page += gb_the.page_bytes) {
            size_t from = (page - (uintptr_t)gb_the.heaps) / GB_HEAP_STRIDE;
            size_t to = (page + gb_the.page_bytes - 1 - (uintptr_t)gb_the.heaps) / GB_HEAP_STRIDE;
            bool went = true;
            for (size_t number = from; number <= to; number++) {
                const gb_heap_bits *bits = &gb_the.heap_bits[number / 64];
                went = went && (bits->unused & ~bits->touched) >> number % 64 & 1;
            }
            assert_true(!went || fixture_zero((const void *)page, gb_the.page_bytes));
        }
        for (int i = 0; i < N; i++)
            if (!((i < 100 || i >= 140) && i % 37 != 5))
                glebe_heap_destroy(heaps[round % 2 ? N - 1 - i : i]);
    }
    fixture_release();
}

/* If memory ran out, a block must not be taken for one of the size to which it could not shrink. */
static void test_sized_free_after_a_shrink_that_failed(void **state)
{
    (void)state;
    const size_t large[] = {3000, 70000};
    for (int i = 0; i < 2; i++) {
        glebe_heap *heap = glebe_heap_create((size_t)128 << 10);
        void *p = glebe_heap_malloc(heap, large[i]);
        assert_non_null(p);
        while (glebe_heap_malloc(heap, 100) || glebe_heap_malloc(heap, 90))
            continue;
        assert_ptr_equal(glebe_heap_realloc(heap, p, 100), p); /* shrinking does not fail */
        assert_ptr_equal(glebe_heap_realloc_sized(heap, p, 100, 90), p);
        glebe_heap_free_sized(heap, p, 90);
        fixture_check();
        gb_fronts_flush(heap);
        fixture_check();
        glebe_heap_destroy(heap);
    }
    fixture_release();
}

static void test_owns(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0), *other = glebe_heap_create(0);
    const size_t bytes[] = {1, 100, 2048, 3000, 60000, 200000, 3000000};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        void *mine = glebe_heap_malloc(heap, bytes[i]), *theirs = glebe_heap_malloc(other, bytes[i]),
            *thread = glebe_malloc(bytes[i]);
        assert_true(glebe_heap_owns(heap, mine) && glebe_heap_owns(other, theirs) && glebe_heap_owns(NULL, thread));
        assert_false(glebe_heap_owns(other, mine) || glebe_heap_owns(heap, theirs) || glebe_heap_owns(heap, thread)
            || glebe_heap_owns(NULL, mine));
        glebe_free(thread);
    }
    void *foreign = malloc(100);
    assert_false(glebe_heap_owns(heap, foreign) || glebe_heap_owns(heap, &foreign) || glebe_heap_owns(heap, "text"));
    free(foreign);
    glebe_heap_destroy(heap);
    glebe_heap_destroy(other);
    fixture_release();
}

static void test_family(void **state)
{
    (void)state;
    void *out = &out;
    volatile size_t half = SIZE_MAX / 2; /* volatile, as the compiler would warn of such sizes */
    errno = 77;
    assert_int_equal(glebe_posix_memalign(&out, 3, 10), EINVAL);
    assert_int_equal(glebe_posix_memalign(&out, 0, 10), EINVAL);
    assert_int_equal(glebe_posix_memalign(&out, 4, 10), sizeof(void *) == 4 ? 0 : EINVAL);
    assert_int_equal(glebe_posix_memalign(&out, 64, half), ENOMEM);
    assert_int_equal(errno, 77); /* posix_memalign returns errors, and leaves errno */
    assert_int_equal(glebe_posix_memalign(&out, 256, 0), 0);
    assert_int_equal((uintptr_t)out % 256, 0);
    assert_null(glebe_aligned_alloc(48, 100));
    assert_int_equal(errno, EINVAL);
    assert_int_equal((uintptr_t)glebe_memalign(48, 100) % 64, 0);
    assert_int_equal((uintptr_t)glebe_valloc(100) % fake.page_bytes, 0);
    assert_true(glebe_usable_size(glebe_pvalloc(fake.page_bytes + 1)) >= 2 * fake.page_bytes);
    assert_null(glebe_calloc(half, 3));
    assert_null(glebe_reallocarray(NULL, half, 3));
    assert_null(glebe_realloc(glebe_malloc(10), 0));
    assert_int_equal(glebe_usable_size(NULL), 0);
    assert_string_equal(glebe_strdup("glebe"), "glebe");
    assert_string_equal(glebe_strndup("glebe", 3), "gle");
    assert_string_equal(glebe_strndup("gl", 30), "gl");
    assert_int_equal(glebe_version(), GLEBE_VERSION);
    void *p = glebe_malloc(0), *q = glebe_malloc(0);
    assert_non_null(p);
    assert_ptr_not_equal(p, q);
    glebe_free(NULL);
    glebe_free_sized(NULL, 10);
    glebe_free_sized(p, 0);
    glebe_free_aligned_sized(glebe_aligned_alloc(512, 100), 512, 100);
    assert_int_equal(glebe_live.stats.errors, 0);
    glebe_free_sized(q, 100000);
    glebe_free_aligned_sized(q, 1 << 20, 1);
    assert_int_equal(glebe_live.stats.errors, 2);
    fixture_check();
}

static void test_realloc_keeps_contents(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 16, 17, 500, 2048, 2049, 30000, 65536, 65537, 400000, 1048576, 1048577, 5000000,
        20000000};
    enum { N = sizeof sizes / sizeof sizes[0] };
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            size_t least = sizes[i] < sizes[k] ? sizes[i] : sizes[k];
            unsigned char *p = glebe_malloc(sizes[i]);
            fixture_fill(p, least, (uint64_t)k);
            p = glebe_realloc(p, sizes[k]);
            assert_true(fixture_filled(p, least, (uint64_t)k));
            assert_true(glebe_usable_size(p) >= sizes[k]);
            p[sizes[k] - 1] = 1;
            glebe_free(p);
        }
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_destroy_gives_everything_back),
        FIXTURE_TEST(test_limit),
        FIXTURE_TEST(test_heaps_do_not_share_pages),
        FIXTURE_TEST(test_plain_free_works),
        FIXTURE_TEST(test_sized),
        FIXTURE_TEST(test_owns),
        FIXTURE_TEST(test_records_of_destroyed_heaps),
        FIXTURE_TEST(test_sized_free_after_a_shrink_that_failed),
        FIXTURE_TEST(test_family),
        FIXTURE_TEST(test_realloc_keeps_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
