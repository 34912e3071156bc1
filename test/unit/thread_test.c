/* Simulated threads: remote frees, abandoned heaps, reclaiming heaps and pages, and what fork leaves behind. */
#include "fixture.h"

enum { MANY = 2000 };
static void *blocks[MANY];

static gb_page *page_of(const void *block)
{
    return gb_page_head(gb_page_entry(block));
}

static void allocate(size_t bytes, int count)
{
    for (int i = 0; i < count; i++) {
        blocks[i] = glebe_malloc(bytes);
        assert_non_null(blocks[i]);
        fixture_fill(blocks[i], bytes < 64 ? bytes : 64, (uint64_t)i);
    }
}

/* Gives this thread its heap. */
static void begin(void)
{
    void *p = glebe_malloc(1);
    assert_non_null(p);
    glebe_free(p);
    assert_ptr_not_equal(gb_self, &gb_heap_none);
}

static void release(int from, int to)
{
    for (int i = from; i < to; i++)
        glebe_free(blocks[i]);
}

/* From now on this thread sends each block that it frees to its page. */
static void borrow_nothing(void)
{
    for (uint32_t cls = 0; cls < GB_BORROWED_CLASSES; cls++)
        gb_self->borrowed[cls].frees = UINT16_MAX;
}

/* Starts thread 1, whose heap has a page of the class, so that it may borrow. */
static void begin_borrower(size_t bytes)
{
    enum { OWN = 400 };
    void *own[OWN];
    fixture_thread(1);
    begin();
    for (int i = 0; i < OWN; i++)
        own[i] = glebe_malloc(bytes);
    assert_int_not_equal(gb_self->class_slices[page_of(own[OWN - 1])->cls], 0);
    for (int i = 0; i < OWN; i++)
        glebe_free(own[i]);
}

static uint32_t borrowed_of(const void *block)
{
    uint32_t count = 0;
    for (const gb_block *b = gb_self->borrowed[page_of(block)->cls].first; b; b = gb_link_get(b))
        count++;
    return count;
}

enum { BORROWED_SIZE = 100, MOST = GB_BORROWED_BLOCKS };

/* The first thread allocates, and thread 1 frees some of its blocks. */
static void lend(int count)
{
    begin();
    allocate(BORROWED_SIZE, MANY);
    begin_borrower(BORROWED_SIZE);
    release(MANY - count, MANY);
    fixture_check();
}

/* Allocates until no block is borrowed, and frees these blocks: those of others are borrowed again. Returns their
 * number. */
static int use_borrowed(void)
{
    enum { ENOUGH = 1000 };
    void *again[ENOUGH];
    int count = 0, others = 0;
    for (; count < ENOUGH && (count == 0 || borrowed_of(blocks[0])); count++)
        again[count] = glebe_malloc(BORROWED_SIZE);
    while (gb_is_block(gb_self->front[page_of(blocks[0])->cls]) && count < ENOUGH)
        again[count++] = glebe_malloc(BORROWED_SIZE);
    assert_in_range(count, 1, ENOUGH - 1);
    fixture_check();
    for (int i = 0; i < count; i++) {
        others += !gb_heap_owns(gb_self, page_of(again[i]));
        glebe_free(again[i]);
    }
    return others;
}

static void all_return(int lent)
{
    fixture_check();
    fixture_thread(0);
    release(0, MANY - lent);
    fixture_release();
}

/* A thread hands out what it freed, and the owner is told nothing. */
static void test_blocks_are_borrowed(void **state)
{
    (void)state;
    lend(MOST);
    assert_int_equal(borrowed_of(blocks[0]), MOST);
    assert_int_equal(gb_load(&fixture_selves[0]->inbox), 0);
    assert_int_equal(use_borrowed(), MOST);
    assert_int_equal(borrowed_of(blocks[0]), MOST);
    all_return(MOST);
}

/* Further blocks are for their pages; after many, so are the borrowed ones. */
static void test_many_frees_return_them(void **state)
{
    (void)state;
    lend(MOST + 20);
    assert_int_equal(borrowed_of(blocks[0]), MOST);
    release(MANY - 5 * MOST, MANY - MOST - 20);
    assert_int_equal(borrowed_of(blocks[0]), 0);
    all_return(5 * MOST);
}

static void test_borrowed_bytes_are_bounded(void **state)
{
    (void)state;
    begin();
    allocate(2000, 12);
    begin_borrower(2000);
    release(0, 12);
    assert_int_equal(borrowed_of(blocks[0]), GB_BORROWED_BYTES / 2048);
    fixture_check();
    fixture_release();
}

