/* A shim to preload: the system call mremap as it may end for a block that is several mappings, or whose place another
 * thread took. glibc's and musl's syscall() is what the core calls.
 *
 * Prints "mremap" for each.
 *
 *     MOVE=made      the program's own
 *     MOVE=refused   nothing moves
 *     MOVE=taken     the same, and other code has mapped something at the proposed place
 *     MOVE=away      moves elsewhere
 *     MOVE=lost      moves elsewhere, and is refused the way back */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

long syscall(long number, ...)
{
    static long (*next)(long, ...);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    const char *how = getenv("MOVE");
    if (number != SYS_mremap || !how)
        return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    int back = a[3] & MREMAP_FIXED;
    if (write(STDERR_FILENO, "mremap\n", 7) != 7)
        abort();
    if (strcmp(how, "made") == 0)
        return next(number, a[0], a[1], a[2], a[3], a[4], 0);
    if (strcmp(how, "lost") == 0 ? !back : strcmp(how, "away") == 0)
        return next(number, a[0], a[1], a[2], a[3], back ? a[4] : 0, 0);
    if (strcmp(how, "taken") == 0) {
        char *p = mmap((void *)a[4], 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        memset(p, 0x77, 4096);
    }
    errno = EFAULT;
    return -1;
}
