/* What the fast paths fall back to. */
#ifndef GB_SERVE_H
#define GB_SERVE_H

#include "../linear/linear.h"
#include "../retain/retain.h"

#pragma GCC visibility push(hidden)

/* ---- slow: what the spine in slow.h calls by a pointer ---- */
/* The source had nothing. */
GB_COLD void *gb_serve_again(glebe_heap *heap, gb_source *source, gb_request *request);
/* The thread has no heap. */
GB_COLD void *gb_serve_first(gb_source *source, gb_request *request);

/* ---- alloc, free: the fast paths are in alloc.h; this is what they fall back to ---- */
/* front[cls] is empty. */
void *gb_small_refill(glebe_heap *heap, size_t cls);
GB_NOINLINE void *gb_alloc_aligned(glebe_heap *heap, size_t alignment, size_t bytes);
/* What free() does with a block in a page that is not `self`'s, or is parked. */
GB_NOINLINE void gb_free_page(glebe_heap *self, gb_page *page, void *block, const char *call);
/* Bytes usable at a block; 0 where the address is not the start of one, which is reported under the name `call`. */
size_t gb_block_bytes(const char *call, const void *block);
/* What the caller says of a block that it frees; false, and reported, where it is surely wrong. A block may be
 * larger than was asked for, and an aligned one by a lot, so that is a size which the block cannot hold. */
bool gb_size_fits(const char *call, const void *block, size_t bytes);
bool gb_alignment_fits(const char *call, const void *block, size_t alignment);
/* The fast paths out of line: see gb_alloc_seldom. */
GB_NOINLINE void *gb_alloc_any(glebe_heap *heap, size_t bytes);
GB_NOINLINE void gb_free_any(const char *call, glebe_heap *self, void *block);
void *gb_realloc(const char *call, glebe_heap *self, void *block, size_t bytes);

#pragma GCC visibility pop

#endif
