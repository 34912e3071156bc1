/* Every operator new and delete, by their mangled names, in C. So the library needs no C++ runtime, and a program
 * without one does not pay for one. When memory runs out, the standard requires the new_handler and then
 * std::bad_alloc. Both come from the program's own C++ runtime, by weak references. If a plugin loaded the runtime
 * after glebe and in a scope of its own, a look-up in the scope of the caller's object finds them.
 *
 *     new            no memory --> handler, repeatedly --> no handler left: throw bad_alloc     exceptions pass through
 *     new(nothrow)   no memory --> no handler: NULL
 *                              --> the runtime's own new(nothrow), which calls new above inside try and catch
 *
 * C cannot catch an exception of the handler, so the nothrow forms leave that case to the forms that they replaced.
 * Exceptions pass through these frames, so they need unwind tables: the ABIs of x86-64 and AArch64 always have them,
 * and CMakeLists.txt requests them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>

#include "../src/core.h"
#include "new.h"

#define EXPORT __attribute__((visibility("default"), used))

typedef void (*new_handler)(void);
typedef new_handler new_get_handler(void);
typedef void new_throw(void);
typedef void *new_form(size_t bytes, const void *tag);
typedef void *new_form_aligned(size_t bytes, size_t alignment, const void *tag);
#define GET_HANDLER "_ZSt15get_new_handlerv"
#define THROW_BAD_ALLOC "_ZSt17__throw_bad_allocv"
extern new_get_handler std_get_new_handler __asm__(GET_HANDLER) __attribute__((weak));
extern new_throw std_throw_bad_alloc __asm__(THROW_BAD_ALLOC) __attribute__((weak));

/* Static programs may have no loader. */
extern void *dlsym(void *restrict, const char *restrict) __attribute__((weak));
extern void *dlopen(const char *, int) __attribute__((weak));
extern int dlclose(void *) __attribute__((weak));
extern int dladdr(const void *, Dl_info *) __attribute__((weak));

/* Returns the address of `name` in the libraries after glebe, or else in the caller's object and the libraries that it
 * needs; NULL if there is none, or if it is `own`. */
GB_COLD static void *new_find(const char *name, const void *caller, const void *own)
{
    Dl_info info;
    void *found = dlsym ? dlsym(RTLD_NEXT, name) : NULL;
    if (!found && dlsym && dlopen && dlclose && dladdr && dladdr(caller, &info) && info.dli_fname) {
        void *object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (object) {
            found = dlsym(object, name);
            dlclose(object); /* the object stays loaded: the caller runs in it */
        }
    }
    return found == own ? NULL : found;
}

/* Data and functions have the same kind of address on every system with a dlsym. */
#define FUNCTION(type, address) (((union { void *data; type *function; }){address}).function)

GB_COLD static new_handler handler_now(const void *caller)
{
    new_get_handler *get = std_get_new_handler ? std_get_new_handler
                                               : FUNCTION(new_get_handler, new_find(GET_HANDLER, caller, NULL));
    return get ? get() : NULL;
}

/* Blocks as new returns them. The entries are here, because an exception that passes one would skip its end. */
GB_INLINE void *new_given(size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_alloc_own(bytes));
}

GB_INLINE void *new_given_aligned(size_t alignment, size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_alloc_aligned(gb_self, alignment, bytes));
}

GB_INLINE void *new_given_few(size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_alloc_few(gb_self, bytes, false));
}

GB_INLINE void *new_given_secure(size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_alloc_secure(gb_self, bytes, false));
}

/* The standard's loop: calls the handler until there is memory, or no handler is left. */
GB_COLD static void *new_ask(size_t alignment, size_t bytes, const void *caller)
{
    for (new_handler handler; (handler = handler_now(caller)) != NULL;) {
        handler();
        void *block = new_given_aligned(alignment, bytes);
        if (block)
            return block;
    }
    return NULL;
}

GB_COLD void *override_new_retry(size_t alignment, size_t bytes, const void *caller)
{
    void *block = new_ask(alignment, bytes, caller);
    if (block)
        return block;
    new_throw *throw_it = std_throw_bad_alloc ? std_throw_bad_alloc
                                              : FUNCTION(new_throw, new_find(THROW_BAD_ALLOC, caller, NULL));
    if (throw_it)
        throw_it();
    static const char text[] = "glebe: operator new: out of memory, and no C++ runtime to throw std::bad_alloc\n";
    gb_port_print(text, sizeof text - 1);
    gb_port_abort();
}

/* `name` and `own` are the form that was called. A static program has no other form, so a handler that throws ends that
 * program. */
GB_COLD void *override_nothrow_retry(
    size_t alignment, size_t bytes, const void *tag, const void *caller, const char *name, void *own)
{
    if (!handler_now(caller))
        return NULL;
    void *theirs = new_find(name, caller, own);
    if (!theirs)
        return new_ask(alignment, bytes, caller);
    return alignment ? FUNCTION(new_form_aligned, theirs)(bytes, alignment, tag)
                     : FUNCTION(new_form, theirs)(bytes, tag);
}

#define CALLER __builtin_return_address(0)

/* new without an alignment. In the secure build what is not served at once is a tail call, so that the short path needs
 * no frame. */
static GB_NOINLINE void *new_secure(size_t bytes, const void *caller)
{
    void *block = new_given_secure(bytes);
    return GB_LIKELY(block) ? block : override_new_retry(0, bytes, caller);
}
#define NEW_AT_ONCE (GB_SECURE ? new_given_few(n) : new_given(n))
#define NEW_LATER (GB_SECURE ? new_secure(n, CALLER) : override_new_retry(0, n, CALLER))

