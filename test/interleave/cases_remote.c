/* Remote frees of small blocks: xfree, inboxes, slots. Blocks of 2 KiB; a page has eight and wakes when four are
 * free. */
#include "cases.h"

/* A has one page or two, in use to the last block; B and C hold some of the blocks and have no heap, so they send at
 * once. */
static void one_page(void)
{
    as_with_heap(0);
    take_for(1, SMALL, 2);
    take_for(2, SMALL, 2);
    take_for(0, SMALL, 4);
    as_end();
}

static void three_hold(void)
{
    as_with_heap(0);
    take_for(1, SMALL, 2);
    take_for(2, SMALL, 1);
    take_for(3, SMALL, 1);
    take_for(0, SMALL, 4);
    as_end();
}

static void a_drains(void) { gb_inbox_drain(gb_self); }
static void a_takes(void) { take(SMALL); }
static void give_0(void) { give(0); }
static void give_0_1(void) { give(0), give(1); }

static void a_drains_twice(void)
{
    gb_inbox_drain(gb_self);
    gb_inbox_drain(gb_self);
}

static void a_works(void)
{
    take(SMALL);
    give(0);
    take(SMALL);
}

/* Two pages; B and C each hold a block of both, in different order. */
static void two_pages(void)
{
    as_with_heap(0);
    take_for(1, SMALL, 1);
    take_for(2, SMALL, 1);
    take_for(0, SMALL, 6);
    take_for(1, SMALL, 1);
    take_for(2, SMALL, 1);
    take_for(0, SMALL, 6);
    as_end();
}

static void give_1_0(void) { give(1), give(0); }

/* The page's last blocks: with them it is empty, becomes a spare page, and may return to the arena. */
static void last_blocks(void)
{
    as_with_heap(0);
    take_for(1, SMALL, 1);
    take_for(2, SMALL, 1);
    take_for(0, SMALL, 6);
    take_for(0, SMALL, 1); /* the next page becomes the current one */
    free_for(0, 0, 6);
    as_end();
}

static void a_drains_and_trims(void)
{
    gb_inbox_drain(gb_self);
    gb_heap_trim(gb_self, true);
}

/* B and C have heaps, collect in slots, and flush. */
static void slots(void)
{
    as_with_heap(1);
    as_with_heap(2);
    two_pages();
}

static void give_all_and_flush(void)
{
    give_all();
    gb_remote_flush(gb_self);
}

/* B and C free for each other: each frees a block of the other's full page. */
static void crossing(void)
{
    as_with_heap(0);
    take_for(1, SMALL, 2);
    take_for(0, SMALL, 6);
    as_with_heap(1);
    take_for(0, SMALL, 2);
    take_for(1, SMALL, 6);
    as_end();
}

static void a_crosses(void)
{
    give(6), give(7);
    gb_remote_flush(gb_self);
    take(SMALL);
}

static void b_crosses(void)
{
    give(0), give(1);
    gb_remote_flush(gb_self);
    take(SMALL);
}

/* A page of four slices: every one of its entries leads to the head. */
static void big_page(void)
{
    as_with_heap(0);
    gb_self->class_slices[gb_class_of_small(SMALL)] = GB_DEMAND * GB_BIG_PAGE_SLICES;
    take_for(1, SMALL, 1);
    take_for(0, SMALL, 10);
    take_for(2, SMALL, 1);
    as_end();
}

static void a_drains_takes(void)
{
    gb_inbox_drain(gb_self);
    take(SMALL);
    give(0);
}

const il_case cases_remote[] = {
    CASE("free-two", "two threads free blocks of a page, its owner drains",
        one_page, 1, a_drains, give_0, give_0),
    CASE("free-again", "a thread frees to a page again while its owner drains it",
        one_page, 1, a_drains_twice, give_0_1, give_0),
    CASE("free-take", "two threads free twice, the owner allocates and frees",
        one_page, 0, a_works, give_0_1, give_0_1),
    CASE("inbox-two", "two pages of a heap go through its inbox",
        two_pages, 0, a_drains_twice, give_0_1, give_1_0),
    CASE("inbox-take", "the same, and the owner allocates",
        two_pages, 0, a_takes, give_0_1, give_1_0),
    CASE("last", "the last blocks of a page are freed by others, the owner returns the page",
        last_blocks, 1, a_drains_and_trims, give_0, give_0),
    CASE("slots", "two threads flush their slots to two pages",
        slots, 0, a_drains_takes, give_all_and_flush, give_all_and_flush),
    CASE("crossing", "two heaps free each other's blocks and allocate",
        crossing, 1, a_crosses, b_crosses),
    CASE("big-page", "a page of four slices",
        big_page, 1, a_drains_takes, give_0, give_0),
    CASE("free-three", "three threads free to a page whose owner drains",
        three_hold, 0, a_drains_twice, give_0, give_0, give_0),
    LONG("free-more", "the same, and one frees twice",
        three_hold, 0, a_drains_twice, give_0_1, give_0, give_0),
    {0},
};
