/* Blocks above the small ones, not in linear memory: which source serves them, and how free and realloc treat them. */
#include "alloc.h"
#include "slow.h"

/* ---- allocation ---- */

static uint32_t class_of(size_t bytes)
{
    return bytes <= GB_MEDIUM_MAX ? gb_class_of_medium(bytes) : GB_CLASSES;
}

static gb_source *big_source(const gb_request *request)
{
    if (request->cls < GB_CLASSES)
        return gb_medium_source;
    return request->bytes <= GB_LARGE_MAX && request->alignment <= GB_LARGE_MAX ? gb_large_source : gb_huge_source;
}

/* Returns a medium block of the current page, or a block of the slow path. Sets *dirty if `dirty` is not NULL. */
static GB_NOINLINE void *big_take(glebe_heap *heap, size_t bytes, size_t alignment, uint32_t cls, size_t *dirty)
{
    gb_request request = {.bytes = bytes, .alignment = alignment, .cls = cls};
    void *block = cls < GB_CLASSES ? gb_medium_claim(heap, &request) : NULL;
    if (!block)
        block = gb_serve_sane(heap, big_source(&request), &request);
    if (dirty)
        *dirty = request.dirty;
    return block;
}

/* Returns a warm large or huge block, or NULL. Ticks, so that other memory is purged even if all requests end here. */
GB_INLINE void *warm_take(glebe_heap *heap, size_t bytes)
{
    if (heap->warm_count == 0)
        return NULL;
    if (--heap->tick <= 0)
        gb_tick_due(heap);
    return gb_warm_take(heap, bytes);
}

void *gb_alloc_big(glebe_heap *heap, size_t bytes)
{
    if (GB_LIKELY(bytes <= GB_MEDIUM_MAX)) {
        void **warm = &heap->warm[gb_class_of_medium(bytes) - GB_SMALL_CLASSES], *block = *warm;
        if (GB_LIKELY(block != NULL)) {
            *warm = NULL;
            return block;
        }
    } else {
        void *block = warm_take(heap, bytes);
        if (block)
            return block;
    }
    return big_take(heap, bytes, 1, class_of(bytes), NULL);
}

void *gb_alloc_dirty(glebe_heap *heap, size_t bytes, size_t *dirty)
{
    void *block = bytes > GB_MEDIUM_MAX ? warm_take(heap, bytes) : NULL;
    *dirty = bytes;
    if (!block)
        block = big_take(heap, bytes, 1, class_of(bytes), dirty);
    if (block && *dirty > GB_LARGE_MAX) {
        gb_huge_clear(block, *dirty < bytes ? *dirty : bytes);
        *dirty = 0;
    }
    return block;
}

/* Blocks of a class are aligned to the largest power of two that divides its size, because pages start on slices. */
void *gb_big_aligned(glebe_heap *heap, size_t alignment, size_t bytes)
{
    uint32_t cls = alignment <= GB_SLICE_BYTES ? gb_class_of_aligned(bytes, alignment) : GB_CLASSES;
    if (gb_class_is_small(cls))
        return gb_alloc_small(heap, cls);
    return big_take(heap, bytes ? bytes : 1, alignment, cls, NULL);
}

/* ---- sizes ---- */

size_t gb_big_bytes(gb_page *entry, const void *block)
{
    if (!entry) {
        gb_extent *extent = gb_huge_find(block);
        if (extent && !extent->collected)
            return extent->bytes;
        return GB_FOREIGN ? gb_port_foreign_bytes(block) : 0;
    }
    gb_page *page = gb_page_head(entry);
    if (page->kind == GB_FREE) {
        const gb_page *large = gb_large_at(block);
        return large ? gb_page_bytes(large) : 0;
    }
    if ((page->kind != GB_SMALL && page->kind != GB_MEDIUM) || !gb_block_in_use(page, block))
        return 0;
    return gb_classes[GB_MIXES && page->cls == GB_MIXED ? gb_mixed_class(page, block) : page->cls].bytes;
}

const glebe_heap *gb_big_heap(gb_page *entry, const void *block)
{
    const gb_extent *extent = entry ? NULL : gb_huge_find(block);
    return extent ? gb_heap_at(extent->heap) : NULL;
}

