/* What tests use of mmap, by the system's own calls. Memory that was given back reads as zero, as elsewhere. */
#ifndef POSIX_SYS_MMAN_H
#define POSIX_SYS_MMAN_H

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 1
#define MAP_ANONYMOUS 2
#define MAP_ANON MAP_ANONYMOUS
#define MAP_FAILED ((void *)-1)

static inline void *mmap(void *at, size_t bytes, int protection, int flags, int file, long offset)
{
    (void)flags, (void)file, (void)offset;
    void *p = VirtualAlloc(at, bytes, MEM_RESERVE | MEM_COMMIT, protection == PROT_NONE ? PAGE_NOACCESS : PAGE_READWRITE);
    return p ? p : MAP_FAILED;
}

#endif
