/* Small pages: how a page changes from FULL to AVAIL to SPARE, what wakes it, holes, and that `out` is right at each
 * step. */
#include "fixture.h"

enum { MANY = 40000 };
static void *blocks[MANY];

static gb_page *page_of(const void *block)
{
    return gb_page_head(gb_page_entry(block));
}

/* Fills pages of one class until one of `slices` slices is FULL; the blocks are blocks[0..n). */
static int fill(size_t bytes, uint32_t pages)
{
    int n = 0;
    uint32_t full = 0;
    while (full < pages) {
        assert_true(n < MANY);
        blocks[n] = glebe_heap_realloc_sized(NULL, NULL, 0, bytes); /* only this function reaches every class */
        assert_non_null(blocks[n]);
        if (n > 0 && page_of(blocks[n]) != page_of(blocks[n - 1]))
            full++;
        n++;
    }
    return n;
}

static void test_first_malloc_makes_a_heap(void **state)
{
    (void)state;
    assert_ptr_equal(gb_self, &gb_heap_none);
    void *p = glebe_malloc(1);
    assert_non_null(p);
    assert_int_equal(gb_self->number.n, 1);
    assert_int_equal(fake.armed, 1);
    gb_page *page = page_of(p);
    assert_int_equal(page->state, GB_CURRENT);
    assert_int_equal(page->kind, GB_SMALL);
    assert_ptr_equal((void *)gb_load(&page->owner), gb_self);
    fixture_check();
}

static void test_every_class(void **state)
{
    (void)state;
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++) {
        size_t bytes = gb_classes[cls].bytes;
        int n = fill(bytes, 2);
        for (int i = 0; i < n; i++) {
            assert_int_equal(page_of(blocks[i])->cls, cls);
            assert_int_equal(glebe_usable_size(blocks[i]), bytes);
            fixture_fill(blocks[i], bytes, (uint64_t)i);
        }
        fixture_check();
        for (int i = 0; i < n; i++) {
            assert_true(fixture_filled(blocks[i], bytes, (uint64_t)i));
            glebe_free(blocks[i]);
        }
        fixture_check();
    }
    fixture_release();
}

/* Returned, kept as a spare, or the one available page of its class. */
static bool is_empty(const gb_page *page)
{
    return page->kind == GB_FREE || page->state == GB_SPARE || (page->state == GB_AVAIL && gb_page_out(page) == 0);
}

/* FULL counts down to its wake mark, AVAIL to empty; `out` is right at each step. */
static void test_life_of_a_page(void **state)
{
    (void)state;
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++) {
        fixture_start(cls);
        int n = fill(gb_classes[cls].bytes, 2);
        gb_page *page = page_of(blocks[0]);
        assert_int_equal(page->state, GB_FULL);
        uint32_t out = page->cap, woke = 0;
        assert_int_equal(gb_page_out(page), out);
        for (int i = 0; i < n && out > 0; i++) {
            if (page_of(blocks[i]) != page)
                continue;
            glebe_free(blocks[i]);
            out--;
            if (out > 0)
                assert_int_equal(gb_page_out(page), out);
            if (page->state == GB_AVAIL && !woke)
                woke = page->cap - out;
            fixture_check();
        }
        assert_int_equal(woke, fixture_page_wake(page));
        assert_in_range(woke, 1, page->cap / 2);
        assert_true(is_empty(page));
    }
}

static void test_spare_serves_another_class(void **state)
{
    (void)state;
    int n = fill(64, 3);
    gb_page *page = page_of(blocks[n / 2]); /* the first page to become empty stays on the list of its class */
    for (int i = 0; i < n; i++)
        glebe_free(blocks[i]);
    assert_int_equal(page->state, GB_SPARE);
    assert_true(gb_self->spare_bytes > 0);
    uint64_t taken = glebe_live.stats.pages_taken;
    void *p = glebe_malloc(1000);
    assert_int_equal(glebe_live.stats.pages_taken, taken);
    assert_int_equal(page_of(p)->cls, gb_class_of(1000));
    fixture_check();
    glebe_free(p);
    fixture_release();
}

static void test_larger_pages_when_in_demand(void **state)
{
    (void)state;
    fill(2048, 20);
    uint32_t slices = 0;
    for (int i = 0; i < 200 && blocks[i]; i++)
        slices = page_of(blocks[i])->slices > slices ? page_of(blocks[i])->slices : slices;
    assert_int_equal(slices, GB_BIG_PAGE_SLICES);
    fixture_check();
}

