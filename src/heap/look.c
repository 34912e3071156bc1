/* When to search a small page for holes. Owner only.
 *
 * An AVAIL page counts down to a mark: a number of blocks in use, stored in `mark` as GB_MARKS-ths of the page, + 1.
 * With the background thread the first mark is an eighth. A page that reaches a mark is searched at once and gets a
 * lower mark, because the program may sleep and never call malloc again. Without the background thread a page that
 * reaches its mark gets GB_UNLOOKED, and the heap searches such pages one by one while it rests (retain.c). */
#include "heap.h"

/* Sets `left` to count down from `out` blocks in use to `share` GB_MARKS-ths of the page. If `out` is at most that,
 * it counts down to an empty page. */
static void page_count_down(gb_page *page, uint32_t out, uint32_t share)
{
    page->mark = (uint8_t)(page->cap * share / GB_MARKS < out ? share + 1 : 1);
    page->left = (int32_t)(out - gb_page_mark(page));
}

void gb_page_mark_first(gb_page *page, uint32_t out)
{
    page_count_down(page, out, GB_MARKS / 8);
}

/* The secure build walks pages instead of parking them: it would have to verify several lists per page. A block of 24,
 * 40 or 56 bytes may begin in one unit and have its link in the next, and a parked page purges that one if it is a
 * hole. */
static bool page_may_park(const gb_page *page)
{
    bool whole_links = GB_LINK_AT == 0 || gb_classes[page->cls].shift > 3;
    return !GB_SECURE && page->bump == page->cap && page->slices == GB_BIG_PAGE_SLICES
        && gb_the.page_bytes <= GB_UNIT_BYTES && whole_links;
}

void gb_page_mark_reached(glebe_heap *heap, gb_page *page, uint32_t coming)
{
    uint32_t out = gb_page_mark(page);
    if (!gb_the.options.background) {
        gb_avail_remove(heap, page);
        page->mark = GB_UNLOOKED;
        page->left = (int32_t)out;
        gb_avail_add(heap, page);
        return;
    }
    bool pays = gb_bounds_look(heap), park = pays && page_may_park(page);
    uint32_t lost = pays && !park ? gb_page_trim(page, coming, false) : 0;
    page_count_down(page, out + (GB_SECURE ? lost : 0), park ? 0 : (page->mark - 1u) / 2);
    if (park)
        gb_page_park(page);
}

/* Finds holes in a page on an AVAIL list, and purges them `now` or when they are due. The next mark is one
 * GB_MARKS-th lower. */
static void avail_look(glebe_heap *heap, gb_page *page, bool now)
{
    uint32_t lost = gb_page_trim(page, 0, now), out = gb_page_out(page) + (GB_SECURE ? lost : 0);
    heap->unlooked[page->cls] -= page->mark == GB_UNLOOKED;
    page_count_down(page, out, (out - 1) * GB_MARKS / page->cap);
}

bool gb_heap_look(glebe_heap *heap)
{
    /* what a step may spend: BLOCKS, or GB_STEP_CYCLES if memory is slow. It ends the page that it began */
    enum { BLOCKS = 16384, PER_PAGE = 64 };
    uint32_t walked = 0;
    uint64_t begun = gb_cycles();
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++)
        while (heap->unlooked[cls]) {
            gb_page *page = gb_page_at(heap->avail[cls].last);
            if (walked >= BLOCKS || gb_cycles() - begun > GB_STEP_CYCLES)
                return true;
            walked += PER_PAGE;
            gb_list_remove(&heap->avail[cls], page); /* searched pages move to the front */
            gb_list_push_first(&heap->avail[cls], page);
            if (page->mark == GB_UNLOOKED && page->left > 0) {
                walked += page->cap;
                avail_look(heap, page, true);
            } else if (page->mark == GB_UNLOOKED) { /* empty: the only page of its class with free blocks */
                gb_avail_remove(heap, page);
                gb_page_give(heap, page);
            }
        }
    return false;
}

void gb_heap_look_all(glebe_heap *heap)
{
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++) {
        gb_page *page = gb_page_if(heap->current[cls]);
        uint32_t lost = page ? gb_page_trim(page, 0, false) : 0;
        if (GB_SECURE && lost)
            page->left += (int32_t)lost;
        for (gb_page *next = gb_list_first(&heap->avail[cls]); (page = next) != NULL;) {
            next = gb_list_next(page);
            if (page->mark != GB_PARKED)
                avail_look(heap, page, false);
        }
    }
}
