/* A parked page: its owner frees to it, takes in remote frees, and uses it again, while others free and the purger
 * purges its holes. Blocks of 2 KiB, two to a unit, 32 to a page. */
#include "cases.h"

enum { PARKED_BLOCKS = 4 * PAGE_BLOCKS };

/* B holds a unit, C half of one, A a unit and a half; the rest is free. A thread short of blocks takes from this
 * page. */
static void parked_page(void)
{
    as_with_heap(0);
    gb_self->class_slices[gb_class_of_small(SMALL)] = GB_DEMAND * GB_BIG_PAGE_SLICES;
    take_for(1, SMALL, 2);
    take_for(2, SMALL, 1);
    take_for(0, SMALL, 3);
    void *rest[PARKED_BLOCKS - 6];
    for (uint32_t i = 0; i < PARKED_BLOCKS - 6; i++)
        rest[i] = glebe_malloc(SMALL);
    take_for(3, SMALL, 24); /* the page after it, to the last block: no thread frees these */
    take_for(0, SMALL, PARKED_BLOCKS - 24);
    for (uint32_t i = 0; i < PARKED_BLOCKS - 6; i++)
        glebe_free(rest[i]);
    gb_page *page = page_of(the_world.held[0][0]);
    IL_CHECK(page->state == GB_AVAIL && page->slices == GB_BIG_PAGE_SLICES, "the page is not available");
    gb_page_park(page);
    as_end();
}

static void parked_abandoned(void)
{
    parked_page();
    as(0);
    gb_thread_exit();
    as_with_heap(0);
    as_end();
}

static void a_empties(void)
{
    give(1);
    gb_inbox_drain(gb_self);
    give(2); /* now its unit is a hole */
    gb_inbox_drain(gb_self);
}

static void a_takes(void)
{
    give(1), give(2);
    take(SMALL);
    gb_inbox_drain(gb_self);
    give(0);
}

static void a_trims(void)
{
    gb_inbox_drain(gb_self);
    gb_heap_trim(gb_self, true);
    give(0);
}

static void a_robs(void)
{
    gb_abandoned_reclaim(gb_self, gb_class_of_small(SMALL));
    give(0);
}

static void give_0(void) { give(0); }
static void give_0_1(void) { give(0), give(1); }
static void purge_all(void) { gb_purge_due(the_world.now_ms, true); }

const il_case cases_parked[] = {
    CASE("parked", "owner, a remote free and the purger on a parked page",
        parked_page, 0, a_empties, give_0_1, purge_all),
    CASE("parked-two", "the same, and two remote frees",
        parked_page, 0, a_empties, give_0_1, give_0),
    LONG("parked-more", "the same, and the purger",
        parked_page, 0, a_empties, give_0_1, give_0, purge_all),
    CASE("parked-take", "the owner takes the page back into use",
        parked_page, 0, a_takes, give_0_1, purge_all),
    CASE("parked-trim", "the owner trims",
        parked_page, 0, a_trims, give_0, purge_all),
    CASE("parked-rob", "an abandoned heap's parked page is reclaimed",
        parked_abandoned, 0, a_robs, give_0_1, purge_all),
    {0},
};
