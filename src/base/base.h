/* The base layer: locks, messages, the audit bits, bounds on retained memory. */
#ifndef GB_BASE_H
#define GB_BASE_H

#include "../port/port.h"
#include "../types.h"
#include "entry.h"

#pragma GCC visibility push(hidden)

/* ---- lock: a futex mutex. A thread that holds one never allocates ---- */
#if GB_THREADS
void gb_lock_take(gb_lock *lock);
void gb_lock_drop(gb_lock *lock);
#else
GB_INLINE void gb_lock_take(gb_lock *lock) { (void)lock; }
GB_INLINE void gb_lock_drop(gb_lock *lock) { (void)lock; }
#endif
bool gb_lock_try(gb_lock *lock);
/* While this thread forks it holds every lock, and takes and drops none. `begins` starts or ends this; calls nest. */
void gb_lock_fork(bool begins);

/* ---- report: misuse, and lack of memory ----
 * A report is two lines on stderr, in one write: first the call, the address and the finding, then the process. After
 * it the program aborts, or goes on if the option on_error says so. */
GB_COLD void gb_report(const char *call, const void *address, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Counts the failure, sets ENOMEM, and returns NULL. */
GB_COLD void *gb_out_of_memory(void);
/* Copies `text`, cut to `bytes`. Replaces each character in `but`, and each that is not printable ASCII, by ?. */
void gb_plain(char *out, size_t bytes, const char *text, const char *but);
char *gb_decimal(uint64_t value, char *out24);
/* The hexadecimal digit of the lowest four bits. */
GB_INLINE char gb_digit(uint64_t value) { return "0123456789abcdef"[value & 15]; }
/* A small printf (%s %zu %u %p) without allocation or lock. Returns the length of the untruncated text. */
size_t gb_format(char *out, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- audit: the audit build's bit for each block ---- */
void gb_audit_born(const void *block);
bool gb_audit_alive(const void *block);
/* Clears the bits of freed memory, with all blocks in it. */
void gb_audit_wipe(uintptr_t start, size_t bytes);
bool gb_audit_died(const void *block);

/* ---- held: the safe build's bits. A block that was freed is held until no word points into it ---- */
/* Returns the word of the held bits that has the bit of a block, and that bit: held.c. */
GB_INLINE uint64_t *gb_held_word(const void *block, uint64_t *bit)
{
    size_t offset = (uintptr_t)block - gb_the.base;
    *bit = (uint64_t)1 << (offset >> 4) % 64;
    return gb_the.shadow + 2 * (offset >> 10);
}
bool gb_held_block(const void *block);
/* Holds the block. Returns false if it is held already. */
bool gb_held_set(const void *block);

/* ---- memory that is zero. `bytes` is a multiple of a word ---- */
GB_INLINE bool gb_words_zero(const void *at, size_t bytes)
{
    enum { COMPARES_FROM = 128 };
    const uint64_t *words = at;
    uint64_t all = words[0];
    if (bytes > COMPARES_FROM)
        return all == 0 && memcmp(words, words + 1, bytes - sizeof *words) == 0;
    for (size_t i = 1, count = bytes / sizeof *words; i < count; i++)
        all |= words[i];
    return all == 0;
}
/* Clears a block. OS pages that the program never touched stay so: reading one allocates nothing. */
GB_INLINE void gb_clear_touched(void *block, size_t bytes)
{
    for (uintptr_t at = (uintptr_t)block, end = at + bytes, next; at < end; at = next) {
        next = gb_round_up(at + 1, gb_the.page_bytes);
        next = next < end ? next : end;
        if (!gb_words_zero((void *)at, next - at))
            memset((void *)at, 0, next - at);
    }
}

/* ---- bounds: how much freed memory to retain ---- */
/* Locked. Returns the bytes retained beyond the bound of the process, which grows with memory in use. */
size_t gb_bounds_over(void);
/* Locked. Returns the bytes of extents retained beyond the bound of extents. */
size_t gb_bounds_extents(void);
/* Locked. Called when memory that was not resident was handed out, or an extent became idle. Sets gb_the.kept.over
 * if a bound is passed. */
void gb_bounds_changed(void);
/* Returns whether the heap has no thread now. Other heaps may take its pages. */
GB_INLINE bool gb_heap_abandoned(const glebe_heap *heap)
{
    return GB_THREADS && gb_load_relaxed(&heap->kind) == GB_HEAP_ABANDONED;
}
/* Returns whether the heap may retain an empty page of this size. Owner. */
bool gb_bounds_spare(const glebe_heap *heap, size_t bytes);
/* Returns whether the heap may keep a large or huge block of this size as a warm one. Owner. */
bool gb_bounds_warm(const glebe_heap *heap, size_t bytes);
/* Returns whether a page that is becoming empty may be searched for holes now. */
bool gb_bounds_look(glebe_heap *heap);
/* Called before `bytes` are taken. Returns true if the heap becomes larger than ever before. */
bool gb_bounds_grow(glebe_heap *heap, size_t bytes);
/* Called after the bytes were taken. */
void gb_bounds_grew(glebe_heap *heap);

#pragma GCC visibility pop

#endif
