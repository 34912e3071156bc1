/* Whether a block that looks free is free. Only where links have marks (GB_MARKS_LINKS).
 *
 * A free block has a mark in the byte before its link, and malloc clears both when it hands the block out. So free()
 * looks at one byte. Without the mark the block is in use. With it, the block is free already, or the program wrote
 * such a byte: then the link, decoded, is hardly ever an address of the region or the end of a list. If it is, the
 * lists where the block could be are walked: what is not on one of them is in use, whatever its bytes say.
 *
 * Copies of old links may lead there often, and a walk waits for memory at each step. So a list that may be long is
 * walked only if the block begins it, or if another block of the page has a link to this one. To find that link, the
 * page is read in the order of memory, many times as fast as a walk. */
#include "heap.h"

/* Returns whether one of the first blocks of the list is this one. A list that the program damaged may lead anywhere:
 * the walk ends there. */
static bool list_has(const gb_block *list, const gb_block *block, uint32_t most)
{
    for (; list && most-- > 0; list = gb_link_get(list)) {
        if (list == block)
            return true;
        const gb_page *entry = gb_page_entry(list);
        if (!entry || entry->kind != GB_SMALL || (uintptr_t)list % sizeof(void *) != 0)
            break;
    }
    return false;
}

/* Returns whether the list of a slot for remote frees has the block. */
static bool slots_have(const glebe_heap *heap, const gb_page *page, const gb_block *block)
{
    for (uint32_t i = 0; i < GB_REMOTE_SLOTS; i++) {
        const gb_remote *slot = &heap->remote[i];
        if (slot->page.n == gb_page_id_of(page).n && list_has(slot->first, block, slot->count))
            return true;
    }
    return false;
}

/* Returns whether the page has a word, where links are, that leads to the block. Other threads may write to blocks in
 * use meanwhile. */
static __attribute__((no_sanitize_thread)) bool page_links(const gb_page *page, const gb_block *block)
{
    bool mixed = page->cls == GB_MIXED;
    size_t step = mixed ? 16 : gb_classes[page->cls].bytes, bytes = mixed ? gb_page_bytes(page) : page->bump * step;
    uintptr_t link = gb_link_coded((uintptr_t)block), start = gb_page_start(page), found = 0;
    for (uintptr_t at = start; at < start + bytes; at += step)
        found |= ((const gb_block *)at)->words[GB_LINK_AT / sizeof(void *)] == link;
    return found;
}

bool gb_block_listed(const gb_page *page, const gb_block *block)
{
    const gb_block *next = gb_link_whole(block);
    if ((uintptr_t)next != gb_the.end && !gb_page_entry(next))
        return false;
    const glebe_heap *heap = gb_self;
    uint32_t cls = gb_page_locate(page, (uintptr_t)block - gb_page_start(page)).cls;
    if (cls >= GB_SMALL_CLASSES)
        return false;
    const gb_block *front = gb_block_or_null(heap->front[cls]);
    if (list_has(front, block, GB_BORROWED_BLOCKS)) /* the front may be blocks that were borrowed, of any page */
        return true;
    if (GB_BORROWS && list_has(heap->borrowed[cls].first, block, GB_BORROWED_BLOCKS))
        return true;
    if (!gb_heap_owns(heap, page))
        return slots_have(heap, page, block);
    uint32_t sent = GB_XFREE_FIRST(gb_load(&page->xfree)); /* others only push, so the list behind is stable */
    const gb_block *remote = sent ? (const gb_block *)(gb_page_start(page) + sent - 1) : NULL;
    if (page->free != block && remote != block && !page_links(page, block))
        return false;
    return list_has(front, block, GB_PAGE_BLOCKS_MAX) || list_has(gb_page_list(page), block, GB_PAGE_BLOCKS_MAX)
        || list_has(remote, block, GB_PAGE_BLOCKS_MAX);
}

void gb_free_suspect(gb_block *block, gb_page *page, const char *call)
{
    if (gb_block_listed(page, block)) {
        gb_report_address(call, block);
        return;
    }
    gb_page_freed(page, block);
}
