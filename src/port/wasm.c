/* The host contract (../port.h) in WebAssembly: one linear memory. It begins behind what the linker laid out, at
 * __heap_base, and grows by memory.grow in units of 64 KiB; nothing ever goes back.
 *
 * Others may let it grow too (another allocator in the module, the host). The caller gets what was added, so what we
 * get then does not follow what we had, which the core expects. */
#include "../base/config.h"
#include "port.h"

enum { WASM_PAGE_LOG2 = 16 };

extern unsigned char __heap_base; /* from the linker */

static bool wasm_begun;

/* Is there another malloc in the module? It would take the rest of what the module starts with, and some take, when
 * they begin, all of memory that is there then: so it must have begun, and has that rest. override.c says that it is
 * malloc itself. */
#if GB_IS_MALLOC
static bool wasm_other_malloc(void) { return false; }
#else
extern void *malloc(size_t bytes) __attribute__((weak));
extern void free(void *block) __attribute__((weak));
extern const char gb_is_malloc __attribute__((weak));

static bool wasm_other_malloc(void)
{
    if (!malloc || !free || &gb_is_malloc)
        return false;
    void *volatile first = malloc(1);
    free(first);
    return true;
}
#endif

uintptr_t gb_port_grow(size_t *bytes)
{
    bool alone = !wasm_begun && !wasm_other_malloc();
    uintptr_t end = (uintptr_t)__builtin_wasm_memory_size(0) << WASM_PAGE_LOG2, at = end;
    if (alone) { /* the rest of what the module starts with */
        uintptr_t first = gb_round_up((uintptr_t)&__heap_base, GB_SLICE_BYTES);
        if (first < end)
            at = first;
    }
    size_t have = end - at, want = *bytes;
    if (want > have) {
        size_t pages = (want - have + ((size_t)1 << WASM_PAGE_LOG2) - 1) >> WASM_PAGE_LOG2;
        size_t before = __builtin_wasm_memory_grow(0, pages);
        if (before == SIZE_MAX)
            return 0;
        if (before << WASM_PAGE_LOG2 != end) { /* another thread let it grow just now: what is before that is lost to us */
            at = before << WASM_PAGE_LOG2;
            have = 0;
        }
        have += pages << WASM_PAGE_LOG2;
    }
    wasm_begun = true;
    *bytes = have;
    return at;
}

/* V8 (node, Chrome) tells the other threads of a longer memory when they next look for interrupts, and never tells a
 * thread that was just being handed the memory. Until then that thread's memory.fill, memory.copy and atomic
 * instructions trap beyond the length that it knows. memory.grow by nothing brings the length up to date. */
void gb_port_grown(uintptr_t end)
{
    if (GB_UNLIKELY(__builtin_wasm_memory_size(0) < end >> WASM_PAGE_LOG2))
        __builtin_wasm_memory_grow(0, 0);
}

_Noreturn void gb_port_abort(void)
{
    __builtin_trap();
}

/* ---- threads ---- */

#ifdef __wasm_atomics__
void gb_port_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    int64_t ns = ms == UINT32_MAX ? -1 : (int64_t)ms * 1000000;
    __builtin_wasm_memory_atomic_wait32((int *)(uintptr_t)word, (int)expected, ns);
}

void gb_port_wake(_Atomic uint32_t *word)
{
    __builtin_wasm_memory_atomic_notify((int *)(uintptr_t)word, 1);
}
#endif

/* ---- what a module does not have: a clock, words, options from outside ---- */

size_t gb_port_page_bytes(void) { return (size_t)1 << WASM_PAGE_LOG2; }
uint32_t gb_port_now_ms(void) { return 0; }
uint64_t gb_port_random(void) { return (uintptr_t)&wasm_begun; }
const char *gb_port_environment(const char *name) { return (void)name, NULL; }
char *const *gb_port_environment_all(void) { return NULL; }
void gb_port_print(const char *text, size_t bytes) { (void)text, (void)bytes; }
void gb_port_keep_stderr(void) {}
void gb_port_say(const char *text, size_t bytes) { (void)text, (void)bytes; }
bool gb_port_append(const char *path, const char *text, size_t bytes) { return (void)path, (void)text, (void)bytes, false; }
const char *gb_port_program(void) { return ""; }
uint32_t gb_port_process(void) { return 0; }
