/* Two allocators for comparison. PEER 0 serves every request with the same bytes, so it measures the program's own
 * work. PEER 1 rounds up to a power of two and merges nothing: it must fail the test of memory. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if PEER == 0

static char block[1 << 17];

void *malloc(size_t bytes) { return (void)bytes, block; }
void *calloc(size_t count, size_t bytes) { return (void)count, (void)bytes, block; }
void *realloc(void *at, size_t bytes) { return (void)bytes, at; }
void *aligned_alloc(size_t alignment, size_t bytes) { return (void)alignment, (void)bytes, block; }
void free(void *at) { (void)at; }

#else

static void **lists[32];
extern unsigned char __heap_base;
static uintptr_t at = (uintptr_t)&__heap_base;

void *malloc(size_t bytes)
{
    unsigned log2 = 32 - (unsigned)__builtin_clz((unsigned)bytes + 15);
    void **block = lists[log2];
    if (block)
        lists[log2] = *block;
    else {
        at = (at + 15) & ~(uintptr_t)15;
        block = (void **)(at + 16);
        at += ((size_t)1 << log2) + 16;
        while (at > __builtin_wasm_memory_size(0) << 16)
            if (__builtin_wasm_memory_grow(0, 1) == SIZE_MAX)
                return NULL;
        ((uint32_t *)block)[-1] = log2;
    }
    return block;
}

void free(void *block)
{
    if (!block)
        return;
    *(void **)block = lists[((uint32_t *)block)[-1]];
    lists[((uint32_t *)block)[-1]] = block;
}

void *realloc(void *block, size_t bytes)
{
    void *fresh = malloc(bytes);
    memcpy(fresh, block, bytes < (size_t)1 << ((uint32_t *)block)[-1] ? bytes : (size_t)1 << ((uint32_t *)block)[-1]);
    free(block);
    return fresh;
}

#endif
