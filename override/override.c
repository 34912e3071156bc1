/* The malloc family under the C library's names; no other file defines these names. It is compiled beside src/glebe.c
 * into the library for preloading and into the archive for linking. The fast paths are inlined here, so malloc costs
 * one call through the PLT.
 *
 * include/glebe.h describes each function at its glebe_ counterpart. Functions without one (mallopt, mallinfo and so
 * on) are described here; their results come from the statistics. */
#include <errno.h>

#include "../src/core.h"

#ifndef __wasm__
#include <stdio.h>
#endif

#ifdef __wasm__
#define EXPORT __attribute__((visibility("default"))) /* a module gets only the functions that it calls */
#else
#define EXPORT __attribute__((visibility("default"), used))
#endif

/* Read by other copies of glebe in a module (wasm.c), and in a static program (linux.c). */
#ifdef __wasm__
EXPORT const char gb_is_malloc = 1;
#else
__attribute__((visibility("hidden"))) extern const char gb_is_malloc;
const char gb_is_malloc = 1;
#endif

EXPORT void *malloc(size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_alloc_own(bytes));
}

EXPORT void free(void *block)
{
    GB_ENTRY;
    gb_free_given("free", gb_self, block);
}

EXPORT void cfree(void *block)
{
    GB_ENTRY;
    gb_free_given("cfree", gb_self, block);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_calloc_own(count, bytes));
}

EXPORT void *realloc(void *block, size_t bytes)
{
    return glebe_realloc(block, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
    return glebe_aligned_alloc(alignment, bytes);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    return glebe_posix_memalign(out, alignment, bytes);
}

EXPORT void *memalign(size_t alignment, size_t bytes)
{
    return glebe_memalign(alignment, bytes);
}

EXPORT void *valloc(size_t bytes)
{
    return glebe_valloc(bytes);
}

EXPORT size_t malloc_usable_size(void *block)
{
    return glebe_usable_size(block);
}

/* ---- functions that another malloc may lack ----
 *
 * If jemalloc's library is before this one in LD_PRELOAD, malloc is jemalloc's, which has none of these. These
 * functions then use the process's malloc. The loader puts its address into a pointer; the alias is this library's
 * own. */

#ifdef __ELF__
static void own_free(void *) __attribute__((alias("free"), nothrow));
static void (*const volatile process_free)(void *) = free;
#define ELSEWHERE (process_free != own_free)
#else
#define ELSEWHERE false
#endif

EXPORT void *reallocarray(void *block, size_t count, size_t bytes)
{
    size_t total;
    if (ELSEWHERE && !__builtin_mul_overflow(count, bytes, &total))
        return realloc(block, total);
    return glebe_reallocarray(block, count, bytes);
}

EXPORT void free_sized(void *block, size_t bytes)
{
    if (ELSEWHERE)
        free(block);
    else
        glebe_free_sized(block, bytes);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t bytes)
{
    if (ELSEWHERE)
        free(block);
    else
        glebe_free_aligned_sized(block, alignment, bytes);
}

EXPORT void *pvalloc(size_t bytes)
{
    return ELSEWHERE && bytes <= GB_MAX_BYTES ? valloc(gb_round_up(bytes, gb_port_page_bytes())) : glebe_pvalloc(bytes);
}

/* ---- functions that glibc adds ---- */

/* Returns 1 if memory was purged, as glibc's does. Ignores `pad`, which bounds the free top of a heap that grows by
 * brk: glebe has no such heap. */
EXPORT int malloc_trim(size_t pad)
{
    (void)pad;
    return glebe_trim(NULL) != 0;
}

/* glibc's parameters describe glibc's arenas. glebe accepts them without effect, so that programs that tune malloc run
 * on. */
EXPORT int mallopt(int parameter, int value)
{
    (void)parameter;
    (void)value;
    return 1;
}

/* The layouts of glibc's <malloc.h>, repeated here because musl's has none. */
struct override_mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct override_mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

EXPORT struct override_mallinfo2 mallinfo2(void)
{
    glebe_stats s;
    glebe_stats_read(&s);
    size_t used = gb_blocks_bytes();
    size_t chunks = GB_LINEAR ? (size_t)s.committed_bytes
                              : (size_t)(gb_the.arena.chunks - gb_the.arena.away.count) << GB_CHUNK_LOG2;
    return (struct override_mallinfo2){.arena = chunks, .hblks = gb_the.huge.blocks, .hblkhd = (size_t)s.huge_bytes,
        .uordblks = used, .fordblks = chunks > used ? chunks - used : 0};
}

EXPORT struct override_mallinfo mallinfo(void)
{
    struct override_mallinfo2 m = mallinfo2();
    return (struct override_mallinfo){.arena = (int)m.arena, .hblks = (int)m.hblks, .hblkhd = (int)m.hblkhd,
        .uordblks = (int)m.uordblks, .fordblks = (int)m.fordblks};
}

EXPORT void malloc_stats(void)
{
    char text[4096];
    size_t length = glebe_stats_text(text, sizeof text);
    gb_port_print(text, length < sizeof text ? length : sizeof text - 1);
}

#ifndef __wasm__ /* this function would pull the C library's streams into a module */
#define INFO_FIELD(name, unit, meaning) "  <" #name " unit=\"" unit "\">%llu</" #name ">\n"
#define INFO_VALUE(name, unit, meaning) , (unsigned long long)s.name

EXPORT int malloc_info(int options, FILE *stream)
{
    if (options != 0)
        return EINVAL;
    glebe_stats s;
    glebe_stats_read(&s);
    int n = fprintf(stream, "<malloc version=\"glebe-%d\">\n" GLEBE_STATS(INFO_FIELD) "</malloc>\n",
        GLEBE_VERSION GLEBE_STATS(INFO_VALUE));
    return n < 0 ? -1 : 0;
}
#endif
