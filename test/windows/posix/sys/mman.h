/* The parts of mmap that tests use, by Windows' own calls. Memory without access is only reserved, so it reads as zero
 * when it gets access again. No call reports resident memory. The calls are declared here, since <windows.h> would take
 * most of a test's compile time. */
#ifndef POSIX_SYS_MMAN_H
#define POSIX_SYS_MMAN_H

#include <stddef.h>

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 1
#define MAP_ANON 2
#define MAP_ANONYMOUS MAP_ANON
#define MAP_FIXED 4
#define MAP_FAILED ((void *)-1)
#define MADV_NORMAL 0
#define MADV_DONTNEED 4

__declspec(dllimport) void *__stdcall VirtualAlloc(void *, size_t, unsigned long, unsigned long);
__declspec(dllimport) int __stdcall VirtualFree(void *, size_t, unsigned long);
enum { WINDOWS_COMMIT = 0x1000, WINDOWS_RESERVE = 0x2000, WINDOWS_DECOMMIT = 0x4000, WINDOWS_RELEASE = 0x8000,
    WINDOWS_NO_ACCESS = 1, WINDOWS_READ_WRITE = 4 };

static inline int mprotect(void *at, size_t bytes, int protection)
{
    if (protection == PROT_NONE)
        return VirtualFree(at, bytes, WINDOWS_DECOMMIT) ? 0 : -1;
    return VirtualAlloc(at, bytes, WINDOWS_COMMIT, WINDOWS_READ_WRITE) ? 0 : -1;
}

static inline int madvise(void *at, size_t bytes, int advice)
{
    if (advice != MADV_DONTNEED)
        return 0;
    return mprotect(at, bytes, PROT_NONE) == 0 ? mprotect(at, bytes, PROT_READ | PROT_WRITE) : -1;
}

static inline void *mmap(void *at, size_t bytes, int protection, int flags, int file, long offset)
{
    (void)file, (void)offset;
    void *p = flags & MAP_FIXED ? at : VirtualAlloc(at, bytes, WINDOWS_RESERVE, WINDOWS_NO_ACCESS);
    if (!p || (flags & MAP_FIXED && mprotect(p, bytes, PROT_NONE) != 0)
        || (protection != PROT_NONE && mprotect(p, bytes, protection) != 0))
        return MAP_FAILED;
    return p;
}

static inline int munmap(void *at, size_t bytes)
{
    (void)bytes; /* all of what mmap returned */
    return VirtualFree(at, 0, WINDOWS_RELEASE) ? 0 : -1;
}

static inline int mincore(void *at, size_t bytes, unsigned char *resident)
{
    (void)at, (void)bytes, (void)resident;
    return -1;
}

#endif
