/* Blocks above the small ones in linear memory: each is a block with a tag (tagged.c). */
#include "../serve/alloc.h"
#include "../serve/slow.h"
#include "tagged.h"

static GB_NOINLINE void *big_tagged(glebe_heap *heap, size_t bytes, size_t alignment)
{
    gb_request request;
    request.bytes = bytes;
    request.alignment = alignment;
    return gb_serve_sane(heap, gb_tagged_source, &request);
}

void *gb_alloc_big(glebe_heap *heap, size_t bytes)
{
    if (GB_LIKELY(
            heap == &gb_heap_main && bytes <= GB_BLOCK_MAX && (gb_heap_main.limit_bytes | gb_the.options.limit) == 0)) {
        uint32_t length = tagged_length(bytes);
        gb_tagged *c = gb_the.linear.warm;
        if (gb_the.linear.warm_bytes == length) {
            gb_the.linear.warm_bytes = 0;
            c->tag -= GB_TAG_WARM;
            return (void *)gb_tagged_start(c);
        }
        c = tagged_take(length);
        if (GB_LIKELY(c != NULL))
            return (void *)gb_tagged_start(c);
    }
    return big_tagged(heap, bytes, 1);
}

void *gb_alloc_dirty(glebe_heap *heap, size_t bytes, size_t *dirty)
{
    uintptr_t fresh = gb_the.linear.fresh;
    void *block = gb_alloc_big(heap, bytes);
    *dirty = (uintptr_t)block >= fresh ? 0 : bytes;
    return block;
}

void *gb_big_aligned(glebe_heap *heap, size_t alignment, size_t bytes)
{
    return big_tagged(heap, bytes ? bytes : 1, alignment);
}

size_t gb_big_bytes(gb_page *entry, const void *block)
{
    return entry && entry->kind == GB_FREE ? gb_tagged_usable((uintptr_t)block) : 0;
}

const glebe_heap *gb_big_heap(gb_page *entry, const void *block)
{
    return entry && entry->kind == GB_FREE ? gb_tagged_owner((uintptr_t)block) : NULL;
}

void *gb_big_resize(gb_page *entry, void *block, size_t before, size_t bytes)
{
    (void)entry, (void)before;
    return bytes > GB_SMALL_MAX && gb_tagged_resize((uintptr_t)block, bytes) ? block : NULL;
}

void gb_free_elsewhere(const char *call, void *block)
{
    if (block)
        gb_report_address(call, block);
}

void gb_free_unowned(glebe_heap *self, gb_page *entry, void *block, const char *call)
{
    if (GB_LIKELY(entry->kind == GB_FREE))
        gb_tagged_free((uintptr_t)block);
    else
        gb_free_page(self, gb_page_head(entry), block, call);
}

void gb_big_give(glebe_heap *heap)
{
    while (heap->owned)
        gb_tagged_free((uintptr_t)(heap->owned + 1));
    while (heap->large.first.n)
        gb_run_give(gb_page_at(heap->large.first));
}
