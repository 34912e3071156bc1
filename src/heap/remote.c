/* Remote frees. A thread that frees a block of another heap's page borrows it: its own next requests of the class get
 * it, and the page's owner need not know. Threads that share a cache, where each frees what others allocated, so
 * exchange blocks without a message. A heap borrows at most 64 blocks and 8 KB of a class between two refills of that
 * class. A borrowed block counts as out of its page, and pins it. So it returns to the page after many frees without a
 * refill, if the heap used none of the class for 16 ms, when the heap rests, and when the thread ends. Blocks of mixed
 * pages and of heaps with a limit are not borrowed.
 *
 * Beyond that, the thread first links blocks of one page in one of 8 slots. The list is sent to the page at 32 blocks,
 * when another page needs the slot, at a tick, and when the thread ends.
 *
 *     freeing thread                        page                      owner
 *     slot: a -> b -> c   --- one CAS --->  xfree = c..a, 3, QUEUED
 *                                             |
 *     if QUEUED was clear: push the page on   +--> heap->inbox  --->  swap the inbox for 0; per page, swap xfree for 0
 *
 * 1. Only the thread that sets QUEUED pushes the page, so a page is in one inbox at most. It is not pushed to the
 *    inbox of a dead heap: see 4.
 * 2. Only the thread that took the page out of the inbox clears QUEUED, by the same exchange that takes the list. It
 *    reads inbox_next before that, because afterwards the page may be pushed again. A page that the owner took out of
 *    the inbox and has not accepted yet is on heap->inbox_taken, and QUEUED.
 * 3. page->heap changes only in gb_page_reclaim, which holds QUEUED meanwhile. So a thread whose CAS set QUEUED
 *    reads the right heap, and a queued page is never reclaimed.
 * 4. Blocks in xfree count as out of the page, so a page with QUEUED set is never empty, and never returns to the
 *    arena. The exception is a page of a dead heap, whose thread did not survive fork. No thread accepts its remote
 *    frees. When the list holds all blocks of the page, the thread that sent the last one returns the page to the
 *    arena.
 * 5. WHOLE says that the list holds every block of the page. Then the purger may take the list in the owner's place,
 *    under the region's lock: it sets PURGED, purges the page, and no longer counts it as in use. When the owner
 *    next accepts the page it returns the page to the arena without touching its memory. If the host refuses to take
 *    the memory (locked memory), the purger clears PURGED again. An owner that saw PURGED meanwhile returns the page
 *    too, because all its blocks are free.
 *
 * Medium pages keep their free blocks as bits; only the count of freed blocks is sent (`notify` in place of xfree).
 * test/interleave runs this file under every interleaving of small cases. */
#include "heap.h"

_Static_assert(GB_PAGE_BLOCKS_MAX <= GB_XFREE_COUNT(UINT64_MAX), "xfree has room for each count");
_Static_assert(GB_PAGE_BLOCKS_MAX * 16 <= GB_XFREE_LAST(UINT64_MAX), "and for each offset, of blocks of 16 bytes too");

static void inbox_push(gb_page *page)
{
    glebe_heap *heap = gb_page_heap(page);
    uint32_t number = gb_page_id_of(page).n, first = gb_load_relaxed(&heap->inbox);
    do
        page->inbox_next.n = first;
    while (!gb_cas(&heap->inbox, &first, number));
}

bool gb_heap_dead(const gb_page *page)
{
    if (!gb_the.heaps_dead)
        return false;
    const glebe_heap *heap = gb_page_heap(page);
    return gb_load_relaxed(&heap->kind) == GB_HEAP_DEAD;
}

/* Reports a double free: the page was purged with all its blocks. The sender has written links into the page since,
 * so it may not be zero any more. */
GB_COLD static void send_refuse(gb_page *page, const gb_block *first)
{
    gb_lock_take(&gb_the.lock);
    if (gb_page_purged(page)) {
        gb_chunk *chunk = gb_chunk_of(gb_slice_of(page));
        chunk->dirty = gb_set_with(chunk->dirty, gb_set_range(gb_slice_of(page) % GB_CHUNK_SLICES, page->slices));
    }
    gb_lock_drop(&gb_the.lock);
    gb_report_address("free", first);
}

