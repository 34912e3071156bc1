/* Every function of the C library's allocation family, statically overridden: each keeps its promises and uses glebe.
 * Blocks that the C library itself allocates are passed to free(). */
#include <direct.h>
#include <errno.h>
#include <malloc.h>
#include <mbstring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "../check.h"
#include "glebe.h"

_CRTIMP size_t _aligned_msize(void *, size_t, size_t); /* mingw's headers have it only for newer libraries */

static int zero(const char *from, const char *to)
{
    for (; from < to; from++)
        if (*from)
            return 0;
    return 1;
}

/* True if the block is glebe's: glebe knows its size, and would report a foreign block. */
static int ours(const void *block)
{
    return glebe_heap_owns(NULL, block);
}

static void plain(void)
{
    const size_t sizes[] = {0, 1, 100, 2048, 2049, 60000, 70000, 1 << 20, (1 << 20) + 1, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        char *p = malloc(n);
        CHECK(p && ours(p) && _msize(p) >= n);
        memset(p, 1, n);
        free(p);
        p = calloc(1, n);
        CHECK(p && ours(p) && zero(p, p + _msize(p)));
        memset(p, 1, _msize(p));
        size_t before = _msize(p);
        p = _recalloc(p, 2, n + 8);
        char kept = before > 0; /* a block of 0 bytes has none to keep */
        CHECK(p && _msize(p) >= 2 * n + 16 && zero(p + before, p + _msize(p)));
        CHECK(!kept || (p[0] == 1 && p[before - 1] == 1));
        CHECK(_expand(p, 1) == p && _expand(p, _msize(p)) == p);
        p = realloc(p, n / 2 + 1);
        CHECK(p && p[0] == kept);
        CHECK(realloc(p, 0) == NULL);
    }
    errno = 0;
    CHECK(calloc(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    CHECK(_recalloc(NULL, SIZE_MAX / 2, 3) == NULL);
    char *none = _recalloc(NULL, 0, 8);
    CHECK(none && ours(none) && _msize(none) == 0);
    free(none);
    CHECK(malloc(SIZE_MAX / 2) == NULL);
}

static void strings(void)
{
    char *a = _strdup("glebe"), *b = strdup("glebe");
    wchar_t *w = _wcsdup(L"glebe");
    unsigned char *m = _mbsdup((const unsigned char *)"glebe");
    CHECK(ours(a) && ours(b) && ours(w) && ours(m));
    CHECK(!strcmp(a, "glebe") && !strcmp(b, "glebe") && !wcscmp(w, L"glebe") && !strcmp((char *)m, "glebe"));
    free(a), free(b), free(w), free(m);
}

static void aligned(void)
{
    for (size_t alignment = 1; alignment <= 1 << 21; alignment *= 2)
        for (size_t n = 1; n < 3 << 20; n = n * 7 + 3) {
            char *p = _aligned_malloc(n, alignment);
            CHECK(p && (uintptr_t)p % alignment == 0 && _aligned_msize(p, alignment, 0) >= n);
            memset(p, 2, n);
            p = _aligned_realloc(p, 2 * n, alignment);
            CHECK(p && (uintptr_t)p % alignment == 0 && p[n - 1] == 2);
            _aligned_free(p);
            size_t offset = n / 3;
            p = _aligned_offset_malloc(n, alignment, offset);
            CHECK(p && ((uintptr_t)p + offset) % alignment == 0 && _aligned_msize(p, alignment, offset) >= n);
            memset(p, 3, n);
            p = _aligned_offset_realloc(p, 3 * n, alignment, offset);
            CHECK(p && ((uintptr_t)p + offset) % alignment == 0 && p[n - 1] == 3);
            _aligned_free(p);
        }
    CHECK(_aligned_malloc(10, 48) == NULL);
    _aligned_free(NULL);
}

/* Blocks that the C library made. */
static void foreign(void)
{
    char *full = _fullpath(NULL, ".", 0), *folder = _getcwd(NULL, 0);
    CHECK(full && folder && !ours(full) && !ours(folder));
    CHECK(_msize(full) > strlen(full));
    full = realloc(full, 5000);
    CHECK(full && ours(full) && strlen(full) > 1);
    free(full);
    free(folder);
}

int main(void)
{
    plain();
    strings();
    aligned();
    foreign();
    glebe_stats s;
    glebe_stats_read(&s);
    CHECK(s.errors == 0);
    CHECK(glebe_check(NULL, 2, NULL, NULL) == 0);
    printf("well\n");
    return 0;
}
