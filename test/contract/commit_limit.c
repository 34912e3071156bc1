/* A shim that counts memory as Linux does with overcommit_memory=2: it charges memory that becomes writable, and
 * refuses it beyond COMMIT_LIMIT bytes; address space without access is free. Preloaded, it is between glebe and the
 * kernel. */
#include "contract.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static atomic_size_t charged;

static size_t charge_limit(void)
{
    static size_t limit;
    extern char **environ;
    if (!limit)
        for (char **e = environ; e && *e; e++)
            if (strncmp(*e, "COMMIT_LIMIT=", 13) == 0)
                limit = strtoul(*e + 13, NULL, 10);
    return limit;
}

static int charge(size_t bytes)
{
    size_t limit = charge_limit();
    if (limit && atomic_fetch_add(&charged, bytes) + bytes > limit) {
        atomic_fetch_sub(&charged, bytes);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if ((protection & PROT_WRITE) && (flags & MAP_PRIVATE) && charge(bytes) != 0)
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return mmap(at, bytes, protection, flags, fd, offset);
}

/* glebe makes memory writable once; a second request for the same memory would be charged twice, and so be found. */
int mprotect(void *at, size_t bytes, int protection)
{
    if ((protection & PROT_WRITE) && charge(bytes) != 0)
        return -1;
    return (int)syscall(SYS_mprotect, at, bytes, protection);
}