/* Each borrowed block pins a page, so a thread that only frees borrows none. */
static void test_only_users_of_the_class_borrow(void **state)
{
    (void)state;
    begin();
    allocate(BORROWED_SIZE, MANY);
    begin_borrower(4 * BORROWED_SIZE);
    release(0, MOST);
    assert_int_equal(borrowed_of(blocks[0]), 0);
    fixture_thread(0);
    release(MOST, MANY);
    fixture_release();
}

/* A heap with a limit needs its blocks back, and does not pay for other threads. */
static void test_heaps_with_a_limit_lend_nothing(void **state)
{
    (void)state;
    begin();
    assert_int_equal(glebe_heap_limit(NULL, 4 << 20), 0);
    lend(MOST);
    assert_int_equal(borrowed_of(blocks[0]), 0);
    all_return(MOST);
}

static void test_unused_ones_return(void **state)
{
    (void)state;
    lend(MOST);
    use_borrowed();
    fake.now_ms += 20;
    gb_tick_due(gb_self);
    assert_in_range(borrowed_of(blocks[0]), 1, MOST); /* the class is in use */
    fake.now_ms += 20;
    gb_tick_due(gb_self);
    assert_int_equal(borrowed_of(blocks[0]), 0);
    all_return(MOST);
}

/* A part of them is on the thread free list. */
static void test_trim_returns_them(void **state)
{
    (void)state;
    lend(MOST);
    void *taken[400];
    int count = 0;
    while (borrowed_of(blocks[0]) && count < 400)
        taken[count++] = glebe_malloc(BORROWED_SIZE);
    glebe_trim(NULL);
    assert_int_not_equal(gb_load(&fixture_selves[0]->inbox), 0);
    for (int i = 0; i < count; i++)
        glebe_free(taken[i]);
    all_return(MOST);
}

static void test_an_end_returns_them(void **state)
{
    (void)state;
    lend(MOST);
    fixture_thread_end(1);
    assert_int_not_equal(gb_load(&fixture_selves[0]->inbox), 0);
    all_return(MOST);
}

static void test_remote_frees_collect_in_slots(void **state)
{
    (void)state;
    allocate(64, 100);
    gb_page *page = page_of(blocks[0]);
    fixture_thread(1);
    begin();
    borrow_nothing();
    release(0, 5);
    assert_int_equal(gb_load(&page->xfree), 0);
    const gb_remote *slot = &gb_self->remote[gb_page_id_of(page).n % GB_REMOTE_SLOTS];
    assert_int_equal(slot->page.n, gb_page_id_of(page).n);
    assert_int_equal(slot->count, 5);
    fixture_check();
    gb_remote_flush(gb_self);
    assert_int_equal(GB_XFREE_COUNT(gb_load(&page->xfree)), 5);
    assert_true(gb_load(&page->xfree) & GB_XFREE_QUEUED);
    assert_int_equal(gb_load(&fixture_selves[0]->inbox), gb_page_id_of(page).n);
    release(5, 5 + GB_REMOTE_BLOCKS); /* a full slot is sent at once, and does not queue the page again */
    assert_int_equal(GB_XFREE_COUNT(gb_load(&page->xfree)), 5 + GB_REMOTE_BLOCKS);
    fixture_check();
    fixture_thread(0);
    assert_true(gb_inbox_drain(gb_self));
    assert_false(gb_inbox_drain(gb_self));
    assert_int_equal(gb_load(&page->xfree), 0);
    fixture_check();
    release(5 + GB_REMOTE_BLOCKS, 100);
    fixture_release();
}

static void test_slots_evict_each_other(void **state)
{
    (void)state;
    allocate(1024, 400); /* 25 pages and more for 8 slots */
    fixture_thread(1);
    begin();
    borrow_nothing();
    release(0, 400);
    fixture_check();
    fixture_thread(0);
    fixture_release();
}

static void test_a_tick_sends_them_home(void **state)
{
    (void)state;
    allocate(64, 3);
    fixture_thread(1);
    begin();
    release(0, 3);
    fake.now_ms++;
    gb_tick_due(gb_self);
    assert_int_equal(GB_XFREE_COUNT(gb_load(&page_of(blocks[0])->xfree)), 3);
}

static void test_a_thread_without_a_heap_frees(void **state)
{
    (void)state;
    allocate(64, 3);
    fixture_thread(1);
    release(0, 3);
    assert_ptr_equal(gb_self, &gb_heap_none); /* the free gave it no heap */
    assert_int_equal(GB_XFREE_COUNT(gb_load(&page_of(blocks[0])->xfree)), 3);
    fixture_check();
    fixture_thread(0);
    fixture_release();
}

