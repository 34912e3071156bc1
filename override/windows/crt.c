/* The allocation functions of Windows' C libraries (msvcrt) under their own names. If they are linked before the C
 * library's import library, a program calls these. Each is defined twice: as a function, and as the pointer that code
 * compiled with dllimport loads.
 *
 * A block's size is its usable bytes: _msize returns them, calloc clears them all, _recalloc keeps them and clears the
 * new ones. free() also gets blocks that the C library allocated itself (_fullpath, _dupenv_s, _getcwd);
 * src/port/windows.c frees them by their own heap.
 *
 * An aligned block with an offset begins somewhere inside one of ours; _aligned_free finds that block's start by
 * arithmetic. */
#define _CRTIMP /* these are the functions, not imports of them */
#include "../../src/core.h"

#include <wchar.h>

#define CRT(name) \
    extern __typeof__(name) *const __imp_##name; \
    __typeof__(name) *const __imp_##name = name;

/* ---- malloc and its relatives ---- */

void *malloc(size_t bytes)
{
    return gb_alloc_own(bytes);
}
CRT(malloc)

void free(void *block)
{
    gb_free("free", gb_self, block);
}
CRT(free)

/* For new.cpp, which is C++. */
void override_delete(void *block);
void override_delete(void *block)
{
    gb_free("operator delete", gb_self, block);
}

/* Returns the usable bytes of a block for a request of `bytes`. */
static size_t crt_whole(size_t bytes)
{
    if (bytes <= GB_MEDIUM_MAX)
        return bytes ? gb_classes[gb_class_of(bytes)].bytes : 0;
    return bytes > GB_MAX_BYTES
        ? bytes
        : gb_round_up(bytes, bytes > GB_LARGE_MAX ? gb_the.page_bytes + !gb_the.page_bytes : GB_SLICE_BYTES);
}

void *calloc(size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total))
        return gb_out_of_memory();
    return gb_calloc_own(1, crt_whole(total));
}
CRT(calloc)

void *realloc(void *block, size_t bytes)
{
    return glebe_realloc(block, bytes);
}
CRT(realloc)

size_t _msize(void *block)
{
    if (block)
        return gb_block_bytes("_msize", block);
    errno = EINVAL;
    return SIZE_MAX;
}
CRT(_msize)

void *_recalloc(void *block, size_t count, size_t bytes)
{
    size_t total, before = block ? gb_block_bytes("_recalloc", block) : 0;
    if (__builtin_mul_overflow(count, bytes, &total))
        return gb_out_of_memory();
    if (block && before == 0 && !gb_zero_in_use(block)) { /* gb_block_bytes reported it */
        errno = EINVAL;
        return NULL;
    }
    char *resized = glebe_realloc(block, crt_whole(total));
    size_t after = resized ? gb_block_bytes("_recalloc", resized) : 0;
    if (after > before)
        memset(resized + before, 0, after - before);
    return resized;
}
CRT(_recalloc)

/* Resizes in place, or returns NULL. */
void *_expand(void *block, size_t bytes)
{
    if (!block || bytes > GB_MAX_BYTES)
        return NULL;
    size_t before = gb_block_bytes("_expand", block); /* 0: gb_block_bytes reported it */
    const gb_page *entry = gb_page_entry(block);
    bool large = entry && entry->kind == GB_FREE;
    return before && (before >= bytes || (large && gb_large_resize(block, bytes))) ? block : NULL;
}
CRT(_expand)

/* ---- copies of strings ---- */

char *_strdup(const char *string)
{
    return string ? glebe_strdup(string) : NULL;
}
CRT(_strdup)

char *strdup(const char *string)
{
    return _strdup(string);
}
CRT(strdup)

unsigned char *_mbsdup(const unsigned char *string)
{
    return (unsigned char *)_strdup((const char *)string);
}
CRT(_mbsdup)

