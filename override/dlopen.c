/* dlopen and dlmopen without RTLD_DEEPBIND, so that one process has one malloc.
 *
 *     a module finds malloc in         opened as usual                        opened with RTLD_DEEPBIND
 *                                      program, glebe (preloaded), libc ...   module, its libraries, libc: libc's
 *
 * A module that was opened with RTLD_DEEPBIND would pass glebe's blocks to libc's free, and libc's blocks to glebe's.
 * So these functions clear the flag if malloc is glebe's, unless the option `deepbind` keeps it (docs/decisions/0024).
 *
 * The loader knows the caller by the return address: the caller's RUNPATH and $ORIGIN decide where to search, its
 * namespace where to load. So both functions end in a jump, which the compiler makes here even without optimization.
 *
 * This file is for shared libraries. A program with glebe linked in keeps the C library's dlopen: a static program has
 * no other dlopen to jump to. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

#include "../src/core.h"

#if defined(RTLD_DEEPBIND) && defined(__PIC__) && !defined(__PIE__)

#define EXPORT __attribute__((visibility("default"), used))

#if defined(__clang__)
#define JUMPS
#define JUMP __attribute__((musttail)) return
#else
#define JUMPS __attribute__((optimize("O2")))
#define JUMP return
#endif

typedef void *dlopen_form(const char *file, int mode);
typedef void *dlmopen_form(Lmid_t space, const char *file, int mode);

static void *dlopen_nothing(const char *file, int mode)
{
    (void)file;
    (void)mode;
    return NULL; /* dlerror says why */
}

static void *dlmopen_nothing(Lmid_t space, const char *file, int mode)
{
    (void)space;
    (void)file;
    (void)mode;
    return NULL;
}

static _Atomic(dlopen_form *) dlopen_next; /* the next functions of these names; NULL: not searched yet */
static _Atomic(dlmopen_form *) dlmopen_next;
static _Atomic bool dlopen_ours; /* the program's malloc is this library's */

/* Data and functions have the same kind of address on every system with a dlsym. */
#define FUNCTION(type, address) (((union { void *data; type *function; }){address}).function)

GB_COLD static void dlopen_start(void)
{
    void *next = dlsym(RTLD_NEXT, "dlmopen");
    gb_store(&dlmopen_next, next ? FUNCTION(dlmopen_form, next) : dlmopen_nothing);
    next = dlsym(RTLD_NEXT, "dlopen");
    dlopen_form *open = next ? FUNCTION(dlopen_form, next) : dlopen_nothing;
    void *program = open(NULL, RTLD_LAZY), *theirs = program ? dlsym(program, "malloc") : NULL;
    Dl_info mine, found;
    gb_store(&dlopen_ours,
        theirs && dladdr(theirs, &found) && dladdr((void *)&dlopen_next, &mine) && found.dli_fbase == mine.dli_fbase);
    if (gb_self == &gb_heap_none && gb_thread_start()) /* starting a heap reads the options */
        gb_thread_late();
    gb_store(&dlopen_next, open);
}

static int dlopen_mode(int mode)
{
    return gb_load_relaxed(&dlopen_ours) && !gb_the.options.deepbind ? mode & ~RTLD_DEEPBIND : mode;
}

EXPORT JUMPS void *dlopen(const char *file, int mode)
{
    if (!gb_load(&dlopen_next))
        dlopen_start();
    dlopen_form *next = gb_load(&dlopen_next);
    mode = dlopen_mode(mode);
    JUMP next(file, mode);
}

/* Another namespace has its own C library, and so its own malloc. */
EXPORT JUMPS void *dlmopen(Lmid_t space, const char *file, int mode)
{
    if (!gb_load(&dlopen_next))
        dlopen_start();
    dlmopen_form *next = gb_load(&dlmopen_next);
    if (space == LM_ID_BASE)
        mode = dlopen_mode(mode);
    JUMP next(space, file, mode);
}

#endif
