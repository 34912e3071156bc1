/* Pages whose every block others freed while the owner slept: the purger purges them whole, and the owner returns them
 * to the arena when it wakes. */
#include "cases.h"

/* A's current page is all in use. C holds `of_c` of its blocks; B freed all others but one. */
static void page_of_a(size_t bytes, uint32_t of_c)
{
    as_with_heap(0);
    take_for(1, bytes, PAGE_BLOCKS - of_c);
    take_for(2, bytes, of_c);
    as(1);
    free_for(1, 0, PAGE_BLOCKS - of_c - 1);
    as_end();
}

static void small_page(void) { page_of_a(SMALL, 0); }
static void small_page_of_two(void) { page_of_a(SMALL, 1); }
static void medium_page(void) { page_of_a(MEDIUM, 0); }
static void medium_page_of_two(void) { page_of_a(MEDIUM, 1); }

/* A freed the others itself. */
static void medium_current(void)
{
    as_with_heap(0);
    take_for(1, MEDIUM, 1);
    take_for(0, MEDIUM, PAGE_BLOCKS - 1);
    free_for(0, 0, PAGE_BLOCKS - 1);
    gb_heap_cool(gb_self);
    as_end();
}

static void give_last(void) { give(the_world.count[il_thread()] - 1); }
static void purge_all(void) { gb_purge_due(the_world.now_ms, true); }

/* The runs that the owner returned are taken again: a thread that still touched one would touch the new page. */
static void drains_takes(size_t bytes)
{
    gb_inbox_drain(gb_self);
    take(bytes);
    gb_inbox_drain(gb_self);
}

static void a_drains_takes(void) { drains_takes(SMALL); }
static void a_drains_takes_medium(void) { drains_takes(MEDIUM); }
static void a_takes_two(void) { take(MEDIUM), take(MEDIUM); }

const il_case cases_asleep[] = {
    CASE("asleep", "the last block of a page, its owner, and the purger",
        small_page, 0, a_drains_takes, give_last, purge_all),
    LONG("asleep-two", "the last two blocks of a page, its owner, and the purger",
        small_page_of_two, 0, a_drains_takes, give_last, give_last, purge_all),
    CASE("asleep-medium", "the same of a medium page",
        medium_page, 0, a_drains_takes_medium, give_last, purge_all),
    LONG("asleep-medium-two", "the same, the last two blocks",
        medium_page_of_two, 0, a_drains_takes_medium, give_last, give_last, purge_all),
    CASE("asleep-current", "the purger takes the page that its owner allocates from",
        medium_current, 0, a_takes_two, give_last, purge_all),
    {0},
};
