/* From any address to the block there: where it starts, whether it is in use, and the text of a report about an address
 * that a call cannot use. */
#include "heap.h"

bool gb_block_in_use(const gb_page *page, const void *block)
{
    gb_place at = gb_page_locate(page, (uintptr_t)block - gb_page_start(page));
    if (!at.carved || at.inside != 0 || (GB_SAFE && gb_held_block(block)))
        return false;
    if (page->kind == GB_MEDIUM)
        return gb_medium_in_use(page, block, at.index) && !(GB_SECURE && gb_secure_is_free(page, block));
    if (GB_AUDIT && !gb_audit_alive(block))
        return false;
    if (GB_MARKS_LINKS && gb_link_marked(block) && gb_block_listed(page, block))
        return false;
    return !GB_SECURE || !gb_secure_is_free(page, block);
}

uintptr_t gb_block_start(const void *address)
{
    const gb_extent *extent = GB_HUGE ? gb_extent_of(address) : NULL;
    if (GB_HUGE && extent)
        return extent->state == GB_EXTENT_USED ? gb_extent_start(extent) : 0;
    const gb_page *page = gb_page_around(address);
    uintptr_t guarded;
    if (GB_SAMPLES && !page && gb_guard_bytes(address, &guarded))
        return guarded;
    if (GB_ZEROS && !page)
        return gb_zero_in_use(address) ? (uintptr_t)address : 0;
    if (!page || (page->kind != GB_SMALL && page->kind != GB_MEDIUM && page->kind != GB_LARGE))
        return 0;
    if (page->kind == GB_LARGE)
        return gb_run_start(page);
    gb_place at = gb_page_locate(page, (uintptr_t)address - gb_page_start(page));
    return at.cls == GB_MIXED ? 0 : (uintptr_t)address - at.inside;
}

/* Only a call that frees can be a double free; realloc and malloc_usable_size are not. */
static const char *report_double(const char *call)
{
    for (const char *s = call; *s; s++)
        if (strncmp(s, "free", 4) == 0 || strncmp(s, "delete", 6) == 0)
            return "double free: ";
    return "";
}

/* blocks that may have an extent: large.c */
#if GB_SECURE
#define EXTENT_FROM "64 KiB"
#else
#define EXTENT_FROM "256 KiB"
#endif

void gb_report_address(const char *call, const void *address)
{
    if (!GB_WORDS)
        gb_port_abort();
    uintptr_t at = (uintptr_t)address;
    const gb_extent *extent = GB_HUGE ? gb_extent_of(address) : NULL;
    if (extent) {
        if (extent->state == GB_EXTENT_USED && extent->collected)
            gb_report(call, address, "address is in the pages of a collector, whose objects only glebe_gc_free takes");
        else if ((extent->state != GB_EXTENT_USED || extent->warm || (GB_SAFE && extent->held))
            && (at - gb_the.extents_base) % GB_GRANULE_BYTES == 0)
            gb_report(call, address, "%sthe block of over " EXTENT_FROM " here is free already", report_double(call));
        else
            gb_report(call, address, "address is inside a block of over " EXTENT_FROM ", or between two");
        return;
    }
    gb_page *page = gb_page_around(address);
    if (GB_ZEROS && !page && gb_zero_place(address)) {
        gb_zero_report(call, address, report_double(call));
        return;
    }
    if (GB_SAMPLES && !page && gb_guard_place(address)) {
        gb_guard_report(call, address, report_double(call));
        return;
    }
    if (!page) {
        gb_report(call, address, "address is not from glebe");
        return;
    }
    if (page->kind == GB_LARGE && !page->warm && !(GB_SAFE && at == gb_run_start(page) && gb_held_block(address))) {
        uintptr_t start = gb_run_start(page);
        gb_report(call, address, "address is %zu bytes inside a block of %zu bytes that starts at %p", at - start,
            gb_page_bytes(page), (void *)start);
        return;
    }
    if (page->kind == GB_LARGE && at == gb_run_start(page)) {
        gb_report(call, address, "%sthe block of %zu bytes here is free already", report_double(call),
            gb_page_bytes(page));
        return;
    }
    if (page->kind >= GB_COLLECTED) {
        gb_report(call, address, "address is in the pages of a collector, whose objects only glebe_gc_free takes");
        return;
    }
    if (page->kind != GB_SMALL && page->kind != GB_MEDIUM) {
        gb_report(call, address, "address is in free memory: freed already, or never given out");
        return;
    }
    gb_place found = gb_page_locate(page, at - gb_page_start(page));
    uint32_t bytes = gb_classes[found.cls].bytes;
    if (GB_SECURE && found.carved)
        bytes = (uint32_t)gb_secure_bytes(page, (const void *)(at - found.inside));
    if (GB_MIXES && found.cls == GB_MIXED)
        gb_report(call, address, "address is in a page of blocks of many sizes, where no block was given out");
    else if (!found.carved)
        gb_report(call, address, "address is in a page of blocks of %u bytes, where no block was given out", bytes);
    else if (found.inside != 0)
        gb_report(call, address, "address is %u bytes inside a block of %u bytes that starts at %p", found.inside,
            bytes, (void *)(at - found.inside));
    else
        gb_report(call, address, "%sthe block of %u bytes here is free already", report_double(call), bytes);
}
