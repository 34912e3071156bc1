/* Threads that end and begin: abandoned heaps, reclaiming them, and pages reclaimed from them while others free to
 * those pages. */
#include "cases.h"

/* A page in use by B and C (two blocks each) and A; another of A's is current. A's page wakes when four blocks are
 * free. */
static void a_and_page(void)
{
    as_with_heap(0);
    take_for(1, SMALL, 2);
    take_for(2, SMALL, 2);
    take_for(0, SMALL, 4);
    take_for(0, SMALL, 1);
    as_end();
}

/* The same page, available: four of its blocks are free. */
static void a_and_free_page(void)
{
    a_and_page();
    as(0);
    free_for(0, 0, 4); /* of A's nine: the first four on that page */
    as_end();
}

/* The page belongs to an abandoned heap. A has a heap without a page, so that its first allocation reclaims. */
static void abandoned(void)
{
    a_and_free_page();
    as(0);
    gb_thread_exit();
    as_with_heap(0);
    as_end();
}

static void abandoned_and_slot(void) /* B has collected its blocks in a slot */
{
    abandoned();
    as_with_heap(1);
    glebe_free(the_world.held[1][0]);
    glebe_free(the_world.held[1][1]);
    the_world.held[1][0] = the_world.held[1][1] = NULL;
    as_end();
}

static void abandoned_and_own_slot(void) /* A itself has freed a block of the page that it will reclaim */
{
    abandoned();
    as(0);
    glebe_free(the_world.held[2][0]);
    the_world.held[2][0] = NULL;
    as_end();
}

static void abandoned_and_two_robbers(void)
{
    abandoned();
    as_with_heap(2);
    as_end();
}

static void abandoned_and_due(void) /* A's next slow event looks at the clock, and memory waits for its purge */
{
    abandoned_and_two_robbers();
    as(0);
    glebe_free(the_world.held[2][0]);
    the_world.held[2][0] = NULL;
    gb_self->tick = 1;
    as_end();
    the_world.now_ms = 2000;
}

static void abandoned_of_medium(void)
{
    as_with_heap(0);
    take_for(1, MEDIUM, 2);
    take_for(2, MEDIUM, 1);
    take_for(0, MEDIUM, 5);
    take_for(0, MEDIUM, 1);
    free_for(0, 0, 4);
    gb_heap_cool(gb_self);
    gb_thread_exit();
    as_with_heap(0);
    as_end();
}

static void exits(void) { gb_thread_exit(); }
static void exits_and_takes(void)
{
    gb_thread_exit();
    take(SMALL);
    IL_CHECK(gb_self == &gb_heap_none, "a thread that has ended keeps a heap");
}
static void takes_and_drains(void)
{
    take(SMALL);
    gb_inbox_drain(gb_self);
}
static void takes_flushes_drains(void)
{
    take(SMALL);
    gb_remote_flush(gb_self);
    gb_inbox_drain(gb_self);
}
static void takes_medium_and_drains(void)
{
    take(MEDIUM);
    gb_inbox_drain(gb_self);
}
static void takes_and_exits(void)
{
    take(SMALL);
    gb_thread_exit();
}
static void gives(void) { give_all(); }
static void gives_one(void) { give(0); }
static void flushes(void) { gb_remote_flush(gb_self); }
static void gives_and_exits(void)
{
    give_all();
    gb_thread_exit();
}
static void trims_abandoned(void) { gb_abandoned_trim(true); }
static void collects(void) { glebe_trim(NULL); }
static void purges(void) { gb_purge_due(the_world.now_ms, true); }

static void a_and_page_and_b(void) /* B has a heap, so it collects in slots and flushes when it ends */
{
    as_with_heap(1);
    a_and_page();
}

/* Blocks of the available page and of the current one are on the thread free list of their class. */
static void frees_sized_and_exits(void)
{
    for (uint32_t i = 0; i < 5; i++) {
        void *block = the_world.held[0][i];
        the_world.held[0][i] = NULL;
        if (block)
            glebe_heap_free_sized(NULL, block, SMALL);
    }
    gb_thread_exit();
}

enum { LARGE = 100 << 10 };

static void large(void)
{
    as_with_heap(0);
    take_for(1, LARGE, 2);
    take_for(0, LARGE, 1);
    as_end();
}

static void takes_and_gives_large(void)
{
    take(LARGE);
    give(0);
}

