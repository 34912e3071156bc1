/* What every other layer uses: a lock, messages, accounts, bounds. */
#ifndef GB_BASE_H
#define GB_BASE_H

#include "../port/port.h"
#include "../types.h"
#include "entry.h"

#pragma GCC visibility push(hidden)

/* ---- lock: a futex mutex; never held across anything that may allocate ---- */
#if GB_THREADS
void gb_lock_take(gb_lock *lock);
void gb_lock_drop(gb_lock *lock);
#else
GB_INLINE void gb_lock_take(gb_lock *lock) { (void)lock; }
GB_INLINE void gb_lock_drop(gb_lock *lock) { (void)lock; }
#endif
bool gb_lock_try(gb_lock *lock);
/* From here on, until as many calls with `false`, this thread, which holds every lock, does not take or drop any. */
void gb_lock_fork(bool begins);

/* ---- report: misuse and exhaustion ----
 * One line on stderr with the call, the address and what is known of it; then abort, or go on if the option says so. */
GB_COLD void gb_report(const char *call, const void *address, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* ENOMEM and NULL, counted. */
GB_COLD void *gb_out_of_memory(void);
/* `text` cut to `bytes`, with ? for what would break a line, and for each character of `but`. */
void gb_plain(char *out, size_t bytes, const char *text, const char *but);
char *gb_decimal(uint64_t value, char *out24);
/* A small printf (%s %zu %u %p), that does not allocate or lock. Returns the length of the whole. */
size_t gb_format(char *out, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- audit: the audit build's bit for each block ---- */
void gb_audit_born(const void *block);
bool gb_audit_alive(const void *block);
/* Memory was freed with whatever blocks were in it. */
void gb_audit_wipe(uintptr_t start, size_t bytes);
bool gb_audit_died(const void *block);

/* ---- bounds: how much freed memory may be kept ---- */
/* Locked. Idle memory beyond what the process may keep, which grows with what is in use; and of extents alone. */
size_t gb_bounds_over(void);
size_t gb_bounds_extents(void);
/* Locked: memory that was not resident was handed out, or an extent became idle. Sets gb_the.kept.over. */
void gb_bounds_changed(void);
/* Is it of no thread now? Its pages wait for heaps that need some. */
GB_INLINE bool gb_heap_abandoned(const glebe_heap *heap)
{
    return GB_THREADS && gb_load_relaxed(&heap->kind) == GB_HEAP_ABANDONED;
}
/* Owner. May the heap keep a page of so many bytes that became empty? */
bool gb_bounds_spare(const glebe_heap *heap, size_t bytes);
/* May a page that empties be searched for holes now? */
bool gb_bounds_look(glebe_heap *heap);
/* So many bytes are about to be taken: true if the heap becomes larger than it ever was. */
bool gb_bounds_grow(glebe_heap *heap, size_t bytes);
/* They were. */
void gb_bounds_grew(glebe_heap *heap);

#pragma GCC visibility pop

#endif
