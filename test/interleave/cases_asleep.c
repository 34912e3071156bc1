/* Pages whose every block others freed while the owner slept: the purger takes them whole, and the owner gives them away when it
 * wakes. */
#include "cases.h"

static void send(uint32_t t, uint32_t count)
{
    as(t);
    for (uint32_t i = 0; i < count; i++) {
        glebe_free(the_world.held[t][i]);
        the_world.held[t][i] = NULL;
    }
    as_end();
}

/* A's current page is all in use, and B sent all but its last block, or B and C theirs. */
static void small_page(void)
{
    as_with_heap(0);
    take_for(1, SMALL, PAGE_BLOCKS);
    send(1, PAGE_BLOCKS - 1);
}

static void small_page_of_two(void)
{
    as_with_heap(0);
    take_for(1, SMALL, PAGE_BLOCKS - 1);
    take_for(2, SMALL, 1);
    send(1, PAGE_BLOCKS - 2);
}

static void medium_page(void)
{
    as_with_heap(0);
    take_for(1, MEDIUM, PAGE_BLOCKS);
    send(1, PAGE_BLOCKS - 1);
}

static void medium_page_of_two(void)
{
    as_with_heap(0);
    take_for(1, MEDIUM, PAGE_BLOCKS - 1);
    take_for(2, MEDIUM, 1);
    send(1, PAGE_BLOCKS - 2);
}

/* A freed the others itself. */
static void medium_current(void)
{
    as_with_heap(0);
    take_for(1, MEDIUM, 1);
    take_for(0, MEDIUM, PAGE_BLOCKS - 1);
    for (uint32_t i = 0; i < PAGE_BLOCKS - 1; i++) {
        glebe_free(the_world.held[0][i]);
        the_world.held[0][i] = NULL;
    }
    gb_medium_cool(gb_self);
    as_end();
}

static void give_last(void) { give(the_world.count[il_thread()] - 1); }
static void purge_all(void) { gb_purge_due(the_world.now_ms, true); }

/* What the owner gave away is taken again: whoever still touched it would touch the new page. */
static void a_drains_takes(void)
{
    gb_inbox_drain(gb_self);
    take(SMALL);
    gb_inbox_drain(gb_self);
}

static void a_drains_takes_medium(void)
{
    gb_inbox_drain(gb_self);
    take(MEDIUM);
    gb_inbox_drain(gb_self);
}

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
