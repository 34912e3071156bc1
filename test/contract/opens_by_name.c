/* A library that opens another by its name alone: the loader finds it by this library's RUNPATH, and no other's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

int opens_by_name(const char *name, int mode, int space);
int opens_by_name(const char *name, int mode, int space)
{
    void *handle = space ? dlmopen(LM_ID_BASE, name, mode) : dlopen(name, mode);
    if (!handle)
        fprintf(stderr, "%s\n", dlerror());
    else
        dlclose(handle);
    return handle != NULL;
}
