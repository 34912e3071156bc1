/* The public functions on heaps, and giving memory back. The malloc family's twins are in api.c. */

#include "alloc.h"

enum { HEAP_CREDIT = 4096 }; /* sized frees until the fronts go home */

/* The heap that a public function was handed: NULL is the calling thread's. */
static glebe_heap *heap_or_self(glebe_heap *heap)
{
    return heap ? heap : gb_self;
}

glebe_heap *glebe_heap_create(size_t limit_bytes)
{
    GB_ENTRY;
    glebe_heap *heap = gb_heap_new(GB_HEAP_OWNED);
    if (!heap)
        return gb_out_of_memory();
    heap->limit_bytes = limit_bytes;
    heap->credit = HEAP_CREDIT;
    return heap;
}

static void list_give(gb_list *list)
{
    while (list->first) {
        gb_page *page = gb_page_at(list->first);
        gb_list_remove(list, page);
        gb_run_give(page);
    }
}

void glebe_heap_destroy(glebe_heap *heap)
{
    GB_ENTRY;
    if (!heap)
        return;
    if (heap->kind != GB_HEAP_OWNED) {
        gb_report("glebe_heap_destroy", heap, "not a heap from glebe_heap_create, or destroyed already");
        return;
    }
    for (uint32_t cls = 0; cls < GB_CLASSES; cls++) {
        if (heap->current[cls])
            gb_run_give(gb_page_at(heap->current[cls]));
        list_give(&heap->avail[cls]);
        if (gb_class_is_small(cls))
            list_give(&heap->spare[cls]);
    }
    list_give(&heap->full);
    while (heap->large.first)
        gb_run_give(gb_page_at(heap->large.first));
    while (heap->huge)
        gb_huge_free(gb_the.slots + heap->huge);
    gb_heap_retire(heap);
}

int glebe_heap_limit(glebe_heap *heap, size_t limit_bytes)
{
    GB_ENTRY;
    heap = heap_or_self(heap);
    if (heap->number == 0 && !(heap = gb_thread_start()))
        return ENOMEM;
    gb_lock_take(&gb_the.lock);
    bool passed = limit_bytes && gb_load_relaxed(&heap->bytes) > limit_bytes;
    if (!passed)
        heap->limit_bytes = limit_bytes;
    gb_lock_drop(&gb_the.lock);
    gb_thread_late();
    return passed ? EBUSY : 0;
}

size_t glebe_heap_bytes(const glebe_heap *heap)
{
    return gb_load_relaxed(&(heap ? heap : gb_self)->bytes);
}

void *glebe_heap_malloc(glebe_heap *heap, size_t bytes)
{
    GB_ENTRY;
    return gb_alloc(heap_or_self(heap), bytes);
}

void *glebe_heap_calloc(glebe_heap *heap, size_t count, size_t bytes)
{
    GB_ENTRY;
    return gb_calloc(heap_or_self(heap), count, bytes);
}

void *glebe_heap_aligned_alloc(glebe_heap *heap, size_t alignment, size_t bytes)
{
    GB_ENTRY;
    if (!gb_is_pow2(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return gb_alloc_aligned(heap_or_self(heap), alignment, bytes);
}

void *glebe_heap_realloc(glebe_heap *heap, void *block, size_t bytes)
{
    GB_ENTRY;
    heap = heap_or_self(heap);
    if (!block)
        return gb_alloc(heap, bytes);
    if (bytes == 0) {
        gb_free("glebe_heap_realloc", heap, block);
        return NULL;
    }
    void *resized = gb_realloc("glebe_heap_realloc", heap, block, bytes);
    /* Where memory ended a block may be left larger than it need be; one that glebe_heap_free_sized would mistake may not. */
    const gb_page *entry = gb_page_entry(block);
    bool mistaken = resized == block && bytes <= GB_SMALL_MAX && (!entry || entry->kind != GB_SMALL);
    return GB_UNLIKELY(mistaken) ? gb_out_of_memory() : resized;
}

void *glebe_heap_realloc_sized(glebe_heap *heap, void *block, size_t old_bytes, size_t bytes)
{
    GB_ENTRY;
    if (block && old_bytes <= GB_SMALL_MAX && bytes <= GB_SMALL_MAX
        && gb_class_of_small(old_bytes) == gb_class_of_small(bytes))
        return block;
    return glebe_heap_realloc(heap, block, bytes);
}

void glebe_heap_free(glebe_heap *heap, void *block)
{
    GB_ENTRY;
    gb_free("glebe_heap_free", heap_or_self(heap), block);
}

/* The block goes on the front of its class, where the next malloc of the class finds it; its page learns of it when the
 * fronts are sent home. The secure build takes the ordinary way, which checks the block. */
void glebe_heap_free_sized(glebe_heap *heap, void *block, size_t bytes)
{
    GB_ENTRY;
    heap = heap_or_self(heap);
    if (!block || bytes > GB_SMALL_MAX || heap->number == 0 || GB_SECURE || GB_AUDIT) {
        gb_free("glebe_heap_free_sized", heap, block);
        return;
    }
    uint32_t cls = gb_class_of_small(bytes);
    ((gb_block *)block)->next = heap->front[cls];
    heap->front[cls] = block;
    if (GB_UNLIKELY(--heap->credit <= 0)) {
        heap->credit = HEAP_CREDIT;
        gb_fronts_flush(heap);
    }
}

/* ---- giving back ---- */

static void heap_trim(glebe_heap *heap)
{
    if (heap->number == 0)
        return;
    gb_remote_flush(heap);
    gb_inbox_drain(heap);
    gb_heap_trim(heap);
    gb_medium_trim(heap);
}

size_t gb_heap_rest(glebe_heap *heap)
{
    heap_trim(heap);
    gb_orphans_trim();
    return gb_purge_quiet(gb_port_now_ms());
}

size_t glebe_collect(glebe_heap *heap)
{
    GB_ENTRY;
    if (!gb_the.ready)
        return 0;
    heap_trim(heap_or_self(heap));
    gb_orphans_trim();
    return gb_purge_due(gb_port_now_ms(), true);
}

bool gb_make_room(glebe_heap *heap)
{
    size_t held = gb_load_relaxed(&heap->bytes);
    heap_trim(heap);
    bool given = (gb_orphans_trim() | gb_purge_due(gb_port_now_ms(), true)) != 0 || gb_load_relaxed(&heap->bytes) < held;
    return gb_pressure_refused(heap) || given;
}
