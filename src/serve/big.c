/* Blocks above the small ones, not in linear memory: which source serves them, and how free and realloc treat them. */
#include "alloc.h"
#include "slow.h"

/* ---- allocation ---- */

static uint32_t class_of(size_t bytes)
{
    return bytes <= GB_MEDIUM_MAX ? gb_class_of_medium(bytes + GB_TAIL_BYTES) : GB_CLASSES;
}

static gb_source *big_source(const gb_request *request)
{
    if (request->cls < GB_CLASSES)
        return gb_medium_source;
    return request->bytes <= GB_LARGE_MAX && request->alignment <= GB_LARGE_MAX ? gb_large_source : gb_huge_source;
}

#if GB_SAMPLES
/* Returns a warm block, for heaps that are sampled: the fast paths pass them by. A program that gets the same warm
 * block each time ticks only here, and a tick sees that a profile is requested, or is to end (retain/ask.c). */
static void *sampled_warm(glebe_heap *heap, const gb_request *request)
{
    if (request->alignment > 1)
        return NULL;
    if (--heap->tick <= 0)
        gb_tick_due(heap);
    if (request->cls == GB_CLASSES)
        return gb_warm_take(heap, request->bytes);
    void **warm = &heap->warm[request->cls - GB_SMALL_CLASSES], *block = *warm;
    *warm = NULL;
    return block;
}

/* Serves a sample, if the request is one. */
static void *sampled_take(glebe_heap *heap, gb_request *request)
{
    bool due = gb_sample_due(heap, gb_request_bytes(request));
    return due ? gb_sample_take(big_source(request), request) : NULL;
}
#else
#define sampled_take(heap, request) NULL
#define sampled_warm(heap, request) NULL
#endif

/* Returns a medium block of the current page, or a block of the slow path. Sets *dirty if `dirty` is not NULL. */
static GB_NOINLINE void *big_take(glebe_heap *heap, size_t bytes, size_t alignment, uint32_t cls, size_t *dirty)
{
    gb_request request = {.bytes = bytes, .alignment = alignment, .dirty = bytes, .cls = cls};
    void *block = NULL;
    if (GB_SAMPLES && GB_UNLIKELY(gb_sampled(heap)) && !(block = sampled_take(heap, &request)))
        block = sampled_warm(heap, &request);
    if (!block && cls < GB_CLASSES)
        block = gb_medium_claim(heap, &request);
    if (GB_THREADS && GB_UNLIKELY(bytes >= GB_BACKGROUND_FROM)) {
        uint32_t late = GB_BACKGROUND_LATE; /* this may be the program's only request */
        if (gb_load_relaxed(&gb_the.background_state) == late
            && atomic_compare_exchange_strong(&gb_the.background_state, &late, GB_BACKGROUND_DUE) && heap->number.n)
            heap->tick = 1;
    }
    if (!block)
        block = gb_serve_sane(heap, big_source(&request), &request);
    if (GB_SECURE && block && cls < GB_CLASSES)
        gb_secure_size(block, cls, bytes);
    if (dirty)
        *dirty = request.dirty;
    return block;
}

/* Returns a warm large or huge block, or NULL. Ticks, so that other memory is purged even if all requests end here. */
GB_INLINE void *warm_take(glebe_heap *heap, size_t bytes)
{
    if (heap->warm_count <= gb_warm_least(heap))
        return NULL;
    if (--heap->tick <= 0)
        gb_tick_due(heap);
    return gb_warm_take(heap, bytes);
}

/* Serves blocks above the small ones that no warm block serves. Out of line, to keep gb_alloc_big short. */
static GB_NOINLINE void *alloc_cold(glebe_heap *heap, size_t bytes)
{
    return big_take(heap, bytes, 1, class_of(bytes), NULL);
}

