/* What free() does with everything but a block of a small page of the calling thread. */
#include "alloc.h"

void gb_free_elsewhere(const char *call, void *block)
{
    gb_extent *extent = GB_LINEAR ? NULL : gb_huge_find(block);
    if (extent && !extent->collected) {
        gb_huge_free(extent);
        gb_retain_bound();
    } else if (GB_FOREIGN && block && gb_port_foreign_free(block))
        __atomic_fetch_add(&glebe_live.stats.foreign_frees, 1, __ATOMIC_RELAXED);
    else if (block)
        gb_report_address(call, block);
}

/* A small page of our own comes here if it is parked. */
void gb_free_page(glebe_heap *self, gb_page *page, void *block, const char *call)
{
    size_t offset = (uintptr_t)block - gb_page_start(page);
    uint32_t index;
    gb_page *large;
    if (page->kind == GB_SMALL) {
        bool wrong = GB_MIXES && page->cls == GB_MIXED
            ? gb_mixed_class(page, block) == GB_MIXED
            : !gb_class_exact(page->cls, offset, &index) || index >= page->cap;
        if (wrong)
            gb_report_address(call, block);
        else if ((GB_SECURE || GB_AUDIT) && !gb_free_allowed(call, page, block))
            return;
        else if (!GB_THREADS)
            gb_free_any(call, gb_heap_at(page->heap), block);
        else if (gb_load_relaxed(&page->heap) != self->number)
            gb_remote_free(gb_self, page, block);
        else if (gb_parked_put(page, block))
            gb_page_returned(self, page, 1);
        else
            gb_report_address(call, block);
    } else if (!GB_LINEAR && page->kind == GB_FREE && (large = gb_large_at(block)) != NULL)
        gb_run_give(large);
    else
        gb_report_address(call, block);
}

#if !GB_LINEAR
static GB_NOINLINE void free_medium(glebe_heap *self, gb_page *page, void *block, const char *call)
{
    if (!gb_medium_return(self, page, block))
        gb_report_address(call, block);
}

void gb_free_unowned(glebe_heap *self, gb_page *entry, void *block, const char *call)
{
    gb_page *page = gb_page_head(entry);
    if (GB_UNLIKELY(page->kind != GB_MEDIUM)) {
        gb_free_page(self, page, block, call);
        return;
    }
    /* The medium block that the owner freed last stays at hand, if none is: most of that size are buffers that come
     * and go. */
    uint32_t index, cls = page->cls;
    void **warm = &self->warm[cls - GB_SMALL_CLASSES];
    if (GB_LIKELY(!(GB_SECURE || GB_AUDIT) && !*warm && gb_load_relaxed(&page->heap) == self->number
            && gb_class_exact(cls, (uintptr_t)block - gb_page_start(page), &index) && index < page->cap
            && (gb_load_relaxed(&page->bits) >> index & 1) == 0))
        *warm = block;
    else
        free_medium(self, page, block, call);
}
#endif
