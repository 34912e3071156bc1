/* What glebe says when it is misused, and when memory ends. A report is one line on stderr that names the call, the
 * address and what is known of it, made on the stack: nothing here allocates or waits. */
#include <stdarg.h>

#include "base.h"

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

void *gb_out_of_memory(void)
{
    __atomic_fetch_add(&glebe_live.stats.out_of_memory, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return NULL;
}
