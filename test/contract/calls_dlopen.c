/* The control for opens.c: a dlopen that calls the next one, and so becomes its caller. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stddef.h>

void *dlopen(const char *name, int mode)
{
    void *(*next)(const char *, int);
    *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
    void *volatile handle = next(name, mode);
    return handle;
}
