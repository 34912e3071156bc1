/* Objects that are a scheduler's stacks (GB_STACKS: TinyGo's goroutines): which part of a stack is in use.
 *
 *     the scheduler's record:  low   high   start      part of another object
 *                               |      |      |
 *          v--------------------+------+------+
 *          | saved registers -->|dead  |<-- C's stack |        the stack: a large object
 *
 * 1. A page becomes a stack only when the scheduler calls gb_stack_runs. The contents of objects do not count: a buffer
 *    may hold any number, and the address of any object.
 * 2. The record belongs to the scheduler. It is an object that was reachable at the last collection, or is younger.
 *    Once the record is freed the stack never runs again, because only the record can resume it: page->stack is
 *    STACK_GONE from then on.
 * 3. A stack's end is never another object's start: large_new leaves a slice between them. Records hold the ends of
 *    their stacks. If such an address were the start of the next object, it would keep that object alive, and dead
 *    stacks would keep each other alive in a chain.
 * 4. If the record does not show which part is in use, the whole object is scanned. */
#include "gc.h"

_Static_assert(!GB_STACKS || GB_LINEAR, "a page has 32 bits for a record's place");

enum { STACK_GONE = 1 }; /* the record was freed; slice 0 has no objects, so no record is at 1 */

GB_NOINLINE void gb_stack_ends(const glebe_gc *gc, const gb_page *page, uintptr_t *low, uintptr_t *high)
{
    uintptr_t start = gb_page_start(page), end = start + page->step;
    *low = *high = start;
    if (page->stack == 0)
        return;
    const gb_stack *stack = (const gb_stack *)(gb_the.base + page->stack);
    if (gc->stack_pointer - start < end - start) /* it runs: no registers are saved */
        *high = gc->stack_pointer;
    else if (page->stack == STACK_GONE)
        *high = end;
    else if (stack->start == start && stack->low > start + sizeof start && stack->low <= stack->high
        && stack->high <= end) {
        *low = stack->low;
        *high = stack->high;
    }
}

void gb_stack_runs(const glebe_gc *gc, const gb_stack *stack)
{
    uintptr_t start;
    gb_page *page = gb_object_at(gc, stack->start, &start);
    if (page && page->kind == GB_COLLECTED_LARGE && start == stack->start)
        page->stack = (uint32_t)((uintptr_t)stack - gb_the.base);
}

void gb_stacks_swept(const glebe_gc *gc)
{
    uintptr_t start;
    for (gb_page *page = gb_list_first(&gc->large); page; page = gb_list_next(page))
        if (page->stack > STACK_GONE && !gb_object_at(gc, gb_the.base + page->stack, &start))
            page->stack = STACK_GONE;
}