void *gb_big_resize(gb_page *entry, void *block, size_t before, size_t bytes)
{
    void *resized = NULL;
    if (!entry) {
        gb_extent *extent = bytes >= GB_GROWN_FROM ? gb_huge_find(block) : NULL;
        resized = extent ? gb_huge_resize(extent, bytes, false) : NULL;
    } else if ((bytes < GB_GROWN_FROM || bytes <= before) && gb_large_resize(block, bytes))
        resized = block;
    gb_retain_bound();
    return resized;
}

/* Lengthens the block of a request where it is, or returns NULL. */
static void *grown_here(const gb_request *request)
{
    const gb_page *entry = gb_page_entry(request->block);
    if (entry)
        return entry->kind == GB_FREE && gb_large_resize(request->block, request->bytes) ? request->block : NULL;
    gb_extent *extent = gb_huge_find(request->block);
    return extent ? gb_huge_resize(extent, request->bytes, true) : NULL;
}

/* Returns a block in place of one that grows: an extent, which can grow further, unless address space is limited and a
 * run is long enough. If there is no extent, the same block, lengthened, or any other block. */
static void *grown_source(glebe_heap *heap, gb_request *request)
{
    gb_source *usual = big_source(request);
    bool huge = usual == gb_huge_source;
    void *block = huge || !gb_load_relaxed(&gb_the.limited) ? gb_huge_source(heap, request) : NULL;
    if (!block)
        block = grown_here(request);
    return block || huge ? block : usual(heap, request);
}

void *gb_big_grown(glebe_heap *heap, void *block, size_t bytes)
{
    gb_request request = {.bytes = bytes, .alignment = 1, .block = block, .cls = GB_CLASSES};
    return gb_serve_sane(heap, grown_source, &request);
}

/* ---- free ---- */

void gb_free_elsewhere(const char *call, void *block)
{
    gb_extent *extent = gb_huge_find(block);
    if (extent && !extent->collected) {
        if (gb_heap_at(extent->heap) != gb_self || !gb_warm_keep(gb_self, block, extent->bytes, &extent->warm))
            gb_huge_free(extent);
        gb_retain_bound();
    } else if (GB_FOREIGN && block && gb_port_foreign_free(block))
        __atomic_fetch_add(&glebe_live.stats.foreign_frees, 1, __ATOMIC_RELAXED);
    else if (block)
        gb_report_address(call, block);
}

static GB_NOINLINE void free_medium(glebe_heap *self, gb_page *page, void *block, const char *call)
{
    if (!gb_medium_return(self, page, block))
        gb_report_address(call, block);
}

/* The entry is that of a free slice. */
static GB_NOINLINE void free_large(glebe_heap *self, void *block, const char *call)
{
    gb_page *large = gb_large_at(block);
    if (!large)
        gb_report_address(call, block);
    else if (!gb_heap_owns(self, large) || !gb_warm_keep(self, block, gb_page_bytes(large), &large->warm))
        gb_run_give(large);
}

void gb_free_unowned(glebe_heap *self, gb_page *entry, void *block, const char *call)
{
    gb_page *page = gb_page_head(entry);
    if (GB_UNLIKELY(page->kind != GB_MEDIUM)) {
        if (page->kind == GB_FREE)
            free_large(self, block, call);
        else
            gb_free_page(self, page, block, call);
        return;
    }
    /* A medium block that its owner frees stays warm if no block of its class is warm: most blocks of that size are
     * buffers that come and go. */
    uint32_t index, cls = page->cls;
    void **warm = &self->warm[cls - GB_SMALL_CLASSES];
    if (GB_LIKELY(!(GB_SECURE || GB_AUDIT) && !*warm && gb_heap_owns(self, page)
            && gb_class_exact(cls, (uintptr_t)block - gb_page_start(page), &index) && index < page->cap
            && (gb_load_relaxed(&page->bits) >> index & 1) == 0))
        *warm = block;
    else
        free_medium(self, page, block, call);
}

void gb_big_give(glebe_heap *heap)
{
    gb_warm_return(heap);
    while (heap->large.first.n)
        gb_run_give(gb_page_at(heap->large.first));
    while (heap->huge.first)
        gb_huge_free(gb_extent_if(heap->huge.first));
    gb_retain_bound();
}