void gb_remote_send(gb_page *page, gb_block *first, gb_block *last, uint32_t count)
{
    uintptr_t start = gb_page_start(page);
    uint32_t all = page->cls == GB_MIXED ? UINT32_MAX : page->cap;
    bool dead = gb_heap_dead(page), whole; /* heaps stay dead, and their pages are never reclaimed */
    uint64_t before = gb_load_relaxed(&page->xfree), after;
    do {
        uint32_t head = GB_XFREE_FIRST(before);
        if (GB_UNLIKELY(before & GB_XFREE_PURGED)) {
            send_refuse(page, first);
            return;
        }
        gb_link_set(last, head ? (gb_block *)(start + head - 1) : NULL);
        whole = GB_XFREE_COUNT(before) + count == all;
        after = GB_XFREE_QUEUED | (whole ? GB_XFREE_WHOLE : 0)
            | (uint64_t)(GB_XFREE_COUNT(before) + count) << GB_XFREE_COUNT_SHIFT
            | (uint64_t)(head ? GB_XFREE_LAST(before) : (uint32_t)((uintptr_t)last - start)) << GB_XFREE_LAST_SHIFT
            | (uint32_t)((uintptr_t)first - start + 1);
    } while (!gb_cas(&page->xfree, &before, after));
    if (GB_UNLIKELY(dead)) { /* the sender of the last block returns the page: no other thread touches it */
        if (whole)
            gb_run_give(page);
        return;
    }
    if ((before & GB_XFREE_QUEUED) == 0)
        inbox_push(page);
    if (GB_UNLIKELY(whole))
        gb_purge_note(page); /* the owner may sleep */
}

void gb_remote_notify(gb_page *page)
{
    uint32_t before = gb_load_relaxed(&page->notify);
    while (!gb_cas(&page->notify, &before, (before + 1) | GB_NOTIFY_QUEUED))
        continue;
    if ((before & GB_NOTIFY_QUEUED) == 0)
        inbox_push(page);
}

/* Returns the last block of a list taken from xfree. The secure build looks for it: an overwritten link ends the list,
 * and *count becomes the length up to there. */
static gb_block *chain_last(gb_page *page, gb_block *first, uint64_t taken, uint32_t *count)
{
    if (!GB_SECURE)
        return (gb_block *)(gb_page_start(page) + GB_XFREE_LAST(taken));
    gb_block *last = first;
    uint32_t length = 1;
    for (gb_block *next = gb_link_next(page, last); next && length < *count; next = gb_link_next(page, last)) {
        last = next;
        length++;
    }
    *count = length;
    return last;
}

/* Puts a list taken from xfree on the page's own list, and counts its blocks. Owner. */
static void chain_accept(glebe_heap *heap, gb_page *page, uint64_t taken)
{
    uint32_t count = GB_XFREE_COUNT(taken);
    if (count == 0)
        return;
    gb_block *first = (gb_block *)(gb_page_start(page) + GB_XFREE_FIRST(taken) - 1);
    if (page->mark == GB_PARKED) {
        count = 0; /* a block that was free already does not count */
        for (gb_block *block = first, *next; block; block = next) {
            next = gb_link_get(block);
            count += gb_page_put(page, block);
        }
    } else {
        if (gb_page_list(page)) /* else the secure build does not walk either: links are checked at use */
            gb_link_set(chain_last(page, first, taken, &count), page->free);
        page->free = first;
    }
    gb_page_returned(heap, page, count);
}

/* Returns to the arena a page that the purger took. Only its entry was left to the owner. */
GB_COLD static void page_drop(glebe_heap *heap, gb_page *page)
{
    if (page->state == GB_FULL)
        gb_list_remove(&heap->full, page);
    else if (page->state == GB_CURRENT)
        heap->current[page->cls] = GB_NO_PAGE;
    else if (page->kind == GB_SMALL)
        gb_avail_remove(heap, page);
    else
        gb_list_remove(&heap->avail[page->cls], page);
    heap->class_slices[page->cls] -= page->slices;
    heap->small_bytes -= page->kind == GB_SMALL ? gb_page_bytes(page) : 0;
    gb_run_give(page);
}

