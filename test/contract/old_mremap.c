/* A shim to preload: mremap as in Linux before 6.17, for a range of more than one mapping: it unmaps the target, and
 * then fails. Other code may map the hole before mremap's caller sees the failure: TAKE=1 maps something there. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    char *target = va_arg(list, void *);
    va_end(list);
    (void)old, (void)old_bytes;
    if (flags & MREMAP_FIXED)
        munmap(target, new_bytes);
    if (getenv("TAKE")) {
        char *p = mmap(target, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        memset(p, 0x77, 4096);
    }
    errno = EFAULT;
    return MAP_FAILED;
}
