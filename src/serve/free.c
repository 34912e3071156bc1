/* free() of blocks in pages of other heaps, and of blocks in parked pages. */
#include "alloc.h"

/* A small page of `self` gets here only if it is parked. */
void gb_free_page(glebe_heap *self, gb_page *page, void *block, const char *call)
{
    size_t offset = (uintptr_t)block - gb_page_start(page);
    uint32_t index;
    /* with one heap, all blocks of small pages are its own, so the address is wrong */
    if ((GB_HEAPS || GB_THREADS) && page->kind == GB_SMALL) {
        bool wrong = GB_MIXES && page->cls == GB_MIXED
            ? gb_mixed_class(page, block) == GB_MIXED
            : !gb_class_exact(page->cls, offset, &index) || index >= page->cap;
        if (wrong)
            gb_report_address(call, block);
        else if ((GB_SECURE || GB_AUDIT) && !gb_free_allowed(call, page, block))
            return;
        else if (GB_MARKS_LINKS && gb_link_marked(block) && gb_block_listed(page, block))
            gb_report_address(call, block);
        else if (!GB_THREADS)
            gb_free_any(call, gb_page_heap(page), block);
        else if (!gb_heap_owns(self, page))
            gb_remote_free(gb_self, page, block);
        else if (gb_parked_put(page, block))
            gb_page_returned(self, page, 1);
        else
            gb_report_address(call, block);
    } else
        gb_report_address(call, block);
}