static void test_medium_frees_are_counted(void **state)
{
    (void)state;
    allocate(5000, 40);
    fixture_thread(1);
    begin();
    release(0, 40);
    gb_page *page = page_of(blocks[0]);
    assert_true(gb_load(&page->notify) & GB_NOTIFY_QUEUED);
    fixture_check();
    fixture_thread(0);
    assert_true(gb_inbox_drain(gb_self));
    fixture_check();
    fixture_release();
}

/* A full page whose blocks were all freed remotely is used again. */
static void test_the_owner_finds_them(void **state)
{
    (void)state;
    allocate(128, MANY);
    uint64_t taken = glebe_live.stats.pages_taken;
    for (int round = 0; round < 20; round++) {
        fixture_thread(1);
        begin();
        release(0, MANY);
        gb_remote_flush(gb_self);
        fixture_thread(0);
        allocate(128, MANY);
        fixture_check();
    }
    assert_in_range(glebe_live.stats.pages_taken - taken, 0, 24);
}

static void test_abandoned_is_adopted(void **state)
{
    (void)state;
    fixture_thread(1);
    allocate(100, 500);
    glebe_heap *heap = gb_self;
    assert_int_equal(glebe_heap_limit(NULL, (size_t)1 << 30), 0);
    fixture_thread_end(1);
    assert_int_equal(heap->kind, GB_HEAP_ABANDONED);
    assert_int_equal(glebe_live.stats.heaps_abandoned, 1);
    fixture_check();
    fixture_thread(2);
    begin();
    assert_ptr_equal(gb_self, heap);
    assert_int_equal(heap->kind, GB_HEAP_THREAD);
    assert_int_equal(heap->limit_bytes, 0); /* the limit was the other thread's */
    assert_int_equal(glebe_live.stats.heaps_abandoned, 0);
    assert_int_equal(glebe_live.stats.heaps_reclaimed, 1);
    for (int i = 0; i < 500; i++)
        assert_true(fixture_filled(blocks[i], 64, (uint64_t)i));
    release(0, 500);
    fixture_check();
    fixture_thread(0);
    fixture_release();
}

/* Threads that begin and end in turn reclaim each other's heaps: no heap is lost. */
static void test_heaps_do_not_pile_up(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        fixture_thread(1 + i % 5);
        allocate(40, 20);
        if (i % 3)
            release(0, 20);
        fixture_thread_end(1 + i % 5);
    }
    assert_in_range(gb_the.records.made, 1, 5);
    fixture_check();
}

/* Heaps of the program that are abandoned with blocks in use: the blocks stay valid, and the heaps end once these are
 * freed. */
static void test_heaps_left_behind_end(void **state)
{
    (void)state;
    begin();
    void *left[60];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 60; i++) {
            glebe_heap *heap = glebe_heap_create(0);
            left[i] = glebe_heap_malloc(heap, i % 3 == 0 ? 100 : i % 3 == 1 ? 5000 : 3000000);
            assert_non_null(left[i]);
            memset(left[i], i, 100);
            gb_heap_abandon(heap);
            assert_int_equal(heap->kind, GB_HEAP_ABANDONED);
        }
        fixture_check();
        gb_abandoned_trim(true);
        assert_in_range(glebe_live.stats.heaps_abandoned, 60, 61); /* control: with blocks in them they stay */
        for (int i = 0; i < 60; i++) {
            assert_int_equal(*(unsigned char *)left[i], i);
            glebe_free(left[i]);
        }
        gb_remote_flush(gb_self);
        gb_abandoned_trim(true);
        assert_int_equal(glebe_live.stats.heaps_abandoned, 1);
        fixture_check();
    }
    assert_in_range(gb_the.records.made, 1, 70);
    fixture_release();
}

static void test_abandoned_pages_are_reclaimed(void **state)
{
    (void)state;
    begin(); /* this heap is not a reclaimed one */
    fixture_thread(1);
    for (int i = 0; i < MANY; i++)
        blocks[i] = glebe_malloc(200);
    for (int i = 0; i < MANY; i += 2)
        glebe_free(blocks[i]);
    fixture_thread_end(1);
    fixture_thread(0);
    uint64_t taken = glebe_live.stats.pages_taken;
    for (int i = 0; i < MANY; i += 2) {
        blocks[i] = glebe_malloc(200);
        assert_non_null(blocks[i]);
    }
    assert_true(glebe_live.stats.pages_reclaimed > 0);
    assert_in_range(glebe_live.stats.pages_taken - taken, 0, 5);
    fixture_check();
    release(0, MANY);
    fixture_release();
}

