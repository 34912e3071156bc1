/* Reports of misuse, and of lack of memory. A report is two lines on stderr, in one write:
 *
 *     glebe: free(0x7f1c3a404040): double free: the block of 64 bytes here is free already
 *       in suspect[4711]; for a backtrace, put before the command line: gdb -batch -ex run -ex bt --args
 *
 * The first line names the call, the address and the finding; the second names program and process. The advice on a
 * backtrace appears in the secure and the audit build only, and only if they abort. Nothing here allocates, locks or
 * waits. Walking the stack could do all three, so it is left to gdb, and to debug/evidence.c where a user asks. */
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
        digits[n++] = gb_digit(value % radix);
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

/* %zu has 32 bits on some hosts; this prints 64 bits on all. */
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
    enum { FIRST = 256, SECOND = 192 };
    char text[FIRST + SECOND], program[64];
    size_t at = gb_format(text, FIRST, "glebe: %s(%p): ", call, address), finding = at;
    va_list list;
    va_start(list, format);
    at += format_list(text + at, FIRST - at, format, list);
    va_end(list);
    if (at > FIRST - 2)
        at = FIRST - 2;
    size_t end = at;
    text[at++] = '\n';
    gb_plain(program, sizeof program, gb_port_program(), "");
    bool aborts = gb_the.options.on_error == 0;
    at += gb_format(text + at, SECOND, "  in %s[%u]%s\n", program, gb_port_process(),
        (GB_SECURE || GB_AUDIT) && aborts
            ? "; for a backtrace, put before the command line: gdb -batch -ex run -ex bt --args"
            : "");
    gb_port_print(text, at);
    if (GB_SNAPSHOTS && gb_the.evidence) {
        text[end] = 0;
        gb_the.evidence(call, address, text + finding);
    }
    __atomic_fetch_add(&glebe_live.stats.errors, 1, __ATOMIC_RELAXED);
    if (aborts)
        gb_port_abort();
}

void *gb_out_of_memory(void)
{
    if (GB_TALLIES)
        __atomic_fetch_add(&glebe_live.stats.out_of_memory, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return NULL;
}
