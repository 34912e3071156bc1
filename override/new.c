/* Every operator new and delete, by their mangled names, in C: so the library needs no C++ runtime, and a program that has none
 * pays for none. What the standard wants where memory ends (the new_handler, then std::bad_alloc) is taken from the program's
 * own C++ runtime by weak references; a program that calls operator new has one.
 *
 * Exceptions pass through these frames, so they need unwind tables: the ABIs of x86-64 and AArch64 always have them, and
 * cmake/variants.cmake asks for them elsewhere. */
#include <errno.h>

#include "../src/alloc.h"

#define EXPORT __attribute__((visibility("default"), used))
#if UINTPTR_MAX == UINT_MAX && !defined(__LP64__)
#define SIZE "j" /* how size_t is mangled */
#else
#define SIZE "m"
#endif

typedef void (*new_handler)(void);
extern new_handler std_get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern _Noreturn void std_throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

/* The standard's loop: ask the handler to make room until it does, or there is none. */
GB_COLD static void *new_retry(size_t alignment, size_t bytes, bool throws)
{
    for (;;) {
        new_handler handler = std_get_new_handler ? std_get_new_handler() : NULL;
        if (!handler)
            break;
        handler();
        void *block = gb_alloc_aligned(gb_self, alignment, bytes);
        if (block)
            return block;
    }
    if (throws && std_throw_bad_alloc)
        std_throw_bad_alloc();
    if (throws) {
        static const char text[] = "glebe: operator new: out of memory, and no C++ runtime to throw std::bad_alloc\n";
        gb_port_print(text, sizeof text - 1);
        gb_port_abort();
    }
    return NULL;
}

GB_INLINE void *new_plain(size_t bytes, bool throws)
{
    void *block = gb_alloc(gb_self, bytes);
    return GB_LIKELY(block) ? block : new_retry(1, bytes, throws);
}

GB_INLINE void *new_aligned(size_t bytes, size_t alignment, bool throws)
{
    void *block = gb_alloc_aligned(gb_self, alignment, bytes);
    return GB_LIKELY(block) ? block : new_retry(alignment, bytes, throws);
}

/* name in C, mangled name, parameters, body */
#define NEW(name, mangled, parameters, body) \
    EXPORT void *name parameters __asm__(mangled); \
    void *name parameters { return body; }

NEW(new_one, "_Znw" SIZE, (size_t n), new_plain(n, true))
NEW(new_array, "_Zna" SIZE, (size_t n), new_plain(n, true))
NEW(new_one_nothrow, "_Znw" SIZE "RKSt9nothrow_t", (size_t n, const void *tag), ((void)tag, new_plain(n, false)))
NEW(new_array_nothrow, "_Zna" SIZE "RKSt9nothrow_t", (size_t n, const void *tag), ((void)tag, new_plain(n, false)))
NEW(new_one_aligned, "_Znw" SIZE "St11align_val_t", (size_t n, size_t a), new_aligned(n, a, true))
NEW(new_array_aligned, "_Zna" SIZE "St11align_val_t", (size_t n, size_t a), new_aligned(n, a, true))
NEW(new_one_aligned_nothrow, "_Znw" SIZE "St11align_val_tRKSt9nothrow_t", (size_t n, size_t a, const void *tag), ((void)tag, new_aligned(n, a, false)))
NEW(new_array_aligned_nothrow, "_Zna" SIZE "St11align_val_tRKSt9nothrow_t", (size_t n, size_t a, const void *tag), ((void)tag, new_aligned(n, a, false)))

/* The sizes that delete is told are the compiler's own and need no check. */
#define DELETE(name, mangled, parameters) \
    EXPORT void name parameters __asm__(mangled); \
    void name parameters { gb_free("operator delete", gb_self, block); }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
DELETE(delete_one, "_ZdlPv", (void *block))
DELETE(delete_array, "_ZdaPv", (void *block))
DELETE(delete_one_sized, "_ZdlPv" SIZE, (void *block, size_t n))
DELETE(delete_array_sized, "_ZdaPv" SIZE, (void *block, size_t n))
DELETE(delete_one_nothrow, "_ZdlPvRKSt9nothrow_t", (void *block, const void *tag))
DELETE(delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", (void *block, const void *tag))
DELETE(delete_one_aligned, "_ZdlPvSt11align_val_t", (void *block, size_t a))
DELETE(delete_array_aligned, "_ZdaPvSt11align_val_t", (void *block, size_t a))
DELETE(delete_one_sized_aligned, "_ZdlPv" SIZE "St11align_val_t", (void *block, size_t n, size_t a))
DELETE(delete_array_sized_aligned, "_ZdaPv" SIZE "St11align_val_t", (void *block, size_t n, size_t a))
DELETE(delete_one_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", (void *block, size_t a, const void *tag))
DELETE(delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", (void *block, size_t a, const void *tag))
#pragma GCC diagnostic pop
