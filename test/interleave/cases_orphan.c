/* Threads that end and begin: parked heaps, their adoption, and pages taken from them while others free to those pages. */
#include "cases.h"

/* A page in use by B and C (two blocks each) and A; another of A's is current. A's page wakes when four blocks are home. */
static void a_and_page(void)
{
    as_with_heap(0);
    take_for(1, SMALL, 2);
    take_for(2, SMALL, 2);
    take_for(0, SMALL, 4);
    take_for(0, SMALL, 1);
    as_end();
}

/* The same page, available: four of its blocks are home. */
static void a_and_free_page(void)
{
    a_and_page();
    as(0);
    for (uint32_t i = 0; i < 4; i++) {
        glebe_free(the_world.held[0][i]);
        the_world.held[0][i] = NULL;
    }
    as_end();
}

/* It belongs to an orphan; A has a heap of its own without a page, so that its first allocation robs. */
static void orphan(void)
{
    a_and_free_page();
    as(0);
    gb_thread_exit();
    as_with_heap(0);
    as_end();
}

static void orphan_and_slot(void) /* B has collected its blocks in a slot */
{
    orphan();
    as_with_heap(1);
    glebe_free(the_world.held[1][0]);
    glebe_free(the_world.held[1][1]);
    the_world.held[1][0] = the_world.held[1][1] = NULL;
    as_end();
}

static void orphan_and_own_slot(void) /* A itself has freed a block of the page that it will rob */
{
    orphan();
    as(0);
    glebe_free(the_world.held[2][0]);
    the_world.held[2][0] = NULL;
    as_end();
}

static void orphan_and_two_robbers(void)
{
    orphan();
    as_with_heap(2);
    as_end();
}

static void orphan_of_medium(void)
{
    as_with_heap(0);
    take_for(1, MEDIUM, 2);
    take_for(2, MEDIUM, 1);
    take_for(0, MEDIUM, 5);
    take_for(0, MEDIUM, 1);
    for (uint32_t i = 0; i < 4; i++) {
        glebe_free(the_world.held[0][i]);
        the_world.held[0][i] = NULL;
    }
    gb_medium_cool(gb_self);
    gb_thread_exit();
    as_with_heap(0);
    as_end();
}

static void exits(void) { gb_thread_exit(); }
static void takes(void) { take(SMALL); }
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
static void trims_orphans(void) { gb_orphans_trim(); }
static void collects(void) { glebe_collect(NULL); }
static void purges(void) { gb_purge_due(the_world.now_ms, true); }

static void a_and_page_and_b(void) /* B has a heap, so it collects in slots and flushes when it ends */
{
    as_with_heap(1);
    a_and_page();
}

/* ---- a heap of the program's, which may be destroyed as soon as it is known that all frees have returned ---- */

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
    for (uint32_t i = 0; i < 2; i++) {
        glebe_free(the_world.held[1][i]);
        the_world.held[1][i] = NULL;
    }
    host_release(&frees_done, 1);
}

static void a_destroys(void)
{
    void *block = glebe_heap_malloc(programs, SMALL);
    glebe_heap_free(programs, block);
    if (host_acquire(&frees_done))
        glebe_heap_destroy(programs);
}

const il_case cases_orphan[] = {
    {"exit", "a thread ends while two free to its page", a_and_page, {exits, gives, gives}, check_step, check_final, 0, 0, 0},
    {"exit-both", "owner and freer end", a_and_page_and_b, {exits, gives_and_exits, gives_one}, check_step, check_final, 0, 0, 0},
    {"exit-adopt", "a thread ends, another begins, a third frees", a_and_free_page, {exits, gives, NULL, takes}, check_step, check_final, 0, 0, 0},
    {"adopt-two", "two threads begin, one orphan waits, a third frees", orphan, {NULL, gives, takes, takes}, check_step, check_final, 0, 0, 0},
    {"rob", "a page is robbed while two free to it", orphan, {takes_and_drains, gives, gives}, check_step, check_final, 0, 0, 0},
    {"rob-fails", "the same with spurious failures", orphan, {takes_and_drains, gives_one}, check_step, check_final, 2, 0, 0},
    {"rob-slot", "a page is robbed while a slot is flushed to it", orphan_and_slot, {takes_and_drains, flushes, gives}, check_step, check_final, 0, 0, 0},
    {"rob-own-slot", "the robber's own slot holds a block of the page", orphan_and_own_slot, {takes_flushes_drains, gives}, check_step, check_final, 0, 0, 0},
    {"rob-two", "two robbers and a free", orphan_and_two_robbers, {takes_and_drains, gives, takes_and_drains}, check_step, check_final, 0, 0, 0},
    {"rob-adopt", "a robber, a thread that adopts, and a free", orphan, {takes_and_drains, gives, NULL, takes_and_exits}, check_step, check_final, 0, 0, 0},
    {"rob-exit", "a thread ends, another robs it, a third frees", a_and_free_page, {exits, gives, NULL, takes}, check_step, check_final, 0, 0, 0},
    {"rob-trim", "a robber, a free, and orphans trimmed", orphan, {takes_and_drains, gives, NULL, trims_orphans}, check_step, check_final, 0, 0, 0},
    {"collect", "a robber, a free, and a third collects", orphan_and_two_robbers, {takes_and_drains, gives, collects}, check_step, check_final, 0, 0, 0},
    {"rob-medium", "a medium page is robbed, freed to and purged", orphan_of_medium, {takes_medium_and_drains, gives, NULL, purges}, check_step, check_final, 0, 0, 0},
    {"destroy", "a program's heap is destroyed after a remote free", own_heap, {a_destroys, b_frees_and_says_so}, check_step, check_final, 1, 0, 0},
    {0},
};
