/* What free() does with everything but a block of a small page of the calling thread. */
#include "alloc.h"

void gb_free_cold(const char *call, glebe_heap *self, void *block)
{
    if (!block)
        return;
    gb_page *entry = gb_page_entry(block);
    if (!entry) {
        gb_slot *slot = gb_huge_find(block);
        if (slot)
            gb_huge_free(slot);
        else
            gb_report_address(call, block);
        return;
    }
    gb_page *page = gb_page_head(entry);
    size_t offset = (uintptr_t)block - gb_page_start(page);
    switch (page->kind) {
    case GB_SMALL: {
        uint32_t index = gb_class_index(page->cls, offset);
        if (index >= page->cap || (size_t)index * gb_classes[page->cls].bytes != offset)
            gb_report_address(call, block);
        else if (!(GB_SECURE || GB_AUDIT) || gb_free_allowed(call, page, block))
            gb_remote_free(gb_self, page, block);
        return;
    }
    case GB_MEDIUM:
        gb_medium_free(call, self, page, block);
        return;
    case GB_LARGE:
        if (offset == 0)
            gb_run_give(page);
        else
            gb_report_address(call, block);
        return;
    default:
        gb_report_address(call, block);
    }
}
