/* What is said of an address that a call cannot use: where it lies, and whether its block is free already. */
#include "core.h"

/* For calls that free a block. realloc and malloc_usable_size cannot free twice. */
static const char *report_double(const char *call)
{
    for (const char *s = call; *s; s++)
        if (strncmp(s, "free", 4) == 0 || strncmp(s, "delete", 6) == 0)
            return "double free: ";
    return "";
}

void gb_report_address(const char *call, const void *address)
{
    if (!GB_WORDS)
        gb_port_abort();
    uintptr_t at = (uintptr_t)address;
    gb_extent *extent = gb_extent_of(address);
    if (extent) {
        if (extent->state == GB_EXTENT_USED && extent->collected)
            gb_report(call, address, "address is in the pages of a collector, whose objects only glebe_gc_free takes");
        else if (extent->state != GB_EXTENT_USED && (at - gb_the.extents_base) % GB_GRANULE_BYTES == 0)
            gb_report(call, address, "%sthe block of over 256 KiB here is free already", report_double(call));
        else
            gb_report(call, address, "address is inside a block of over 256 KiB, or between two");
        return;
    }
    gb_page *page = gb_page_around(address);
    if (!page) {
        gb_report(call, address, "address is not from glebe");
        return;
    }
    if (page->kind == GB_LARGE) {
        uintptr_t start = gb_run_start(page);
        gb_report(call, address, "address is %zu bytes inside a block of %zu bytes that starts at %p", at - start,
            gb_page_bytes(page), (void *)start);
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
