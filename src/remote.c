/* Frees across threads. A thread that frees a block of another heap's page chains it up with others of that page in one of 8
 * slots; the chain goes home at 32 blocks, at 64 KiB, when another page wants the slot, at a tick, and when the thread ends.
 *
 *     freeing thread                        page                      owner
 *     slot: a -> b -> c   --- one CAS --->  xfree = c b a, 3, QUEUED
 *                                             |
 *     if QUEUED was clear: push the page on   +--> heap->inbox  --->  swap the inbox for 0; for each page, swap xfree for 0
 *
 * 1. Whoever sets QUEUED pushes the page, and nobody else: a page is in one inbox at most. (Not to that of a dead heap: see 4.)
 * 2. Only whoever took the page out of the inbox clears QUEUED, by the same exchange that takes the chain. inbox_next is read
 *    before that: afterwards the page may be pushed again.
 * 3. page->heap changes only in gb_page_steal, which holds QUEUED while it does. So after the CAS that set QUEUED the heap that
 *    is read is the right one, and a page that is queued is not stolen.
 * 4. Blocks in xfree count as out of the page, so a page with QUEUED set is never empty, and never given back: but for pages of
 *    a heap whose thread a fork left behind. Nobody drains these; when the chain holds all blocks, who sent the last gives back.
 *
 * Medium pages have their bits; only the count of what came home takes this way (`notify` in place of xfree).
 * test/interleave runs this file under every interleaving of small cases. */
#include "core.h"

static void inbox_push(gb_page *page)
{
    glebe_heap *heap = gb_heap_at(gb_load_relaxed(&page->heap));
    uint32_t number = gb_page_number(page), first = gb_load_relaxed(&heap->inbox);
    do
        page->inbox_next = first;
    while (!gb_cas(&heap->inbox, &first, number));
}

bool gb_heap_dead(const gb_page *page)
{
    if (!gb_the.heaps_dead)
        return false;
    const glebe_heap *heap = gb_heap_at(gb_load_relaxed(&page->heap));
    return gb_load_relaxed(&heap->kind) == GB_HEAP_DEAD;
}

void gb_remote_send(gb_page *page, gb_block *first, gb_block *last, uint32_t count)
{
    uintptr_t start = gb_page_start(page);
    uint32_t all = !gb_heap_dead(page) ? 0 : page->cls == GB_MIXED ? UINT32_MAX : page->cap; /* such pages are never stolen, and heaps stay dead */
    uint64_t before = gb_load_relaxed(&page->xfree), after;
    do {
        uint32_t head = GB_XFREE_FIRST(before);
        gb_link_set(last, head ? (gb_block *)(start + head - 1) : NULL);
        after = GB_XFREE_QUEUED | (uint64_t)(GB_XFREE_COUNT(before) + count) << GB_XFREE_COUNT_SHIFT
            | (uint32_t)((uintptr_t)first - start + 1);
    } while (!gb_cas(&page->xfree, &before, after));
    if (GB_UNLIKELY(all)) { /* whoever sends the last may give the page back at once: nothing else touches it */
        if (GB_XFREE_COUNT(after) == all)
            gb_run_give(page);
    } else if ((before & GB_XFREE_QUEUED) == 0)
        inbox_push(page);
}

void gb_remote_notify(gb_page *page)
{
    uint32_t before = gb_load_relaxed(&page->notify);
    while (!gb_cas(&page->notify, &before, (before + 1) | GB_NOTIFY_QUEUED))
        continue;
    if ((before & GB_NOTIFY_QUEUED) == 0)
        inbox_push(page);
}

/* The last block of a chain of *count. In the secure build a link that was written over ends it, and *count says where. */
static gb_block *chain_last(gb_page *page, gb_block *first, uint32_t *count)
{
    gb_block *last = first;
    uint32_t length = 1;
    for (gb_block *next = gb_link_next(page, last); next && (!GB_SECURE || length < *count); next = gb_link_next(page, last)) {
        last = next;
        length++;
    }
    if (GB_SECURE)
        *count = length;
    return last;
}

/* Puts a chain of `count` blocks, taken from xfree, on the page's own list. Owner. */
static void chain_accept(glebe_heap *heap, gb_page *page, uint64_t taken)
{
    uint32_t count = GB_XFREE_COUNT(taken);
    if (count == 0)
        return;
    gb_block *first = (gb_block *)(gb_page_start(page) + GB_XFREE_FIRST(taken) - 1);
    if (page->flags == GB_PARKED) {
        count = 0; /* a block that was freed before does not count */
        for (gb_block *block = first, *next; block; block = next) {
            next = gb_link_get(block);
            count += gb_page_put(page, block);
        }
    } else {
        if (page->free) /* else it is looked at when it is used */
            gb_link_set(chain_last(page, first, &count), page->free);
        page->free = first;
    }
    gb_page_returned(heap, page, count);
}

void gb_page_accept(glebe_heap *heap, gb_page *page)
{
    if (page->kind == GB_SMALL)
        chain_accept(heap, page, gb_swap(&page->xfree, 0));
    else {
        uint32_t count = gb_swap(&page->notify, 0) & ~GB_NOTIFY_QUEUED;
        if (count)
            gb_medium_returned(heap, page, count);
    }
}

bool gb_inbox_drain(glebe_heap *heap)
{
    uint32_t number = gb_swap(&heap->inbox, 0);
    bool any = number != 0;
    while (number) {
        gb_page *page = gb_page_at(number);
        number = page->inbox_next;
        gb_page_accept(heap, page);
    }
    return any;
}

/* The slice table's entries of a stolen page are rewritten while other threads may free its blocks: they read an owner that is
 * not theirs before and after, so they come here, find QUEUED set, and leave the chain for the thief. */
bool gb_page_steal(glebe_heap *thief, gb_page *page)
{
    uint64_t idle = 0;
    uint32_t quiet = 0;
    bool small = page->kind == GB_SMALL;
    if (small ? !gb_cas(&page->xfree, &idle, GB_XFREE_QUEUED) : !gb_cas(&page->notify, &quiet, GB_NOTIFY_QUEUED))
        return false;
    gb_store_relaxed(&page->heap, thief->number);
    if (small)
        gb_page_own(page, (uintptr_t)thief);
    return true;
}

/* ---- the slots ---- */

static void slot_flush(gb_remote *slot)
{
    if (slot->page)
        gb_remote_send(gb_page_at(slot->page), slot->first, slot->last, slot->count);
    slot->page = 0;
}

void gb_remote_flush(glebe_heap *from)
{
    for (uint32_t i = 0; i < GB_REMOTE_SLOTS; i++)
        slot_flush(&from->remote[i]);
}

/* Pages of the program's own heaps bypass the slots: such a heap may be destroyed as soon as its blocks' frees returned. A
 * thread without a heap has no slots. */
void gb_remote_free(glebe_heap *from, gb_page *page, gb_block *block)
{
    uint32_t number = gb_page_number(page);
    if (from->number == 0 || gb_load_relaxed(&gb_heap_at(gb_load_relaxed(&page->heap))->kind) == GB_HEAP_OWNED) {
        gb_remote_send(page, block, block, 1);
        return;
    }
    gb_remote *slot = &from->remote[number % GB_REMOTE_SLOTS];
    if (slot->page != number) {
        slot_flush(slot);
        slot->page = number;
        slot->first = slot->last = block;
        slot->count = 1;
        gb_link_set(block, NULL);
        return;
    }
    gb_link_set(block, slot->first);
    slot->first = block;
    if (++slot->count >= GB_REMOTE_BLOCKS)
        slot_flush(slot);
}
