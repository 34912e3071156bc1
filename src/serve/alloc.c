/* What the fast paths fall back to, and the functions that are built on them: aligned blocks, realloc, sizes of
 * blocks. */

#include "alloc.h"
#include "slow.h"

/* Of blocks over 2 KiB. */
static gb_source *alloc_source(const gb_request *request)
{
    if (GB_LINEAR)
        return gb_tagged_source;
    if (request->cls < GB_CLASSES)
        return gb_medium_source;
    return request->bytes <= GB_LARGE_MAX && request->alignment <= GB_LARGE_MAX ? gb_large_source : gb_huge_source;
}

/* No host has so much memory, so nothing is tried. */
static bool request_enormous(const gb_request *request)
{
    return request->bytes > GB_BLOCK_MAX || request->alignment > GB_BLOCK_MAX - request->bytes;
}

GB_INLINE void *alloc_served(glebe_heap *heap, gb_source *source, gb_request *request)
{
    return request_enormous(request) ? gb_out_of_memory() : gb_serve(heap, source, request);
}

void *gb_alloc_beyond(glebe_heap *heap, size_t bytes, size_t alignment, uint32_t cls, size_t *dirty)
{
    gb_request request;
    request.bytes = bytes;
    request.alignment = alignment;
    if (!GB_LINEAR) {
        request.room = 0;
        request.block = NULL;
        request.cls = cls;
        request.collected = false;
    }
    void *block = !GB_LINEAR && cls < GB_CLASSES ? gb_medium_claim(heap, &request) : NULL;
    if (!block)
        block = alloc_served(heap, alloc_source(&request), &request);
    if (!GB_LINEAR && dirty)
        *dirty = request.dirty;
    return block;
}

#if !GB_LINEAR
static uint32_t class_of(size_t bytes)
{
    return bytes <= GB_MEDIUM_MAX ? gb_class_of_medium(bytes) : GB_CLASSES;
}

void *gb_alloc_big(glebe_heap *heap, size_t bytes)
{
    if (GB_LIKELY(bytes <= GB_MEDIUM_MAX)) {
        void **warm = &heap->warm[gb_class_of_medium(bytes) - GB_SMALL_CLASSES], *block = *warm;
        if (GB_LIKELY(block != NULL)) {
            *warm = NULL;
            return block;
        }
    }
    return gb_alloc_beyond(heap, bytes, 1, class_of(bytes), NULL);
}

void *gb_alloc_dirty(glebe_heap *heap, size_t bytes, size_t *dirty)
{
    void *block = gb_alloc_beyond(heap, bytes, 1, class_of(bytes), dirty);
    if (block && *dirty > GB_LARGE_MAX) {
        gb_huge_clear(block, *dirty < bytes ? *dirty : bytes);
        *dirty = 0;
    }
    return block;
}
#else
void *gb_alloc_dirty(glebe_heap *heap, size_t bytes, size_t *dirty)
{
    uintptr_t fresh = gb_the.fresh;
    void *block = gb_alloc_big(heap, bytes);
    *dirty = (uintptr_t)block >= fresh ? 0 : bytes;
    return block;
}
#endif

/* Blocks of a class lie on multiples of the power of two in its size, because pages start on slices. */
void *gb_alloc_aligned(glebe_heap *heap, size_t alignment, size_t bytes)
{
    if (alignment <= 16)
        return gb_alloc(heap, bytes);
    uint32_t cls = !GB_LINEAR && alignment <= GB_SLICE_BYTES ? gb_class_of_aligned(bytes, alignment) : GB_CLASSES;
    if (!GB_LINEAR && gb_class_is_small(cls))
        return gb_alloc_small(heap, cls);
    return gb_alloc_beyond(heap, bytes ? bytes : 1, alignment, cls, NULL);
}

static GB_NOINLINE size_t large_bytes(const void *block)
{
    const gb_page *large = gb_large_at(block);
    return large ? gb_page_bytes(large) : 0;
}