static void test_a_queued_page_is_not_stolen(void **state)
{
    (void)state;
    begin();
    fixture_thread(1);
    allocate(200, 200);
    glebe_heap *abandoned = gb_self;
    fixture_thread_end(1);
    fixture_thread(2);
    gb_page *page = page_of(blocks[0]);
    fixture_thread(0);
    borrow_nothing();
    release(0, 3);
    gb_lock_take(&gb_the.abandoned.lock); /* else the abandoned heap would take the blocks at once */
    gb_remote_flush(gb_self);
    gb_lock_drop(&gb_the.abandoned.lock);
    assert_true(gb_load(&page->xfree) & GB_XFREE_QUEUED);
    assert_false(gb_page_reclaim(gb_self, page));
    assert_int_equal(gb_load(&page->heap), abandoned->number.n);
    fixture_check();
}

static void test_frees_follow_a_stolen_page(void **state)
{
    (void)state;
    begin();
    fixture_thread(1);
    allocate(200, 300);
    release(0, 200);
    fixture_thread_end(1);
    fixture_thread(2); /* holds frees of the abandoned heap's pages in its slots while the pages are reclaimed */
    glebe_heap *second = gb_heap_new(GB_HEAP_THREAD);
    gb_self = second;
    release(200, 230);
    fixture_thread(0);
    void *stolen[400];
    for (int i = 0; i < 400; i++)
        stolen[i] = glebe_malloc(200);
    fixture_check();
    fixture_thread(2);
    gb_remote_flush(gb_self);
    fixture_check();
    fixture_thread(0);
    release(230, 300);
    for (int i = 0; i < 400; i++)
        glebe_free(stolen[i]);
    fixture_release();
}

static void test_fork_leaves_dead_heaps(void **state)
{
    (void)state;
    allocate(100, 50);
    fixture_thread(1);
    void *other = glebe_malloc(100);
    glebe_heap *vanished = gb_self;
    fixture_thread(2);
    assert_non_null(glebe_malloc(100));
    fixture_thread_end(2);
    fixture_thread(0);
    gb_fork_prepare();
    assert_int_not_equal(gb_load(&gb_the.lock.word), 0);
    assert_int_not_equal(gb_load(&gb_the.abandoned.lock.word), 0);
    gb_fork_child();
    assert_int_equal(vanished->kind, GB_HEAP_DEAD);
    assert_int_equal(gb_self->kind, GB_HEAP_THREAD);
    assert_int_equal(glebe_live.stats.heaps_abandoned, 1);
    glebe_free(other); /* goes to an inbox that no thread reads */
    gb_remote_flush(gb_self);
    release(0, 50);
    allocate(100, 50);
    fixture_check();
    fixture_thread(3);
    begin();
    assert_ptr_not_equal(gb_self, vanished);
    fixture_thread(0);
    gb_fork_prepare();
    gb_fork_parent();
    allocate(100, 50);
    fixture_check();
}

/* A thread of the parent had set the bit of a medium block that it freed, and the fork came before it counted that. The
 * page is of use, and stays with its heap. Without a fork the check objects. */
static void test_fork_in_the_midst_of_a_free(void **state)
{
    (void)state;
    char *blocks[8];
    for (int i = 0; i < 8; i++)
        fixture_fill(blocks[i] = glebe_malloc(8000), 8000, (unsigned char)i);
    fixture_thread(1);
    begin();
    fixture_thread(0);
    gb_page *page = gb_page_head(gb_page_entry(blocks[3]));
    size_t index = ((uintptr_t)blocks[3] - gb_page_start(page)) / gb_classes[page->cls].bytes;
    gb_or(&page->bits, (uint32_t)1 << index);
    assert_int_not_equal(glebe_check(NULL, 2, NULL, NULL), 0);
    gb_fork_prepare();
    gb_fork_child();
    fixture_check();
    for (int i = 0; i < 8; i++) {
        assert_true(fixture_filled(blocks[i], 8000, (unsigned char)i));
        if (i != 3)
            glebe_free(blocks[i]);
        fixture_check();
    }
    for (int i = 0; i < 8; i++)
        fixture_fill(blocks[i] = glebe_malloc(8000), 8000, (unsigned char)i);
    for (int i = 0; i < 8; i++) {
        assert_true(fixture_filled(blocks[i], 8000, (unsigned char)i));
        glebe_free(blocks[i]);
    }
    fixture_check();
}

static jmp_buf background_end;
static int background_waits;

