/* Medium pages: up to 32 blocks of 2 to 64 KiB. A word of bits in the page's entry says which blocks are free. So a
 * free block holds no link, and any thread may purge its memory at any time, without the owner:
 *
 *     bits    1 free              cleared by the owner, and by the purger while it purges; set by the freeing thread
 *     dirty   1 in use since it was last known to be zero       calloc clears only what it must
 *     idle    1 free since the purger's last visit
 *
 * Only the page's owner allocates, and keeps the count `out` of blocks. `notify` counts the frees of other threads,
 * which reach the owner through its inbox (remote.c). The current page and the list of AVAIL pages work as in
 * page.c. */
#include "heap.h"

static gb_page *medium_fresh(glebe_heap *heap, uint32_t cls)
{
    bool zero;
    gb_page *page = gb_page_run(heap, GB_MEDIUM, cls, &zero);
    if (!page)
        return NULL;
    heap->class_slices[cls] += page->slices;
    page->cls = (uint8_t)cls;
    page->cap = page->bump = (uint16_t)(gb_page_bytes(page) / gb_classes[cls].bytes);
    if (GB_SECURE) {
        if (!zero)
            gb_secure_medium_taken(page);
        page->lazy = 0; /* it is `blank` no more */
        zero = true;
    }
    gb_store_relaxed(&page->dirty, zero ? 0 : gb_medium_all(page));
    gb_store(&page->bits, gb_medium_all(page)); /* last: from here on the purger may look */
    return page;
}

static void medium_give(glebe_heap *heap, gb_page *page)
{
    heap->class_slices[page->cls] -= page->slices;
    if (GB_SECURE)
        gb_secure_medium_give(page);
    gb_run_give(page);
}

static gb_page *medium_next(glebe_heap *heap, uint32_t cls)
{
    if (gb_inbox_filled(heap))
        gb_inbox_drain_some(heap);
    if (!heap->avail[cls].first.n && gb_load_relaxed(&gb_the.abandoned.first))
        gb_abandoned_reclaim(heap, cls);
    gb_page *page = gb_list_first(&heap->avail[cls]);
    if (!page)
        return medium_fresh(heap, cls);
    gb_list_remove(&heap->avail[cls], page);
    return page;
}

/* Returns the number of one of the bits, which nobody can guess. */
static unsigned bit_chosen(uint32_t bits)
{
    static _Atomic uint64_t chance; /* two threads may draw the same number */
    uint64_t state = gb_load_relaxed(&chance);
    state = state ? state : gb_port_random();
    uint32_t skip = gb_drawn(&state) % gb_popcount32(bits);
    gb_store_relaxed(&chance, state);
    for (; skip > 0; skip--)
        bits &= bits - 1;
    return gb_ctz32(bits);
}

/* Claims the lowest free block, so that pages fill from the front and their ends stay untouched; in the secure build
 * any. Returns -1 if there is none. */
static int medium_claim(gb_page *page)
{
    for (uint32_t bits; (bits = gb_load_relaxed(&page->bits)) != 0;) {
        unsigned index = GB_SECURE ? bit_chosen(bits) : gb_ctz32(bits);
        if (GB_LIKELY(gb_and(&page->bits, ~((uint32_t)1 << index)) & (uint32_t)1 << index))
            return (int)index;
    }
    return -1;
}

/* Finds the next page to claim from, after the current one had no block. Returns false if there is no memory. */
static bool medium_refill(glebe_heap *heap, uint32_t cls)
{
    gb_page *page = gb_page_if(heap->current[cls]);
    /* The purger has claimed the page's free blocks: wait until it returns them. A FULL page with free blocks would not
     * leave the full list before another of its blocks is freed. */
    if (page && page->out < page->cap && !gb_page_purged(page)) {
        gb_lock_take(&gb_the.lock);
        gb_lock_drop(&gb_the.lock);
        return true;
    }
    if (page) {
        page->state = GB_FULL;
        gb_list_push_last(&heap->full, page);
        heap->current[cls] = GB_NO_PAGE;
    }
    page = medium_next(heap, cls);
    if (!page)
        return false;
    page->state = GB_CURRENT;
    heap->current[cls] = gb_page_id_of(page);
    return true;
}

