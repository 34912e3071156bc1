/* Functions that the fast paths fall back to. "Owner" means that the caller owns the heap. */
#ifndef GB_SERVE_H
#define GB_SERVE_H

#include "../linear/linear.h"
#include "../retain/retain.h"

#pragma GCC visibility push(hidden)

/* ---- slow: functions that the spine in slow.h calls out of line ---- */
/* Called when the source returned NULL: makes room and calls the source again. */
GB_COLD void *gb_serve_again(glebe_heap *heap, gb_source *source, gb_request *request);
/* Called when the thread has no heap: serves the request from a common heap, or starts a heap. */
GB_COLD void *gb_serve_first(gb_source *source, gb_request *request);

/* ---- alloc, free: slow parts of the fast paths in alloc.h ---- */
/* Serves a block of the class when front[cls] is empty, and refills it. */
void *gb_small_refill(glebe_heap *heap, size_t cls);
/* Serves a request of `bytes` by a block of a small class that holds them. Secure build. */
void *gb_alloc_of_class(glebe_heap *heap, uint32_t cls, size_t bytes);
/* Serves a request that gb_secure_take left; with `words`, one of gb_alloc_words. Secure build. */
GB_NOINLINE void *gb_alloc_secure(glebe_heap *heap, size_t bytes, bool words);
GB_NOINLINE void *gb_alloc_aligned(glebe_heap *heap, size_t alignment, size_t bytes);
/* free() of a block in a page that is not `self`'s, or in a parked page. */
GB_NOINLINE void gb_free_page(glebe_heap *self, gb_page *page, void *block, const char *call);
/* Returns the usable bytes of the block; 0, after a report that names `call`, if no block in use starts there. A block
 * of no bytes has 0 without a report. */
size_t gb_block_bytes(const char *call, const void *block);
/* Check the size or alignment that the caller states for a block that it frees. Return false, after a report, if it is
 * surely wrong. A block may be larger than the request, an aligned block much larger. So only a size beyond the usable
 * bytes is wrong; the secure build knows the request of a block up to 64 KiB. */
bool gb_size_fits(const char *call, const void *block, size_t bytes);
bool gb_alignment_fits(const char *call, const void *block, size_t alignment);
/* The fast paths out of line: see gb_alloc_seldom. */
GB_NOINLINE void *gb_alloc_any(glebe_heap *heap, size_t bytes);
GB_NOINLINE void gb_free_any(const char *call, glebe_heap *self, void *block);
void *gb_realloc(const char *call, glebe_heap *self, void *block, size_t bytes);

/* ---- safe: the safe build's free. Else not defined ---- */
GB_NOINLINE void gb_safe_free(const char *call, glebe_heap *self, void *block);
/* Releases the held blocks that no word points into. Returns whether it did so. */
bool gb_safe_sweep(void);

#pragma GCC visibility pop

#endif