/* ---- a heap of the program, which it may destroy as soon as all frees are known to have returned ---- */

static _Atomic uint64_t frees_done;
static glebe_heap *programs;

static void own_heap(void)
{
    as_with_heap(1); /* B has slots, which this heap's pages bypass */
    as_with_heap(0);
    programs = glebe_heap_create(0);
    the_world.held[1][0] = glebe_heap_malloc(programs, SMALL);
    the_world.held[1][1] = glebe_heap_malloc(programs, MEDIUM);
    the_world.count[1] = 2;
    the_world.bytes[1][0] = SMALL, the_world.bytes[1][1] = MEDIUM;
    as_end();
}

static void b_frees_and_says_so(void)
{
    frees_done = 0; /* before the first step of any thread */
    free_for(1, 0, 2);
    host_release(&frees_done, 1);
}

static void a_destroys(void)
{
    void *block = glebe_heap_malloc(programs, SMALL);
    glebe_heap_free(programs, block);
    if (host_acquire(&frees_done))
        glebe_heap_destroy(programs);
}

const il_case cases_abandoned[] = {
    CASE("exit", "a thread ends while two free to its page",
        a_and_page, 0, exits, gives, gives),
    CASE("exit-both", "owner and freer end",
        a_and_page_and_b, 0, exits, gives_and_exits, gives_one),
    CASE("exit-adopt", "a thread ends, another begins, a third frees",
        a_and_free_page, 0, exits, gives, NULL, takes_and_drains),
    CASE("adopt-two", "two threads begin, one abandoned waits, a third frees",
        abandoned, 0, NULL, gives, takes_and_drains, takes_and_drains),
    CASE("rob", "a page is reclaimed while two free to it",
        abandoned, 0, takes_and_drains, gives, gives_one),
    LONG("rob-more", "the same, two blocks each",
        abandoned, 0, takes_and_drains, gives, gives),
    CASE("rob-fails", "the same with spurious failures",
        abandoned, 2, takes_and_drains, gives_one),
    CASE("rob-slot", "a page is reclaimed while a slot is flushed to it",
        abandoned_and_slot, 0, takes_and_drains, flushes, gives),
    CASE("rob-own-slot", "the robber's own slot holds a block of the page",
        abandoned_and_own_slot, 0, takes_flushes_drains, gives),
    CASE("rob-two", "two robbers and a free",
        abandoned_and_two_robbers, 0, takes_and_drains, gives, takes_and_drains),
    CASE("rob-adopt", "a robber, a thread that adopts, and a free",
        abandoned, 0, takes_and_drains, gives, NULL, takes_and_exits),
    CASE("rob-exit", "a thread ends, another robs it, a third frees",
        a_and_free_page, 0, exits, gives, NULL, takes_and_drains),
    CASE("rob-trim", "a robber, a free, and abandoned heaps trimmed",
        abandoned, 0, takes_and_drains, gives, NULL, trims_abandoned),
    CASE("collect", "a robber, a free, and a third collects",
        abandoned_and_two_robbers, 0, takes_and_drains, gives, collects),
    CASE("rob-medium", "a medium page is reclaimed, freed to and purged",
        abandoned_of_medium, 0, takes_medium_and_drains, gives_one, NULL, purges),
    CASE("rob-medium2", "a medium page is reclaimed while two free to it",
        abandoned_of_medium, 0, takes_medium_and_drains, gives_one, gives_one),
    LONG("rob-medium3", "the first of these with two blocks",
        abandoned_of_medium, 0, takes_medium_and_drains, gives, NULL, purges),
    CASE("late", "a thread allocates after its end; another begins; a third frees",
        a_and_free_page, 0, exits_and_takes, gives, NULL, takes_and_drains),
    CASE("sized", "sized frees are in a thread free list when their thread ends; another reclaims, a third trims",
        a_and_free_page, 0, frees_sized_and_exits, gives_one, takes_and_drains, trims_abandoned),
    CASE("large", "large blocks freed by owner and others, and collected",
        large, 0, takes_and_gives_large, gives, collects),
    CASE("tick", "the owner's tick flushes, purges and robs",
        abandoned_and_due, 0, takes_flushes_drains, gives, takes_and_drains),
    LOOSE("destroy", "a program's heap is destroyed after a remote free",
        own_heap, 1, a_destroys, b_frees_and_says_so),
    {0},
};