/* A page with few blocks in use: whole free units become holes, are purged, and are used again. */
static void test_holes(void **state)
{
    (void)state;
    const size_t sizes[] = {16, 48, 112, 208, 640, 1408, 2048};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        fixture_start(s);
        int n = fill(sizes[s], 3);
        gb_page *page = page_of(blocks[0]);
        for (int i = 0; i < n; i++)
            fixture_fill(blocks[i], sizes[s], (uint64_t)i);
        int kept = -1;
        for (int i = 0; i < n; i++)
            if (page_of(blocks[i]) == page) {
                if (kept < 0)
                    kept = i; /* one block keeps the page in use */
                else
                    glebe_free(blocks[i]);
                if (i != kept)
                    blocks[i] = NULL;
            }
        assert_int_equal(page->state, GB_AVAIL);
        uint64_t before = fake.purged_bytes;
        glebe_trim(NULL);
        uint32_t index = gb_class_index(page->cls, (uintptr_t)blocks[kept] - gb_page_start(page));
        uint32_t units = fixture_unit_mask(page, index) & 2 ? 2 : 1;
        assert_int_equal(gb_popcount32(page->holes), page->slices * 4 - units);
        assert_int_equal(page->punched, page->holes);
        assert_true(fake.purged_bytes - before >= gb_popcount32(page->holes) * GB_UNIT_BYTES);
        fixture_check();
        assert_true(fixture_filled(blocks[kept], sizes[s], (uint64_t)kept));
        uint64_t taken = glebe_live.stats.pages_taken;
        for (int i = 0; i < n; i++) /* the same blocks again, from the holes */
            if (!blocks[i]) {
                blocks[i] = glebe_malloc(sizes[s]);
                fixture_fill(blocks[i], sizes[s], (uint64_t)i);
                fixture_check();
            }
        assert_in_range(glebe_live.stats.pages_taken - taken, 0, 1);
        for (int i = 0; i < n; i++)
            assert_true(fixture_filled(blocks[i], sizes[s], (uint64_t)i));
        for (int i = 0; i < n; i++)
            glebe_free(blocks[i]);
        fixture_release();
    }
}

/* With the background thread an emptying page is parked: blocks freed from then on become holes without a walk. */
static void test_parked(void **state)
{
    (void)state;
    enum { BYTES = 240, N = 3000 };
    static unsigned char *blocks[N];
    gb_the.options.background = 1;
    gb_store(&gb_the.now_ms, fake.now_ms += GB_PURGE_MS);
    for (int i = 0; i < N; i++)
        fixture_fill(blocks[i] = glebe_malloc(BYTES), BYTES, (uint64_t)i);
    gb_page *page = gb_page_head(gb_page_entry(blocks[N / 2]));
    assert_int_equal(page->slices, GB_BIG_PAGE_SLICES);
    int first = N, last = 0;
    for (int i = 0; i < N; i++)
        if (gb_page_head(gb_page_entry(blocks[i])) == page) {
            first = i < first ? i : first;
            last = i;
        }
    assert_int_equal(last - first + 1, page->cap);
    int parked_at = 0;
    for (int i = first; i < last; i++) { /* all but the last, which is freed at the end */
        glebe_free(blocks[i]);
        if (!parked_at && page->mark == GB_PARKED) {
            parked_at = i;
            assert_int_equal(gb_load(&page->owner), 0);
            assert_int_equal(page->left, page->cap / 8);
            assert_int_equal(gb_popcount32(page->holes), (i + 1 - first) * BYTES / 4096);
        }
        if (i % 16 == 0 || parked_at)
            fixture_check();
    }
    assert_true(parked_at > 0);
    assert_int_equal(gb_popcount32(page->holes), GB_PAGE_UNITS - 1);
    size_t before = fake.purged_bytes;
    gb_purge_due(fake.now_ms += GB_PURGE_MS, false);
    assert_true(fake.purged_bytes - before >= (GB_PAGE_UNITS - 1) * GB_UNIT_BYTES);
    assert_true(fixture_filled(blocks[last], BYTES, (uint64_t)last));

    glebe_free(blocks[first]); /* a double free, found because its unit is a hole */
    assert_int_equal(glebe_live.stats.errors, 1);
    fake.printed_bytes = 0;
    fixture_check();

    fixture_thread(1); /* by another thread too, and by size */
    glebe_free(blocks[first + 1]);
    gb_remote_flush(gb_self);
    fixture_thread(0);
    gb_inbox_drain(gb_self);
    assert_int_equal(glebe_live.stats.errors, 2);
    glebe_heap_free_sized(NULL, blocks[first + 2], BYTES);
    gb_fronts_flush(gb_self);
    assert_int_equal(glebe_live.stats.errors, 3);
    fake.printed_bytes = 0;
    fixture_check();

    for (int i = first; i < last; i++) { /* and used again: this page has waited longest */
        fixture_fill(blocks[i] = glebe_malloc(BYTES), BYTES, (uint64_t)i);
        fixture_check();
    }
    assert_int_equal(page->mark, GB_UNLOOKED);
    for (int i = 0; i < N; i++)
        assert_true(fixture_filled(blocks[i], BYTES, (uint64_t)i));

    gb_store(&gb_the.now_ms, fake.now_ms += GB_PURGE_MS);
    for (int i = 0; i < N; i++) /* every twentieth stays: another thread frees it, by size */
        if (i % 20 != 0)
            glebe_free(blocks[i]);
    fixture_check();
    /* `page` itself is the current one */
    assert_int_equal(gb_page_head(gb_page_entry(blocks[N / 4 / 20 * 20]))->mark, GB_PARKED);
    fixture_thread(1);
    for (int i = 0; i < N; i += 40)
        glebe_free(blocks[i]);
    gb_remote_flush(gb_self);
    fixture_thread(0);
    fixture_check();
    gb_inbox_drain(gb_self);
    fixture_check();
    for (int i = 20; i < N; i += 40) {
        assert_true(fixture_filled(blocks[i], BYTES, (uint64_t)i));
        glebe_heap_free_sized(NULL, blocks[i], BYTES);
    }
    gb_fronts_flush(gb_self);
    fixture_check();
    fixture_release();
}