static void background_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    (void)word;
    (void)expected;
    assert_in_range(++background_waits, 1, 100);
    if (ms == UINT32_MAX)
        longjmp(background_end, 1); /* it sleeps until woken */
    fake.now_ms += ms;
}

/* Freed memory is purged without any further malloc, and then the thread sleeps without limit. */
static void test_background(void **state)
{
    (void)state;
    assert_int_equal(glebe_option("background", "1"), 0);
    assert_non_null(fake.thread);
    fake.on_wait = background_wait;
    for (int round = 0; round < 3; round++) {
        background_waits = 0;
        void *p = glebe_malloc(200000), *q = glebe_malloc(5000000);
        memset(p, 1, 200000);
        memset(q, 1, 5000000);
        uint64_t before = fake.purged_bytes;
        glebe_free(p);
        glebe_free(q);
        if (round > 0)
            assert_int_equal(fake.wakes, round);
        if (setjmp(background_end) == 0)
            fake.thread();
        assert_true(fake.purged_bytes - before >= 5200000);
        assert_in_range(background_waits, 1, 4);
        fixture_check();
    }
    fixture_start(1);
    gb_fake_fail(1u << GB_FAKE_THREAD_START, 1, 1);
    assert_int_equal(glebe_option("background", "1"), 0);
    assert_null(fake.thread);
    assert_int_equal(glebe_option("background", "1"), 0); /* tried again */
    assert_non_null(fake.thread);
}

static void test_limit_before_the_first_malloc(void **state)
{
    (void)state;
    assert_int_equal(glebe_heap_limit(NULL, 100000), 0);
    assert_null(glebe_malloc(200000));
    assert_non_null(glebe_malloc(100));
    fixture_thread(1);
    assert_non_null(glebe_malloc(200000)); /* another thread has no limit */
    assert_int_equal(gb_heap_none.limit_bytes, 0);
}

static void check_classes(const glebe_heap *heap)
{
    for (size_t bytes = 0; bytes <= GB_OBJECT_MAX; bytes++)
        assert_int_equal(gb_heap_classes(heap)[bytes], gb_class_of_small(bytes));
}

/* malloc reads classes from a copy in the thread's heap, and before there is one, in gb_heap_none. A heap of the
 * program's has no copy until it becomes a thread's. */
static void test_threads_have_the_classes(void **state)
{
    (void)state;
    if (!GB_CLASS_COPIES)
        skip();
    check_classes(&gb_heap_none);
    begin();
    check_classes(gb_self);
    glebe_heap *heap = glebe_heap_create(0);
    assert_non_null(glebe_heap_malloc(heap, 100));
    const unsigned char *page = (const unsigned char *)heap + GB_CLASS_COPY_AT;
    for (size_t i = 0; i < GB_CLASS_COPY_AT; i++)
        assert_int_equal(page[i], 0);
    gb_heap_abandon(heap);
    fixture_thread(1);
    begin();
    assert_ptr_equal(gb_self, heap);
    check_classes(gb_self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_blocks_are_borrowed),
        FIXTURE_TEST(test_many_frees_return_them),
        FIXTURE_TEST(test_borrowed_bytes_are_bounded),
        FIXTURE_TEST(test_only_users_of_the_class_borrow),
        FIXTURE_TEST(test_heaps_with_a_limit_lend_nothing),
        FIXTURE_TEST(test_unused_ones_return),
        FIXTURE_TEST(test_trim_returns_them),
        FIXTURE_TEST(test_an_end_returns_them),
        FIXTURE_TEST(test_remote_frees_collect_in_slots),
        FIXTURE_TEST(test_slots_evict_each_other),
        FIXTURE_TEST(test_a_tick_sends_them_home),
        FIXTURE_TEST(test_a_thread_without_a_heap_frees),
        FIXTURE_TEST(test_medium_frees_are_counted),
        FIXTURE_TEST(test_the_owner_finds_them),
        FIXTURE_TEST(test_abandoned_is_adopted),
        FIXTURE_TEST(test_heaps_do_not_pile_up),
        FIXTURE_TEST(test_heaps_left_behind_end),
        FIXTURE_TEST(test_abandoned_pages_are_reclaimed),
        FIXTURE_TEST(test_a_queued_page_is_not_stolen),
        FIXTURE_TEST(test_frees_follow_a_stolen_page),
        FIXTURE_TEST(test_fork_leaves_dead_heaps),
        FIXTURE_TEST(test_fork_in_the_midst_of_a_free),
        FIXTURE_TEST(test_background),
        FIXTURE_TEST(test_limit_before_the_first_malloc),
        FIXTURE_TEST(test_threads_have_the_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