wchar_t *_wcsdup(const wchar_t *string)
{
    if (!string)
        return NULL;
    size_t bytes = (wcslen(string) + 1) * sizeof *string;
    wchar_t *copy = malloc(bytes);
    return copy ? memcpy(copy, string, bytes) : NULL;
}
CRT(_wcsdup)

wchar_t *wcsdup(const wchar_t *string)
{
    return _wcsdup(string);
}
CRT(wcsdup)

/* ---- aligned blocks ---- */

void _aligned_free(void *block)
{
    char *start = (char *)(block ? gb_block_start(block) : 0);
    if (block && !start) { /* a block of the C library, which stores its start before the aligned address */
        start = ((char **)((uintptr_t)block & ~(sizeof(char *) - 1)))[-1];
        if (!start || !gb_port_foreign_bytes(start)) {
            gb_report_address("_aligned_free", block);
            return;
        }
    }
    gb_free("_aligned_free", gb_self, start);
}
CRT(_aligned_free)

size_t _aligned_msize(void *block, size_t alignment, size_t offset)
{
    (void)alignment;
    (void)offset;
    char *start = (char *)(block ? gb_block_start(block) : 0);
    if (start)
        return gb_block_bytes("_aligned_msize", start) - (size_t)((char *)block - start);
    errno = EINVAL;
    return SIZE_MAX;
}
CRT(_aligned_msize)

/* Returns a block for which block + offset is a multiple of the alignment. */
void *_aligned_offset_malloc(size_t bytes, size_t alignment, size_t offset)
{
    if (!gb_is_pow2(alignment) || (offset != 0 && offset >= bytes)) {
        errno = EINVAL;
        return NULL;
    }
    size_t front = -offset & (alignment - 1);
    if (bytes > GB_MAX_BYTES - front)
        return gb_out_of_memory();
    char *start = gb_alloc_aligned(gb_self, alignment, bytes + front);
    return start ? start + front : NULL;
}
CRT(_aligned_offset_malloc)

static void *aligned_resize(void *block, size_t bytes, size_t alignment, size_t offset, bool clear)
{
    if (block && bytes == 0) {
        _aligned_free(block);
        return NULL;
    }
    size_t before = block ? _aligned_msize(block, alignment, offset) : 0;
    if (before == SIZE_MAX) {
        gb_report_address("_aligned_realloc", block);
        return NULL;
    }
    bool stays = block && bytes <= before && bytes > before / 2 && (((uintptr_t)block + offset) & (alignment - 1)) == 0;
    char *resized = stays ? block : _aligned_offset_malloc(bytes, alignment, offset);
    if (!resized || stays)
        return resized;
    size_t after = _aligned_msize(resized, alignment, offset), kept = before < after ? before : after;
    if (block)
        memcpy(resized, block, kept);
    if (clear)
        memset(resized + kept, 0, after - kept);
    _aligned_free(block);
    return resized;
}

void *_aligned_malloc(size_t bytes, size_t alignment)
{
    return _aligned_offset_malloc(bytes, alignment, 0);
}
CRT(_aligned_malloc)

void *_aligned_realloc(void *block, size_t bytes, size_t alignment)
{
    return aligned_resize(block, bytes, alignment, 0, false);
}
CRT(_aligned_realloc)

void *_aligned_offset_realloc(void *block, size_t bytes, size_t alignment, size_t offset)
{
    return aligned_resize(block, bytes, alignment, offset, false);
}
CRT(_aligned_offset_realloc)

void *_aligned_offset_recalloc(void *block, size_t count, size_t bytes, size_t alignment, size_t offset)
{
    size_t total;
    return __builtin_mul_overflow(count, bytes, &total) ? gb_out_of_memory()
                                                        : aligned_resize(block, total, alignment, offset, true);
}
CRT(_aligned_offset_recalloc)

void *_aligned_recalloc(void *block, size_t count, size_t bytes, size_t alignment)
{
    return _aligned_offset_recalloc(block, count, bytes, alignment, 0);
}
CRT(_aligned_recalloc)