static void small_accept(glebe_heap *heap, gb_page *page)
{
    uint64_t taken = gb_load(&page->xfree);
    while (!(taken & GB_XFREE_PURGED) && !gb_cas(&page->xfree, &taken, 0))
        continue;
    if (GB_LIKELY((taken & GB_XFREE_PURGED) == 0))
        chain_accept(heap, page, taken);
    else
        page_drop(heap, page);
}

static void medium_accept(glebe_heap *heap, gb_page *page)
{
    uint32_t taken = gb_load(&page->notify), count;
    while (!gb_cas(&page->notify, &taken, taken & GB_NOTIFY_PURGED ? taken & ~GB_NOTIFY_QUEUED : 0))
        continue;
    count = GB_NOTIFY_COUNT(taken);
    if (GB_LIKELY((taken & GB_NOTIFY_PURGED) == 0)) {
        if (count)
            gb_medium_returned(heap, page, count);
    } else if (count == (uint32_t)page->out)
        /* else a thread freed a block and has not counted it yet: that thread will queue the page */
        page_drop(heap, page);
}

void gb_page_accept(glebe_heap *heap, gb_page *page)
{
    if (page->kind == GB_SMALL)
        small_accept(heap, page);
    else
        medium_accept(heap, page);
}

bool gb_small_claim_whole(gb_page *page, bool only_seen)
{
    uint64_t found = gb_load(&page->xfree), then;
    do {
        if ((found & GB_XFREE_WHOLE) == 0 || (found & GB_XFREE_PURGED))
            return false;
        then = found | (only_seen && !(found & GB_XFREE_SEEN) ? GB_XFREE_SEEN : GB_XFREE_PURGED);
    } while (!gb_cas(&page->xfree, &found, then));
    return (then & GB_XFREE_PURGED) != 0;
}

bool gb_medium_claim_whole(gb_page *page)
{
    uint32_t found = gb_load(&page->notify);
    while (found & GB_NOTIFY_QUEUED)
        if (gb_cas(&page->notify, &found, found | GB_NOTIFY_PURGED))
            return true;
    return false;
}

void gb_page_unclaim(gb_page *page)
{
    if (page->kind == GB_SMALL)
        gb_and(&page->xfree, ~GB_XFREE_PURGED);
    else
        gb_and(&page->notify, ~GB_NOTIFY_PURGED);
}

/* Accepts up to `pages` pages. Takes the inbox once at most. */
static bool inbox_drain(glebe_heap *heap, uint32_t pages)
{
    bool any = false, emptied = false;
    for (; pages > 0; pages--) {
        if (!heap->inbox_taken.n && !emptied) {
            heap->inbox_taken.n = gb_swap(&heap->inbox, 0);
            emptied = true;
        }
        gb_page *page = gb_page_if(heap->inbox_taken);
        if (!page)
            break;
        heap->inbox_taken = page->inbox_next;
        gb_page_accept(heap, page);
        any = true;
    }
    return any;
}

bool gb_inbox_drain(glebe_heap *heap)
{
    return inbox_drain(heap, UINT32_MAX);
}

void gb_inbox_drain_some(glebe_heap *heap)
{
    enum { PAGES = 256 }; /* 25 to 180 us */
    inbox_drain(heap, PAGES);
}

/* Rewrites the slice table's entries of the page while other threads may free its blocks. Before and after, these
 * threads read an owner that is not theirs. So they come to this file, find QUEUED set, and leave the list to the
 * new owner. */
bool gb_page_reclaim(glebe_heap *to, gb_page *page)
{
    uint64_t idle = 0;
    uint32_t quiet = 0;
    bool small = page->kind == GB_SMALL;
    if (small ? !gb_cas(&page->xfree, &idle, GB_XFREE_QUEUED) : !gb_cas(&page->notify, &quiet, GB_NOTIFY_QUEUED))
        return false;
    gb_store_relaxed(&page->heap, to->number.n);
    if (small)
        gb_page_own(page, (uintptr_t)to);
    return true;
}

/* ---- the slots ---- */

static void slot_flush(gb_remote *slot)
{
    if (slot->page.n)
        gb_remote_send(gb_page_at(slot->page), slot->first, slot->last, slot->count);
    slot->page = GB_NO_PAGE;
}

void gb_remote_flush(glebe_heap *from)
{
    for (uint32_t i = 0; i < GB_REMOTE_SLOTS; i++)
        slot_flush(&from->remote[i]);
}

