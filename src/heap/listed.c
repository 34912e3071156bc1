/* Whether a block that looks free is free. Only where links have marks (GB_MARKS_LINKS).
 *
 * The link of a free block has a mark in its top byte, and malloc clears the link when it hands the block out. So
 * free() looks at one byte. Without the mark the block is in use. With it, the block is free already, or the program
 * wrote such a byte: then the link, decoded, is hardly ever an address of the region. If it is, or is null, the
 * lists where the block could be are walked: what is not on one of them is in use, whatever its bytes say. */
#include "heap.h"

/* Walks cost time, and what a program writes decides about them: copies of one old link could make each free walk whole
 * lists. So a thread has a credit of steps. A walk in vain spends it, and each question adds LISTED_STEPS to it. A
 * thread without credit walks no further: it takes the block for one in use. */
enum { LISTED_STEPS = 16, LISTED_CREDIT = 4 * GB_PAGE_BLOCKS_MAX };
static GB_TLS uint32_t listed_spent;

/* Returns whether the list has the block. A list that the program damaged may lead anywhere: the walk ends there. */
static bool list_has(const gb_block *list, const gb_block *block)
{
    for (uint32_t n = 0; list && n < GB_PAGE_BLOCKS_MAX; n++, list = gb_link_get(list)) {
        if (listed_spent >= LISTED_CREDIT)
            break;
        if (list == block)
            return true;
        const gb_page *entry = gb_page_entry(list);
        if (!entry || entry->kind != GB_SMALL || (uintptr_t)list % sizeof(void *) != 0)
            break;
        listed_spent++;
    }
    return false;
}

/* Returns whether the list of a slot for remote frees has the block. */
static bool slots_have(const glebe_heap *heap, const gb_page *page, const gb_block *block)
{
    for (uint32_t i = 0; i < GB_REMOTE_SLOTS; i++) {
        const gb_remote *slot = &heap->remote[i];
        if (slot->page.n == gb_page_id_of(page).n && list_has(slot->first, block))
            return true;
    }
    return false;
}

bool gb_block_listed(const gb_page *page, const gb_block *block)
{
    const gb_block *next = gb_link_get(block);
    if (next && !gb_page_entry(next))
        return false;
    listed_spent -= listed_spent < LISTED_STEPS ? listed_spent : LISTED_STEPS;
    const glebe_heap *heap = gb_self;
    uint32_t cls = gb_page_locate(page, (uintptr_t)block - gb_page_start(page)).cls;
    if (cls >= GB_SMALL_CLASSES)
        return false;
    if (list_has(heap->front[cls], block) || (GB_BORROWS && list_has(heap->borrowed[cls].first, block)))
        return true;
    if (!gb_heap_owns(heap, page))
        return slots_have(heap, page, block);
    uint32_t sent = GB_XFREE_FIRST(gb_load(&page->xfree)); /* others only push, so the list behind is stable */
    return list_has(page->free, block) || (sent && list_has((gb_block *)(gb_page_start(page) + sent - 1), block));
}

void gb_free_suspect(gb_block *block, gb_page *page, const char *call)
{
    if (gb_block_listed(page, block)) {
        gb_report_address(call, block);
        return;
    }
    gb_page_freed(page, block);
}