void *gb_alloc_big(glebe_heap *heap, size_t bytes)
{
    void *block;
    if (GB_SECURE) {
        if (bytes == 0)
            return gb_alloc_secure(heap, 0, false);
        gb_secure_look(heap);
        return alloc_cold(heap, bytes);
    }
    if (GB_LIKELY(bytes <= gb_medium_most(heap))) {
        void **warm = &heap->warm[gb_class_of_medium(bytes) - GB_SMALL_CLASSES];
        block = *warm;
        if (GB_LIKELY(block != NULL)) {
            *warm = NULL;
            return block;
        }
    } else {
        block = warm_take(heap, bytes);
        if (GB_LIKELY(block != NULL))
            return block;
    }
    return alloc_cold(heap, bytes);
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
    void *none = bytes == 0 ? gb_alloc_none(heap, alignment) : NULL;
    if (none)
        return none;
    uint32_t cls = alignment <= GB_SLICE_BYTES && bytes <= GB_MEDIUM_MAX
        ? gb_class_of_aligned(bytes + GB_TAIL_BYTES, alignment)
        : GB_CLASSES;
    if (gb_class_is_small(cls))
        return GB_SECURE ? gb_alloc_of_class(heap, cls, bytes) : gb_alloc_small(heap, cls);
    return big_take(heap, bytes ? bytes : 1, alignment, cls, NULL);
}

/* ---- sizes ---- */

size_t gb_big_bytes(gb_page *entry, const void *block)
{
    if (!entry) {
        gb_extent *extent = gb_huge_find(block);
        if (extent && !extent->collected)
            return extent->bytes;
        uintptr_t guarded = 0;
        size_t bytes = GB_SAMPLES ? gb_guard_bytes(block, &guarded) : 0;
        if (bytes && guarded == (uintptr_t)block)
            return bytes;
        return GB_FOREIGN ? gb_port_foreign_bytes(block) : 0;
    }
    gb_page *page = gb_page_head(entry);
    if (page->kind == GB_FREE) {
        const gb_page *large = gb_large_at(block);
        return large && !(GB_SAFE && gb_held_block(block)) ? gb_page_bytes(large) : 0;
    }
    if ((page->kind != GB_SMALL && page->kind != GB_MEDIUM) || !gb_block_in_use(page, block))
        return 0;
    if (GB_SECURE)
        return gb_secure_bytes(page, block);
    return gb_classes[GB_MIXES && page->cls == GB_MIXED ? gb_mixed_class(page, block) : page->cls].bytes;
}

const glebe_heap *gb_big_heap(gb_page *entry, const void *block)
{
    const gb_extent *extent = entry ? NULL : gb_huge_find(block);
    return extent ? gb_heap_at(extent->heap) : NULL;
}

static void *big_resize(gb_page *entry, void *block, size_t before, size_t bytes)
{
    void *resized = NULL;
    if (!entry) {
        gb_extent *extent = bytes >= (GB_SECURE ? GB_MEDIUM_MAX + 1 : GB_GROWN_FROM) ? gb_huge_find(block) : NULL;
        resized = extent ? gb_huge_resize(extent, bytes, GB_SAFE) : NULL;
    } else if ((bytes < GB_GROWN_FROM || bytes <= before) && gb_large_resize(block, bytes))
        resized = block;
    gb_retain_bound();
    return resized;
}

#if GB_SAMPLES
/* Returns whether the block should not grow where it is, because the bytes that it gains are a sample, and the block is
 * none: then the new block is the sample. */
static bool grows_into_sample(const glebe_heap *owner, size_t before, size_t bytes)
{
    glebe_heap *self = gb_self;
    if (bytes <= before || !gb_sampled(self) || !gb_sampled(owner) || !gb_sample_due(self, bytes - before))
        return false;
    self->sampling.left = 0;
    return true;
}