/* A parked page of an abandoned heap is reclaimed, and then belongs to the new heap like any other. */
static void test_parked_abandoned(void **state)
{
    (void)state;
    enum { N = 3000 };
    static void *blocks[N];
    gb_the.options.background = 1;
    gb_store(&gb_the.now_ms, fake.now_ms += GB_PURGE_MS);
    fixture_thread(1);
    for (int i = 0; i < N; i++)
        blocks[i] = glebe_malloc(240);
    for (int i = 0; i < N; i++)
        if (i % 20 != 0)
            glebe_free(blocks[i]);
    gb_page *page = gb_page_head(gb_page_entry(blocks[N / 2]));
    assert_int_equal(page->mark, GB_PARKED);
    fixture_thread_end(1);
    fixture_thread(0);
    /* reclaims the heap: so another thread ends, and thread 2 has a heap of its own */
    assert_non_null(glebe_malloc(16));
    fixture_thread(2);
    void *own = glebe_malloc(16);
    fixture_thread_end(0);
    fixture_check();
    fixture_thread(2);
    for (int i = 0; i < N; i++) {
        void *p = glebe_malloc(240);
        assert_non_null(p);
        if (gb_page_head(gb_page_entry(p)) == page) {
            assert_ptr_equal((void *)gb_load(&page->owner), gb_self);
            break;
        }
    }
    assert_ptr_equal(gb_page_heap(page), gb_self);
    fixture_check();
    for (int i = 0; i < N; i += 20)
        glebe_free(blocks[i]);
    glebe_free(own);
    fixture_collect();
    fixture_check();
}

/* Brute force: for every class and every set of adjacent units, the blocks that touch them. */
static void test_hole_blocks(void **state)
{
    (void)state;
    assert_non_null(glebe_malloc(1));
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++)
        for (uint16_t slices = 1; slices <= 4; slices += 3) {
            gb_page page = *gb_entry_at(1);
            page.cls = (uint8_t)cls;
            page.slices = slices;
            page.cap = page.bump = (uint16_t)(((size_t)slices << GB_SLICE_LOG2) / gb_classes[cls].bytes);
            for (uint32_t units = 1; units < 1u << slices * 4; units = units * 5 / 2 + 1) {
                uint32_t count = 0;
                for (uint32_t i = 0; i < page.bump; i++)
                    count += (fixture_unit_mask(&page, i) & units) != 0;
                assert_int_equal(gb_hole_blocks(&page, units), count);
            }
        }
}

static void test_flush_sends_fronts_home(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes <= GB_SMALL_MAX; bytes += 37)
        blocks[bytes] = glebe_malloc(bytes);
    gb_fronts_flush(gb_self);
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++)
        assert_false(gb_is_block(gb_self->front[cls]));
    fixture_check();
    for (size_t bytes = 1; bytes <= GB_SMALL_MAX; bytes += 37)
        glebe_free(blocks[bytes]);
    fixture_release();
}

