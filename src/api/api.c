/* The malloc family under glebe's own names. override/override.c exports it under the C library's names. */

#include "../serve/alloc.h"
#include "api.h"

int glebe_version(void)
{
    return GLEBE_VERSION;
}

void *glebe_malloc(size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_alloc_own(bytes));
}

void *glebe_calloc(size_t count, size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_calloc_own(count, bytes));
}

/* With memory tags the block gets another tag, even if it stays where it is: the program must use the new address. */
void *gb_resize(const char *call, glebe_heap *heap, void *block, size_t bytes)
{
    if (!block)
        return gb_with_tag(gb_alloc_seldom(heap, bytes));
    void *plain = gb_tag_taken(call, block);
    if (bytes == 0) {
        gb_free_seldom(call, heap, plain);
        return NULL;
    }
    if (GB_TAGS && !plain) {
        errno = EINVAL;
        return NULL;
    }
    void *resized = gb_realloc(call, heap, plain, bytes);
    if (GB_TAGS && !resized && plain != block)
        gb_tags_restore(block);
    return gb_with_tag(resized);
}

void *glebe_realloc(void *block, size_t bytes)
{
    GB_ENTRY;
    if (!GB_SHORT && !block) /* Lua allocates everything so */
        return gb_with_tag(gb_alloc_own(bytes));
    return gb_resize_stays(block, bytes) ? block : gb_resize("realloc", gb_self, block, bytes);
}

void *glebe_reallocarray(void *block, size_t count, size_t bytes)
{
    GB_ENTRY;
    size_t total;
    return __builtin_mul_overflow(count, bytes, &total) ? gb_out_of_memory()
                                                        : gb_resize("reallocarray", gb_self, block, total);
}

void glebe_free(void *block)
{
    GB_ENTRY;
    gb_free_given("free", gb_self, block);
}

void glebe_free_sized(void *block, size_t bytes)
{
    GB_ENTRY;
    if (block && gb_size_fits("free_sized", block, bytes))
        gb_free_given("free_sized", gb_self, block);
}

void glebe_free_aligned_sized(void *block, size_t alignment, size_t bytes)
{
    GB_ENTRY;
    if (block && gb_alignment_fits("free_aligned_sized", block, alignment)
        && gb_size_fits("free_aligned_sized", block, bytes))
        gb_free_given("free_aligned_sized", gb_self, block);
}

void *glebe_aligned_alloc(size_t alignment, size_t bytes)
{
    GB_ENTRY;
    if (!gb_is_pow2(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return gb_with_tag(gb_alloc_aligned(gb_self, alignment, bytes));
}

int glebe_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    GB_ENTRY;
    if (!gb_is_pow2(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int saved = errno;
    void *block = gb_with_tag(gb_alloc_aligned(gb_self, alignment, bytes));
    errno = saved;
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

void *glebe_memalign(size_t alignment, size_t bytes)
{
    GB_ENTRY;
    if (alignment > GB_MAX_BYTES + 1) { /* beyond the largest power of two */
        errno = EINVAL;
        return NULL;
    }
    return gb_with_tag(gb_alloc_aligned(gb_self, (size_t)1 << gb_log2_ceil(alignment), bytes));
}

static size_t api_page_bytes(void)
{
    return gb_the.page_bytes ? gb_the.page_bytes : gb_port_page_bytes();
}

void *glebe_valloc(size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_alloc_aligned(gb_self, api_page_bytes(), bytes));
}

void *glebe_pvalloc(size_t bytes)
{
    GB_ENTRY;
    size_t page = api_page_bytes();
    return bytes > GB_MAX_BYTES ? gb_out_of_memory()
                                : gb_with_tag(gb_alloc_aligned(gb_self, page, gb_round_up(bytes, page)));
}

size_t glebe_usable_size(const void *block)
{
    GB_ENTRY;
    block = gb_without_tag("malloc_usable_size", block);
    return block ? gb_block_bytes("malloc_usable_size", block) : 0;
}

char *glebe_strndup(const char *string, size_t bytes)
{
    GB_ENTRY;
    const char *end = memchr(string, 0, bytes);
    size_t length = end ? (size_t)(end - string) : bytes;
    char *copy = gb_alloc(gb_self, length + 1);
    if (copy) {
        memcpy(copy, string, length);
        copy[length] = 0;
    }
    return gb_with_tag(copy);
}

char *glebe_strdup(const char *string)
{
    return glebe_strndup(string, strlen(string));
}