size_t gb_block_bytes(const char *call, const void *block)
{
    gb_page *entry = gb_page_entry(block);
    if (!entry) {
        gb_extent *extent = gb_huge_find(block);
        if (extent && !extent->collected)
            return extent->bytes;
        size_t foreign = GB_FOREIGN ? gb_port_foreign_bytes(block) : 0;
        if (!foreign)
            gb_report_address(call, block);
        return foreign;
    }
    if (GB_LINEAR && entry->kind == GB_FREE) {
        size_t usable = gb_tagged_usable((uintptr_t)block);
        if (!usable)
            gb_report_address(call, block);
        return usable;
    }
    gb_page *page = gb_page_head(entry);
    size_t offset = (uintptr_t)block - gb_page_start(page);
    uint32_t index;
    if (GB_LIKELY(page->kind == GB_SMALL && !(GB_SECURE || GB_AUDIT) && gb_class_exact(page->cls, offset, &index)
            && index < __atomic_load_n(&page->bump, __ATOMIC_RELAXED))) /* what gb_block_in_use asks, without a call */
        return gb_classes[page->cls].bytes;
    size_t bytes = !GB_LINEAR && page->kind == GB_FREE ? large_bytes(block) : 0;
    if (bytes)
        return bytes;
    if (!GB_LINEAR && (page->kind == GB_SMALL || page->kind == GB_MEDIUM) && gb_block_in_use(page, block)) {
        uint32_t cls = page->cls;
        if (GB_MIXES && cls == GB_MIXED)
            cls = gb_mixed_class(page, block);
        return gb_classes[cls].bytes;
    }
    gb_report_address(call, block);
    return 0;
}

bool gb_size_fits(const char *call, const void *block, size_t bytes)
{
    size_t usable = gb_block_bytes(call, block);
    if (usable == 0)
        return false;
    if (bytes > usable)
        gb_report(call, block, "size %zu is wrong: the block has %zu bytes", bytes, usable);
    return bytes <= usable;
}

bool gb_alignment_fits(const char *call, const void *block, size_t alignment)
{
    bool fits = gb_is_pow2(alignment) && ((uintptr_t)block & (alignment - 1)) == 0;
    if (!fits)
        gb_report(call, block, "alignment %zu is wrong: the block does not have it", alignment);
    return fits;
}

void *gb_alloc_any(glebe_heap *heap, size_t bytes)
{
    return gb_alloc(heap, bytes);
}

void gb_free_any(const char *call, glebe_heap *self, void *block)
{
    gb_free(call, self, block);
}

/* A block over 256 KiB that grows: an extent, which can grow on, where address space is plenty or a run is too
 * short. Else its own run, longer; else another run. */
static void *grown_source(glebe_heap *heap, gb_request *request)
{
    gb_source *usual = alloc_source(request);
    if (usual == gb_huge_source)
        return gb_huge_source(heap, request);
    const gb_page *entry = gb_page_entry(request->block);
    bool large = entry && entry->kind == GB_FREE;
    void *block = gb_load_relaxed(&gb_the.limited) ? NULL : gb_huge_source(heap, request);
    if (!block && large && gb_large_resize(request->block, request->bytes))
        block = request->block;
    return block ? block : usual(heap, request);
}

static void *alloc_grown(glebe_heap *heap, void *block, size_t bytes)
{
    gb_request request = {.bytes = bytes, .alignment = 1, .block = block, .cls = GB_CLASSES};
    return alloc_served(heap, grown_source, &request);
}

/* Shrinking to no less than half stays in place, so that a block does not move back and forth with its size. */
void *gb_realloc(const char *call, glebe_heap *self, void *block, size_t bytes)
{
    size_t before = gb_block_bytes(call, block);
    if (before == 0) {
        errno = EINVAL;
        return NULL;
    }
    gb_page *entry = gb_page_entry(block);
    bool large = !GB_LINEAR && entry && entry->kind == GB_FREE;
    if (GB_LINEAR && entry->kind == GB_FREE) {
        if (bytes > GB_SMALL_MAX && gb_tagged_resize((uintptr_t)block, bytes))
            return block;
    } else if (!GB_LINEAR && !entry) {
        gb_extent *extent = gb_huge_find(block);
        void *moved = extent && bytes >= GB_GROWN_FROM ? gb_huge_resize(extent, bytes) : NULL;
        gb_retain_bound();
        if (moved)
            return moved;
    } else if (!large && bytes <= before && bytes > before / 2 && (bytes > GB_SMALL_MAX) == (before > GB_SMALL_MAX))
        return block;
    int saved = errno;
    bool grown = !GB_LINEAR && bytes > before && bytes >= GB_GROWN_FROM;
    if (!GB_LINEAR && large && !grown && gb_large_resize(block, bytes)) {
        gb_retain_bound();
        return block;
    }
    void *fresh = grown ? alloc_grown(self, block, bytes) : gb_alloc_seldom(self, bytes);
    if (fresh == block)
        return block;
    if (!fresh) {
        if (bytes > before)
            return NULL;
        errno = saved; /* it is served, by what is there */
        return block;
    }
    memcpy(fresh, block, bytes < before ? bytes : before);
    gb_free_seldom(call, self, block);
    return fresh;
}
