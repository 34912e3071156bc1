/* The functions that the compiler calls in code compiled with -fsanitize=thread, instead of that sanitizer's library.
 * Only the subject is compiled that way, not this file. Outside a running case an access is a plain access. */
#include "engine.h"

#define PC __builtin_return_address(0)

/* Ends a loop that never reaches an atomic operation, as in a broken list. */
static uint64_t patience;
void hooks_reset(void);
void hooks_reset(void) { patience = 1000000; }

static inline void plain(const volatile void *p, size_t bytes, bool write, const void *pc)
{
    if (--patience == 0)
        il_fail("a loop without end at %s", host_line(pc, 0));
    if (il_active)
        races_access(il_thread(), (uintptr_t)p, bytes, write, false, pc);
}

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
void __tsan_read_range(void *p, size_t bytes);
void __tsan_read_range(void *p, size_t bytes) { plain(p, bytes, false, PC); }
void __tsan_write_range(void *p, size_t bytes);
void __tsan_write_range(void *p, size_t bytes) { plain(p, bytes, true, PC); }

#define PLAIN(name, bytes, write) \
    void __tsan_##name(void *p); \
    void __tsan_##name(void *p) { plain(p, bytes, write, PC); }
#define PLAINS(bytes) \
    PLAIN(read##bytes, bytes, false) PLAIN(write##bytes, bytes, true) \
    PLAIN(volatile_read##bytes, bytes, false) PLAIN(volatile_write##bytes, bytes, true)
PLAINS(1) PLAINS(2) PLAINS(4) PLAINS(8) PLAINS(16)
#define UNALIGNED(bytes) PLAIN(unaligned_read##bytes, bytes, false) PLAIN(unaligned_write##bytes, bytes, true)
UNALIGNED(2) UNALIGNED(4) UNALIGNED(8) UNALIGNED(16)

static enum il_order order_of(int order)
{
    switch (order) {
    case __ATOMIC_RELAXED: return IL_RELAXED;
    case __ATOMIC_CONSUME:
    case __ATOMIC_ACQUIRE: return IL_ACQUIRE;
    case __ATOMIC_RELEASE: return IL_RELEASE;
    default: return IL_BOTH;
    }
}

static inline void begin(const volatile void *p, enum il_op op)
{
    if (il_active)
        il_before(p, op);
}

static inline void end(const volatile void *p, size_t bytes, enum il_op op, int order, const void *pc)
{
    if (il_active) {
        races_access(il_thread(), (uintptr_t)p, bytes, op != IL_READ, true, pc);
        il_after(p, op, order_of(order), pc);
    }
}

#define FETCH(T, bits, name, expression) \
    T __tsan_atomic##bits##_##name(volatile T *p, T v, int order); \
    T __tsan_atomic##bits##_##name(volatile T *p, T v, int order) \
    { \
        begin(p, IL_UPDATE); \
        T old = *p; \
        *p = (T)(expression); \
        end(p, sizeof(T), IL_UPDATE, order, PC); \
        return old; \
    }

/* A weak compare-and-swap may fail spuriously, if the scheduler says so. gcc marks the weak ones; clang calls _val for
 * all. */
#define COMPARE(T, bits, name, weak) \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile T *p, T *expected, T v, int order, int failed); \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile T *p, T *expected, T v, int order, int failed) \
    { \
        begin(p, IL_UPDATE); \
        bool equal = *p == *expected && !(weak && il_active && il_choose(2)); \
        if (equal) \
            *p = v; \
        else \
            *expected = *p; \
        end(p, sizeof(T), equal ? IL_UPDATE : IL_READ, equal ? order : failed, PC); \
        return equal; \
    }

#define ATOMICS(T, bits) \
    T __tsan_atomic##bits##_load(const volatile T *p, int order); \
    T __tsan_atomic##bits##_load(const volatile T *p, int order) \
    { \
        begin(p, IL_READ); \
        T v = *p; \
        end(p, sizeof(T), IL_READ, order, PC); \
        return v; \
    } \
    void __tsan_atomic##bits##_store(volatile T *p, T v, int order); \
    void __tsan_atomic##bits##_store(volatile T *p, T v, int order) \
    { \
        begin(p, IL_WRITE); \
        *p = v; \
        end(p, sizeof(T), IL_WRITE, order, PC); \
    } \
    FETCH(T, bits, exchange, v) \
    FETCH(T, bits, fetch_add, old + v) \
    FETCH(T, bits, fetch_sub, old - v) \
    FETCH(T, bits, fetch_and, old &v) \
    FETCH(T, bits, fetch_or, old | v) \
    FETCH(T, bits, fetch_xor, old ^ v) \
    COMPARE(T, bits, strong, false) \
    COMPARE(T, bits, weak, true) \
    T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T expected, T v, int order, int failed); \
    T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T expected, T v, int order, int failed) \
    { \
        begin(p, IL_UPDATE); \
        T old = *p; \
        if (old == expected) \
            *p = v; \
        end(p, sizeof(T), old == expected ? IL_UPDATE : IL_READ, old == expected ? order : failed, PC); \
        return old; \
    }

ATOMICS(uint8_t, 8)
ATOMICS(uint16_t, 16)
ATOMICS(uint32_t, 32)
ATOMICS(uint64_t, 64)

/* No protocol uses fences; one that does must teach races.c about them. */
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    if (il_active)
        il_fail("a fence: races.c does not know them");
}
