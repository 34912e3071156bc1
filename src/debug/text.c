/* A text that goes to a file in pieces, for profiles and snapshots. It allocates nothing and takes no lock. After the
 * first error nothing more is written; the error stays in the text. */
#include "debug.h"

#if GB_SAMPLES || GB_SNAPSHOTS
#include "errors.h"

void gb_text_flush(gb_text *out)
{
    if (!out->error && out->count)
        out->error = gb_port_put(out->file, out->text, out->count);
    out->count = 0;
}

void gb_text_bytes(gb_text *out, const char *text, size_t bytes)
{
    for (; bytes > 0; bytes--) {
        if (out->count == sizeof out->text)
            gb_text_flush(out);
        out->text[out->count++] = *text++;
    }
}

void gb_text_put(gb_text *out, const char *text)
{
    gb_text_bytes(out, text, strlen(text));
}

void gb_text_number(gb_text *out, uint64_t value)
{
    char digits[24];
    gb_text_put(out, " ");
    gb_text_put(out, gb_decimal(value, digits));
}

void gb_text_hex(gb_text *out, uintptr_t value)
{
    char digits[24];
    gb_format(digits, sizeof digits, "%p", (void *)value);
    gb_text_put(out, " ");
    gb_text_put(out, digits + 2);
}

void gb_text_failed(const char *what, const char *name, int error)
{
    char line[GB_TEXT_NAME_BYTES + 96];
    size_t n = gb_format(line, sizeof line, "glebe: %s: cannot write %s: error %u (%s)\n", what, name, (unsigned)error,
        error == ENOENT       ? "no such folder" /* the file is made if it is not there */
            : error == EEXIST ? "it is no regular file"
                              : gb_error_text(error));
    gb_port_print(line, n < sizeof line ? n : sizeof line - 1);
}

#endif
