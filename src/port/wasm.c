/* The host contract (../port.h) in WebAssembly: one linear memory. It begins behind the linker's data, at __heap_base,
 * and grows by memory.grow in units of 64 KiB. No memory is ever returned to the host.
 *
 * Other code may grow it too (another allocator in the module, the host). Growth belongs to the caller, so our next
 * piece may not follow our last one, which the core expects. */
#include "../base/config.h"
#include "port.h"

enum { WASM_PAGE_LOG2 = 16 };

extern unsigned char __heap_base; /* from the linker */

static bool wasm_begun;

/* True if the module has another malloc. That malloc then gets the rest of the module's initial memory. Some mallocs
 * take all memory that exists when they start, so this starts it before glebe grows memory. override.c defines
 * gb_is_malloc, which marks glebe's own malloc. */
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
    if (alone) { /* the rest of the module's initial memory */
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
        /* another thread grew memory just now: memory before its piece is lost to us */
        if (before << WASM_PAGE_LOG2 != end) {
            at = before << WASM_PAGE_LOG2;
            have = 0;
        }
        have += pages << WASM_PAGE_LOG2;
    }
    wasm_begun = true;
    *bytes = have;
    return at;
}

/* When memory grows, V8 (node, Chrome) updates the length that other threads know when they next check for interrupts;
 * it forgets a thread that was just receiving the memory. Until then memory.fill, memory.copy and atomic instructions
 * of such a thread trap beyond the old length. memory.grow by 0 updates the length. */
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

/* ---- a module has no clock, no output, and no options from outside ---- */

size_t gb_port_page_bytes(void) { return (size_t)1 << WASM_PAGE_LOG2; }
uint32_t gb_port_now_ms(void) { return 0; }
uint64_t gb_port_random(void) { return (uintptr_t)&wasm_begun; }
const char *gb_port_environment(const char *name) { return (void)name, NULL; }
char *const *gb_port_environment_all(void) { return NULL; }
void gb_port_print(const char *text, size_t bytes) { (void)text, (void)bytes; }
void gb_port_keep_stderr(void) {}
void gb_port_say(const char *text, size_t bytes) { (void)text, (void)bytes; }
bool gb_port_append(const char *path, const char *text, size_t bytes)
{
    return (void)path, (void)text, (void)bytes, false;
}
const char *gb_port_program(void) { return ""; }
uint32_t gb_port_process(void) { return 0; }
bool gb_port_malloc_elsewhere(void) { return false; }

void gb_port_stop_for(uint32_t parent) { (void)parent; }
