/* The fake host's address space: a new mapping grows memory; mapping a range again clears it. There is no
 * protection. */
#ifndef SYS_MMAN_STANDS_IN_H
#define SYS_MMAN_STANDS_IN_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 1
#define MAP_ANON 2
#define MAP_FIXED 4
#define MAP_FAILED ((void *)-1)
#define MADV_NORMAL 0
#define MADV_DONTNEED 4

static inline void *mmap(void *at, size_t bytes, int protection, int flags, int file, long offset)
{
    (void)protection, (void)file, (void)offset;
    if (flags & MAP_FIXED)
        return memset(at, 0, bytes);
    /* the C library's malloc takes all existing memory at its first call, so call it now */
    void *volatile first = malloc(1);
    free(first);
    size_t pages = __builtin_wasm_memory_grow(0, (bytes + 65535) >> 16);
    return pages == SIZE_MAX ? MAP_FAILED : (void *)(pages << 16);
}

static inline int munmap(void *at, size_t bytes)
{
    (void)at, (void)bytes; /* linear memory never shrinks */
    return 0;
}

static inline int mprotect(void *at, size_t bytes, int protection)
{
    (void)at, (void)bytes, (void)protection;
    return 0;
}

static inline int mincore(void *at, size_t bytes, unsigned char *resident)
{
    (void)at, (void)bytes, (void)resident;
    return -1;
}

static inline int madvise(void *at, size_t bytes, int advice)
{
    (void)at, (void)bytes, (void)advice;
    return -1;
}

#endif