void *gb_medium_claim(glebe_heap *heap, gb_request *request)
{
    uint32_t cls = request->cls;
    gb_page *page = gb_page_if(heap->current[cls]);
    int index = page ? medium_claim(page) : -1;
    if (GB_UNLIKELY(index < 0))
        return NULL;
    uint32_t bit = (uint32_t)1 << index;
    page->out++;
    bool clean = (gb_load_relaxed(&page->dirty) & bit) == 0;
    if (clean)
        gb_or(&page->dirty, bit);
    if (gb_load_relaxed(&page->idle) & bit)
        gb_and(&page->idle, ~bit);
    request->dirty = clean ? 0 : gb_classes[cls].bytes;
    void *block = (void *)(gb_page_start(page) + (size_t)index * gb_classes[cls].bytes);
    if (GB_SECURE) {
        heap->watched[0] = block;
        if (!clean && gb_secure_level() > 1) {
            gb_secure_medium_out(page, block);
            request->dirty = 0;
        }
    }
    return block;
}

void *gb_medium_source(glebe_heap *heap, gb_request *request)
{
    void *block;
    do
        block = gb_medium_claim(heap, request);
    while (!block && medium_refill(heap, request->cls));
    return block;
}

/* Frees a block of a page whose owner did not survive fork. The thread that frees the last block returns the page to
 * the arena; only one thread sees the bits complete. Takes the lock, because the purger may hold bits of other
 * blocks. */
static void medium_return_dead(gb_page *page, uint32_t bit)
{
    gb_lock_take(&gb_the.lock);
    bool whole = (gb_or(&page->bits, bit) | bit) == gb_medium_all(page);
    gb_purge_queue(gb_chunk_of(gb_slice_of(page)));
    gb_lock_drop(&gb_the.lock);
    if (whole)
        gb_run_give(page);
}

bool gb_medium_return(glebe_heap *self, gb_page *page, void *block)
{
    uint32_t index, cls = page->cls;
    glebe_heap *heap = gb_page_heap(page);
    if (!gb_class_exact(cls, (uintptr_t)block - gb_page_start(page), &index) || index >= page->cap
        || (gb_load_relaxed(&page->bits) >> index & 1) || gb_page_purged(page)
        || (heap == self && heap->warm[cls - GB_SMALL_CLASSES] == block))
        return false;
    if (GB_UNLIKELY(heap != self && gb_heap_dead(page))) {
        medium_return_dead(page, (uint32_t)1 << index);
        return true;
    }
    gb_or(&page->bits, (uint32_t)1 << index);
    gb_purge_note(page);
    if (GB_LIKELY(heap == self))
        gb_medium_returned(heap, page, 1);
    else
        gb_remote_notify(page);
    return true;
}

void gb_medium_returned(glebe_heap *heap, gb_page *page, uint32_t count)
{
    page->out -= (int32_t)count;
    if (page->state == GB_FULL) {
        gb_list_remove(&heap->full, page);
        page->state = GB_AVAIL;
        gb_list_push_last(&heap->avail[page->cls], page);
    }
    if (page->out > 0 || (gb_classes[page->cls].bytes <= GB_SLICE_BYTES && page->state == GB_CURRENT))
        return;
    if (page->state == GB_CURRENT)
        heap->current[page->cls] = GB_NO_PAGE;
    else
        gb_list_remove(&heap->avail[page->cls], page);
    medium_give(heap, page); /* empty: its memory may serve another class */
}

void gb_medium_trim(glebe_heap *heap)
{
    gb_heap_cool(heap);
    for (uint32_t cls = GB_SMALL_CLASSES; cls < GB_CLASSES; cls++) {
        gb_page *page = gb_page_if(heap->current[cls]);
        if (page && page->out == 0) {
            heap->current[cls] = GB_NO_PAGE;
            medium_give(heap, page);
        }
    }
}

void gb_medium_settle(glebe_heap *heap)
{
    gb_medium_trim(heap);
    for (uint32_t cls = GB_SMALL_CLASSES; cls < GB_CLASSES; cls++) {
        gb_page *page = gb_page_if(heap->current[cls]);
        if (page) {
            page->state = GB_AVAIL;
            gb_list_push_last(&heap->avail[cls], page);
            heap->current[cls] = GB_NO_PAGE;
        }
    }
}
