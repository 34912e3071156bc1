/* dlopen and dlmopen, so that one process has one malloc.
 *
 *     lookup of malloc by a module     opened as usual                        opened with RTLD_DEEPBIND
 *                                      program, glebe (preloaded), libc ...   module, its libraries, libc: libc's malloc
 *
 * A module that was opened with RTLD_DEEPBIND frees by libc's free what glebe allocated, and the other way round. So
 * where malloc is glebe's the flag is left out, unless the option `deepbind` keeps it (docs/decisions/0024).
 *
 * The loader takes the caller from the return address: its RUNPATH and $ORIGIN say where a name is searched, its
 * namespace where the module is loaded. So both functions are jumps: the compiler is made to do that even where it does
 * not optimise.
 *
 * For shared libraries alone. A program that has glebe linked in keeps the C library's dlopen: a static one has no
 * other to go on to. */
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
    return NULL; /* and dlerror says which name was not found */
}

static void *dlmopen_nothing(Lmid_t space, const char *file, int mode)
{
    (void)space;
    (void)file;
    (void)mode;
    return NULL;
}

static _Atomic(dlopen_form *) dlopen_next; /* the functions that ours stand before; NULL: not looked for yet */
static _Atomic(dlmopen_form *) dlmopen_next;
static _Atomic bool dlopen_ours; /* the program's malloc is this library's */

/* Data and functions are one kind of address wherever there is a dlsym. */
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
    if (gb_self == &gb_heap_none && gb_thread_start()) /* the options are read */
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

/* Another namespace has a C library of its own, and so a malloc. */
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
