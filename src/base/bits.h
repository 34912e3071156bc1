/* Basic operations: attributes, bit counting, rounding, and atomics with their memory order in the name. Internal
 * headers push hidden visibility: a shared library exports only the public API, and internal accesses are direct. */
#ifndef GB_BITS_H
#define GB_BITS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "libc.h"

#define GB_LIKELY(x) __builtin_expect(!!(x), 1)
#define GB_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define GB_NOINLINE __attribute__((noinline))
#define GB_COLD __attribute__((noinline, cold))
#define GB_INLINE static inline __attribute__((always_inline))
#define GB_TLS _Thread_local GB_TLS_MODEL

/* odd, with mixed bits: each high bit of a product depends on all bits of the other factor */
#define GB_GOLDEN ((uintptr_t)(sizeof(uintptr_t) == 8 ? UINT64_C(0x9e3779b97f4a7c15) : 0x9e3779b1u))
GB_INLINE unsigned gb_ctz64(uint64_t x) { return (unsigned)__builtin_ctzll(x); }
GB_INLINE unsigned gb_ctz32(uint32_t x) { return (unsigned)__builtin_ctz(x); }
GB_INLINE unsigned gb_log2(uint64_t x) { return 63u - (unsigned)__builtin_clzll(x); } /* floor; x > 0 */
GB_INLINE unsigned gb_log2_ceil(uint64_t x) { return x <= 1 ? 0 : gb_log2(x - 1) + 1; }

GB_INLINE unsigned gb_popcount64(uint64_t x)
{
    if (GB_POPCOUNT)
        return (unsigned)__builtin_popcountll(x);
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return (unsigned)(x * UINT64_C(0x0101010101010101) >> 56);
}
GB_INLINE unsigned gb_popcount32(uint32_t x)
{
    return GB_POPCOUNT ? (unsigned)__builtin_popcount(x) : gb_popcount64(x);
}

/* Bit `i` of a table of words. */
GB_INLINE bool gb_bit(const uint64_t *bits, size_t i) { return bits[i / 64] >> i % 64 & 1; }
GB_INLINE void gb_bit_set(uint64_t *bits, size_t i) { bits[i / 64] |= (uint64_t)1 << i % 64; }

/* Returns the product's low half, and its high half in *high. */
GB_INLINE uint64_t gb_mul_wide(uint64_t a, uint64_t b, uint64_t *high)
{
#ifdef __SIZEOF_INT128__
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
#else /* requires a < 2^32; 32-bit hosts need no more */
    uint64_t low = a * (uint32_t)b, middle = a * (b >> 32) + (low >> 32);
    *high = middle >> 32;
    return middle << 32 | (uint32_t)low;
#endif
}

/* A counter of 2^30 to 2^33 per second. It is always 0 if programs cannot read the processor's counter cheaply, or if
 * a test controls time. Use it only to notice that a long time has passed. */
GB_INLINE uint64_t gb_cycles(void)
{
#if defined(GB_PORT_FAKE) /* and in test/interleave */
    return 0;
#elif defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t count; /* 2^24 to 2^30 a second */
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count << 5;
#else
    return 0;
#endif
}

/* `to` is a power of two. Rounding up wraps to 0 past the end of memory, so callers bound `x` first. */
GB_INLINE size_t gb_round_up(size_t x, size_t to) { return (x + to - 1) & ~(to - 1); }
GB_INLINE size_t gb_round_down(size_t x, size_t to) { return x & ~(to - 1); }
GB_INLINE bool gb_is_pow2(size_t x) { return x != 0 && (x & (x - 1)) == 0; }

/* Milliseconds from `then` to `now`, by a clock that wraps after 49 days. Returns 0 if `then` is later by up to
 * three days: another thread read the clock after this one. */
GB_INLINE uint32_t gb_ms_since(uint32_t now, uint32_t then)
{
    uint32_t ms = now - then;
    return ms >> 28 == 15 ? 0 : ms;
}

/* Returns whether `ms` is later than `than` on the same clock, by up to three days. */
GB_INLINE bool gb_ms_later(uint32_t ms, uint32_t than)
{
    return ms != than && (ms - than) >> 28 == 0;
}

/* A relaxed load on a fast path. The field has a plain twin `_peek` in a union: compilers fold a plain load into the
 * compare, but not an atomic one. The race sanitizer gets the atomic load. */
#if defined(__SANITIZE_THREAD__)
#define GB_PEEK_ATOMIC 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GB_PEEK_ATOMIC 1
#endif
#endif
#ifdef GB_PEEK_ATOMIC
#define gb_peek(field) gb_load_relaxed(&field)
#else
#define gb_peek(field) (field##_peek)
#endif

#define gb_load(p) atomic_load_explicit(p, memory_order_acquire)
#define gb_load_relaxed(p) atomic_load_explicit(p, memory_order_relaxed)
#define gb_store(p, v) atomic_store_explicit(p, v, memory_order_release)
#define gb_store_relaxed(p, v) atomic_store_explicit(p, v, memory_order_relaxed)
#define gb_swap(p, v) atomic_exchange_explicit(p, v, memory_order_acq_rel)
#define gb_or(p, v) atomic_fetch_or_explicit(p, v, memory_order_acq_rel)
#define gb_and(p, v) atomic_fetch_and_explicit(p, v, memory_order_acq_rel)
#define gb_add(p, v) atomic_fetch_add_explicit(p, v, memory_order_relaxed)
#define gb_sub(p, v) atomic_fetch_sub_explicit(p, v, memory_order_relaxed)
/* Weak: may fail without a reason. On failure *expected holds the value found. */
#define gb_cas(p, expected, v) \
    atomic_compare_exchange_weak_explicit(p, expected, v, memory_order_acq_rel, memory_order_acquire)

#endif
