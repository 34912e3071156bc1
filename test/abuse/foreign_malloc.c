/* A block of another allocator: the C library's own.
 *
 * all: glebe: free(ADDRESS): address is not from glebe */
#include "abuse.h"

#include <dlfcn.h>

int main(void)
{
    void *(*libc_malloc)(size_t) = (void *(*)(size_t))dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "malloc");
    free(wrong(libc_malloc(SMALL)));
    return abuse_end();
}