static void test_returned_in_one_go(void **state)
{
    (void)state;
    int n = fill(256, 2);
    gb_page *page = page_of(blocks[0]);
    gb_block *chain = NULL; /* as remote.c does: all blocks of a page at once, past both marks */
    uint32_t count = 0;
    for (int i = 0; i < n; i++)
        if (page_of(blocks[i]) == page) {
            gb_link_set(blocks[i], chain);
            chain = blocks[i];
            count++;
        }
    assert_int_equal(count, page->cap);
    gb_page_list_set(page, chain);
    gb_page_returned(gb_self, page, count);
    assert_true(is_empty(page));
    fixture_check();
}

/* Blocks of one class in several pages, most of them freed in another order. Returns how many there were. */
static int free_most(size_t bytes, uint64_t seed)
{
    int n = fill(bytes, 6);
    for (int i = n - 1; i > 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int j = (int)((seed >> 33) % (uint64_t)(i + 1));
        void *block = blocks[i];
        blocks[i] = blocks[j];
        blocks[j] = block;
    }
    for (int i = n / 8; i < n; i++)
        glebe_free(blocks[i]);
    return n;
}

/* Of blocks that are allocated one after another from a page that waited, each but the first is behind the one before.
 * No two overlap. */
static void test_sorted_by_address(void **state)
{
    (void)state;
    int sorted = 0;
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++) {
        fixture_start(cls + 1);
        size_t bytes = gb_classes[cls].bytes;
        int n = free_most(bytes, cls);
        int pages = 0, behind = 0, before = 0;
        for (int i = n / 8; i < n; i++) {
            blocks[i] = glebe_heap_realloc_sized(NULL, NULL, 0, bytes);
            bool other = i == n / 8 || page_of(blocks[i - 1]) != page_of(blocks[i]);
            pages += other;
            if (!other && pages > 1 && pages < 4) { /* the first is the current page, whose list is not sorted */
                behind += blocks[i] > blocks[i - 1];
                before += blocks[i] < blocks[i - 1];
            }
        }
        sorted += behind > 64;
        assert_true(before == 0 || page_of(blocks[n / 8])->cap <= 64);
        fixture_check();
        for (int i = 0; i < n; i++)
            fixture_fill(blocks[i], bytes, (uint64_t)i);
        for (int i = 0; i < n; i++) {
            assert_true(fixture_filled(blocks[i], bytes, (uint64_t)i));
            glebe_free(blocks[i]);
        }
        fixture_release();
    }
    assert_true(sorted > 10);
}

/* A link that leads elsewhere, and one that leads back: the list ends there, with a report. A block that has a link and
 * is not on the list, as when another thread freed it, changes nothing. */
static void test_sort_of_a_damaged_list(void **state)
{
    (void)state;
    enum { ELSEWHERE, BACK, NONE, MISTAKES };
    static gb_block outside;
    for (int run = 0; run < 2 * MISTAKES; run++) {
        int mistake = run / 2;
        bool looks_free = run % 2;
        fixture_start(2);
        int n = fill(64, 1);
        gb_page *page = page_of(blocks[0]);
        for (int i = n - 3; i >= 0; i--)
            glebe_free(blocks[i]);
        gb_block *list = gb_page_list(page), *fifth = list;
        for (int i = 0; i < 4; i++)
            fifth = gb_link_get(fifth);
        if (mistake != NONE)
            gb_link_set(fifth, mistake == BACK ? list : &outside);
        assert_true(page_of(blocks[n - 2]) == page);
        gb_link_set((gb_block *)blocks[n - 2], looks_free ? list : &outside);
        list = fixture_page_sort(page);
        assert_int_equal(glebe_live.stats.errors, mistake != NONE);
        int count = 0;
        for (gb_block *block = list; block; block = gb_link_get(block), count++)
            assert_true(page_of(block) == page && (!gb_link_get(block) || block < gb_link_get(block)));
        assert_int_equal(count, mistake == NONE ? n - 2 : 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_first_malloc_makes_a_heap),
        FIXTURE_TEST(test_every_class),
        FIXTURE_TEST(test_life_of_a_page),
        FIXTURE_TEST(test_spare_serves_another_class),
        FIXTURE_TEST(test_larger_pages_when_in_demand),
        FIXTURE_TEST(test_holes),
        FIXTURE_TEST(test_parked),
        FIXTURE_TEST(test_parked_abandoned),
        FIXTURE_TEST(test_hole_blocks),
        FIXTURE_TEST(test_flush_sends_fronts_home),
        FIXTURE_TEST(test_returned_in_one_go),
        FIXTURE_TEST(test_sorted_by_address),
        FIXTURE_TEST(test_sort_of_a_damaged_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