/* name in C, mangled name, parameters, how to allocate, what to do if that returns NULL */
#define NEW(name, mangled, parameters, alloc, otherwise) \
    EXPORT void *name parameters __asm__(mangled); \
    void *name parameters \
    { \
        void *block = alloc; \
        return GB_LIKELY(block) ? block : otherwise; \
    }
/* The same; the last parameter is the alignment, or 0 if none was requested. */
#define NEW_NOTHROW(name, mangled, parameters, alloc, alignment)                                                   \
    EXPORT void *name parameters __asm__(mangled);                                                                 \
    void *name parameters                                                                                          \
    {                                                                                                              \
        void *block = alloc;                                                                                       \
        return GB_LIKELY(block) ? block                                                                            \
                                : override_nothrow_retry(alignment, n, tag, CALLER, mangled, FUNCTION_DATA(name)); \
    }
#define FUNCTION_DATA(name) ((void *)(uintptr_t)(name))

NEW(new_one, "_Znw" NEW_SIZE, (size_t n), NEW_AT_ONCE, NEW_LATER)
NEW(new_array, "_Zna" NEW_SIZE, (size_t n), NEW_AT_ONCE, NEW_LATER)
NEW_NOTHROW(new_one_nothrow, "_Znw" NEW_SIZE "RKSt9nothrow_t", (size_t n, const void *tag), new_given(n), 0)
NEW_NOTHROW(new_array_nothrow, "_Zna" NEW_SIZE "RKSt9nothrow_t", (size_t n, const void *tag), new_given(n), 0)
NEW(new_one_aligned, "_Znw" NEW_SIZE "St11align_val_t", (size_t n, size_t a), new_given_aligned(a, n),
    override_new_retry(a, n, CALLER))
NEW(new_array_aligned, "_Zna" NEW_SIZE "St11align_val_t", (size_t n, size_t a), new_given_aligned(a, n),
    override_new_retry(a, n, CALLER))
NEW_NOTHROW(new_one_aligned_nothrow, "_Znw" NEW_SIZE "St11align_val_tRKSt9nothrow_t",
    (size_t n, size_t a, const void *tag), new_given_aligned(a, n), a)
NEW_NOTHROW(new_array_aligned_nothrow, "_Zna" NEW_SIZE "St11align_val_tRKSt9nothrow_t",
    (size_t n, size_t a, const void *tag), new_given_aligned(a, n), a)

/* A wrong destructor, or a type other than that of new, passes a wrong size or alignment. The secure and the audit
 * build report that. The default build does so only where delete gets an alignment, since few programs call that form.
 * For others the check of the size would add six instructions. */
GB_COLD static bool delete_allowed(const void *block, size_t bytes, size_t alignment)
{
    static const char call[] = "operator delete";
    return !block || (gb_alignment_fits(call, block, alignment) && gb_size_fits(call, block, bytes));
}

static GB_NOINLINE void delete_secure(void *block, size_t bytes)
{
    if (delete_allowed(block, bytes, 1))
        gb_free_seldom("operator delete", gb_self, gb_tag_taken("operator delete", block));
}

/* Most deletes in the secure build are of small blocks, and check and free at once. */
#define DELETE_TOLD(name, mangled, parameters, bytes, alignment) \
    EXPORT void name parameters __asm__(mangled); \
    void name parameters \
    { \
        GB_ENTRY; \
        if (GB_SECURE && !GB_TAGS && (alignment) == 1) { \
            if (!GB_LIKELY(gb_free_told(gb_self, block, bytes))) \
                delete_secure(block, bytes); \
        } else if (!(GB_SECURE || GB_AUDIT || (alignment) != 1) || delete_allowed(block, bytes, alignment)) \
            gb_free_given("operator delete", gb_self, block); \
    }
#define DELETE(name, mangled, parameters) \
    EXPORT void name parameters __asm__(mangled); \
    void name parameters \
    { \
        GB_ENTRY; \
        gb_free_given("operator delete", gb_self, block); \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
DELETE(delete_one, "_ZdlPv", (void *block))
DELETE(delete_array, "_ZdaPv", (void *block))
DELETE_TOLD(delete_one_sized, "_ZdlPv" NEW_SIZE, (void *block, size_t n), n, 1)
DELETE_TOLD(delete_array_sized, "_ZdaPv" NEW_SIZE, (void *block, size_t n), n, 1)
DELETE(delete_one_nothrow, "_ZdlPvRKSt9nothrow_t", (void *block, const void *tag))
DELETE(delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", (void *block, const void *tag))
DELETE_TOLD(delete_one_aligned, "_ZdlPvSt11align_val_t", (void *block, size_t a), 0, a)
DELETE_TOLD(delete_array_aligned, "_ZdaPvSt11align_val_t", (void *block, size_t a), 0, a)
DELETE_TOLD(delete_one_sized_aligned, "_ZdlPv" NEW_SIZE "St11align_val_t", (void *block, size_t n, size_t a), n, a)
DELETE_TOLD(delete_array_sized_aligned, "_ZdaPv" NEW_SIZE "St11align_val_t", (void *block, size_t n, size_t a), n, a)
DELETE_TOLD(
    delete_one_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", (void *block, size_t a, const void *tag), 0, a)
DELETE_TOLD(
    delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", (void *block, size_t a, const void *tag), 0, a)
#pragma GCC diagnostic pop
