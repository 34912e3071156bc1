/* What glebe says when it is misused, and when memory ends. A report is one line on stderr that names the call, the address
 * and what is known of it, made on the stack: nothing here allocates or waits. */
#include <stdarg.h>

#include "core.h"

static void format_put(char *out, size_t bytes, size_t *at, char c)
{
    if (*at + 1 < bytes)
        out[*at] = c;
    ++*at;
}

static void format_number(char *out, size_t bytes, size_t *at, uint64_t value, unsigned radix)
{
    char digits[24];
    int n = 0;
    do
        digits[n++] = "0123456789abcdef"[value % radix];
    while ((value /= radix) != 0);
    while (n > 0)
        format_put(out, bytes, at, digits[--n]);
}

static size_t format_list(char *out, size_t bytes, const char *format, va_list list)
{
    size_t at = 0;
    for (; *format; format++) {
        if (*format != '%') {
            format_put(out, bytes, &at, *format);
            continue;
        }
        switch (*++format) {
        case 's':
            for (const char *s = va_arg(list, const char *); *s; s++)
                format_put(out, bytes, &at, *s);
            break;
        case 'z': format_number(out, bytes, &at, va_arg(list, size_t), 10), format++; break;
        case 'u': format_number(out, bytes, &at, va_arg(list, unsigned), 10); break;
        case 'p':
            format_put(out, bytes, &at, '0');
            format_put(out, bytes, &at, 'x');
            format_number(out, bytes, &at, (uintptr_t)va_arg(list, void *), 16);
            break;
        default: format_put(out, bytes, &at, '%');
        }
    }
    if (bytes)
        out[at < bytes ? at : bytes - 1] = 0;
    return at;
}

/* 64 bits wide on every host, which %zu is not. */
char *gb_decimal(uint64_t value, char *out24)
{
    size_t at = 0;
    format_number(out24, 24, &at, value, 10);
    out24[at] = 0;
    return out24;
}

void gb_plain(char *out, size_t bytes, const char *text, const char *but)
{
    size_t n = 0;
    for (; text[n] && n + 1 < bytes; n++)
        out[n] = text[n] < ' ' || text[n] > '~' || strchr(but, text[n]) ? '?' : text[n];
    out[n] = 0;
}

size_t gb_format(char *out, size_t bytes, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    size_t length = format_list(out, bytes, format, list);
    va_end(list);
    return length;
}

void gb_report(const char *call, const void *address, const char *format, ...)
{
    if (!GB_WORDS)
        gb_port_abort();
    char line[256];
    size_t at = gb_format(line, sizeof line, "glebe: %s(%p): ", call, address);
    va_list list;
    va_start(list, format);
    at += format_list(line + at, sizeof line - at, format, list);
    va_end(list);
    if (at > sizeof line - 2)
        at = sizeof line - 2;
    line[at++] = '\n';
    gb_port_print(line, at);
    __atomic_fetch_add(&glebe_live.stats.errors, 1, __ATOMIC_RELAXED);
    if (gb_the.options.on_error == 0)
        gb_port_abort();
}

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
        gb_report(call, address, "address is %u bytes inside a block of %u bytes that starts at %p", found.inside, bytes,
            (void *)(at - found.inside));
    else
        gb_report(call, address, "%sthe block of %u bytes here is free already", report_double(call), bytes);
}

void *gb_out_of_memory(void)
{
    __atomic_fetch_add(&glebe_live.stats.out_of_memory, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return NULL;
}