/* Resizes a block while a profile may have it. */
static void *sampled_resize(gb_page *entry, void *block, size_t before, size_t bytes)
{
    const gb_extent *extent = entry ? NULL : gb_huge_find(block);
    const gb_page *large = entry ? gb_large_at(block) : NULL;
    uint32_t owner = extent ? extent->heap.n : large ? gb_load_relaxed(&large->heap) : 0;
    if (!gb_sample_owns(owner))
        return owner && grows_into_sample(gb_heap_at((gb_heap_id){owner}), before, bytes)
            ? NULL
            : big_resize(entry, block, before, bytes);
    uint32_t sample = gb_sample_detach(block);
    void *resized = big_resize(entry, block, before, bytes);
    gb_sample_attach(sample, resized ? resized : block, resized ? bytes : before);
    return resized;
}
#else
#define sampled_resize big_resize
#endif

void *gb_big_resize(gb_page *entry, void *block, size_t before, size_t bytes)
{
    if (GB_SAMPLES && GB_UNLIKELY(gb_load_relaxed(&gb_the.sampler.heap)))
        return sampled_resize(entry, block, before, bytes);
    return big_resize(entry, block, before, bytes);
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
    if (GB_SAMPLES && GB_UNLIKELY(gb_sampled(heap))) {
        void *sample = sampled_take(heap, &request);
        if (sample)
            return sample;
    }
    return gb_serve_sane(heap, grown_source, &request);
}

/* ---- free ---- */

/* Frees a huge block of another heap. */
static GB_NOINLINE void free_huge_remote(gb_extent *extent, void *block)
{
    if (GB_SAMPLES && gb_sample_owns(extent->heap.n))
        gb_sample_drop(block);
    gb_huge_free(extent);
}

void gb_free_elsewhere(const char *call, void *block)
{
    gb_extent *extent = gb_huge_find(block);
    if (extent && !extent->collected) {
        if (gb_heap_at(extent->heap) != gb_self)
            free_huge_remote(extent, block);
        else if (!gb_warm_keep(gb_self, block, extent->bytes, &extent->warm))
            gb_huge_free(extent);
        gb_retain_bound();
    } else if (block && gb_zero_give(block))
        return;
    else if (GB_SAMPLES && gb_guard_place(block))
        gb_guard_give(call, block);
    else if (GB_FOREIGN && block && gb_port_foreign_free(block))
        __atomic_fetch_add(&glebe_live.stats.foreign_frees, 1, __ATOMIC_RELAXED);
    else if (block)
        gb_report_address(call, block);
}

static GB_NOINLINE void free_medium(glebe_heap *self, gb_page *page, void *block, const char *call)
{
    bool freed;
    void **held = &self->warm[page->cls - GB_SMALL_CLASSES];
    if (GB_SECURE) {
        if (!gb_block_in_use(page, block)) {
            gb_report_address(call, block);
            return;
        }
        gb_secure_medium_freed(call, page, block);
        if (gb_heap_owns(self, page) && gb_classes[page->cls].bytes <= GB_SLICE_BYTES) {
            /* the block that was held before is returned instead */
            void *before = *held;
            *held = self->watched[1] = block;
            if (!before)
                return;
            block = before;
            page = gb_block_page(block);
        }
    }
    if (GB_SAMPLES && gb_sample_owns(gb_load_relaxed(&page->heap)))
        freed = gb_sample_returned(page, block);
    else
        freed = gb_medium_return(self, page, block);
    if (!freed)
        gb_report_address(call, block);
}

/* Frees a large block of another heap. */
static GB_NOINLINE void free_large_remote(gb_page *large, void *block)
{
    if (GB_SAMPLES && gb_sample_owns(gb_load_relaxed(&large->heap)))
        gb_sample_drop(block);
    gb_run_give(large);
}

/* The entry is that of a free slice. */
static GB_NOINLINE void free_large(glebe_heap *self, void *block, const char *call)
{
    gb_page *large = gb_large_at(block);
    if (!large)
        gb_report_address(call, block);
    else if (!gb_heap_owns(self, large))
        free_large_remote(large, block);
    else if (!gb_warm_keep(self, block, gb_page_bytes(large), &large->warm))
        gb_run_give(large);
}

void gb_free_unowned(glebe_heap *self, gb_page *entry, void *block, const char *call)
{
    gb_page *page = entry; /* the head: gb_slice_head */
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