/* Puts the block into the slot of its page. */
static void slot_put(glebe_heap *from, gb_page *page, gb_block *block)
{
    gb_page_id id = gb_page_id_of(page);
    gb_remote *slot = &from->remote[id.n % GB_REMOTE_SLOTS];
    if (slot->page.n != id.n) {
        slot_flush(slot);
        slot->page = id;
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

/* ---- borrowed blocks ---- */

static bool borrowed_return(glebe_heap *heap, gb_borrowed *borrowed)
{
    bool any = borrowed->first;
    while (borrowed->first) {
        gb_block *block = borrowed->first;
        borrowed->first = gb_link_get(block);
        slot_put(heap, gb_page_head(gb_page_entry(block)), block);
    }
    return any;
}

/* Returns whether a heap that has borrowed `count` blocks of a class may borrow one more. */
static bool borrows_more(uint32_t count, uint32_t bytes)
{
    return count < GB_BORROWED_BLOCKS && (count + 1) * bytes <= GB_BORROWED_BYTES;
}

/* Keeps the block for this thread's next requests of its class. It still counts as out of its page. Each block pins
 * its page, so only a heap that allocates in this class borrows. Many frees without a request in between mean that
 * it does so no more: it returns what it has. A page whose heap has a limit of its own gets all its blocks back. */
static bool borrow(glebe_heap *heap, const gb_page *page, gb_block *block)
{
    enum { TOO_MANY = 4 };
    if (!GB_BORROWS || page->cls == GB_MIXED)
        return false;
    gb_borrowed *borrowed = &heap->borrowed[page->cls];
    uint32_t bytes = gb_classes[page->cls].bytes;
    if (!borrows_more(borrowed->frees / TOO_MANY, bytes))
        return false;
    if (heap->class_slices[page->cls] == 0 || heap->kind != GB_HEAP_THREAD
        || __atomic_load_n(&gb_page_heap(page)->limit_bytes, __ATOMIC_RELAXED))
        return false;
    if (borrows_more(borrowed->frees++, bytes)) {
        gb_link_set(block, borrowed->first);
        borrowed->first = block;
        return true;
    }
    if (!borrows_more(borrowed->frees / TOO_MANY, bytes))
        borrowed_return(heap, borrowed);
    return false;
}

void *gb_borrowed_take(glebe_heap *heap, uint32_t cls, bool one)
{
    gb_borrowed *borrowed = &heap->borrowed[cls];
    gb_block *block = borrowed->first;
    borrowed->first = one ? gb_link_get(block) : NULL;
    borrowed->frees = one ? borrowed->frees : 0;
    borrowed->used = true;
    if (one)
        gb_link_set(block, NULL);
    return gb_hand_out(heap, cls, block);
}

void gb_borrowed_return(glebe_heap *heap, bool idle)
{
    bool any = false;
    for (uint32_t cls = 0; cls < GB_BORROWED_CLASSES; cls++) {
        gb_borrowed *borrowed = &heap->borrowed[cls];
        if (!(idle && borrowed->used)) {
            any |= borrowed_return(heap, borrowed);
            borrowed->frees = 0;
        }
        borrowed->used = false;
    }
    if (any)
        gb_remote_flush(heap);
}

/* Frees of blocks in the program's own heaps bypass the slots: the program may destroy such a heap as soon as free
 * has returned. A thread without a heap has no slots. A sampled block returns to its page at once. */
void gb_remote_free(glebe_heap *from, gb_page *page, gb_block *block)
{
    if (GB_BORROWS && GB_UNLIKELY(gb_load_relaxed(&page->xfree) & (GB_XFREE_WHOLE | GB_XFREE_PURGED))) {
        gb_report_address("free", block); /* all blocks of the page are free: it must not be handed out again */
        return;
    }
    if (from->number.n == 0 || gb_load_relaxed(&gb_page_heap(page)->kind) >= GB_HEAP_OWNED) {
        if (GB_SAMPLES && gb_sample_owns(gb_load_relaxed(&page->heap)))
            gb_sample_returned(page, block);
        else
            gb_remote_send(page, block, block, 1);
    } else if (!borrow(from, page, block))
        slot_put(from, page, block);
}
