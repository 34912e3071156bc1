/* Blocks above the small ones: one interface with two implementations, of which glebe.c takes one.
 *
 *     big.c                medium blocks in pages, runs of slices, extents
 *     linear/big.c         blocks with tags, where memory is one piece
 *
 * `entry` is the entry of the slice where the block starts; NULL: the block is in no chunk. */
#ifndef GB_BIG_H
#define GB_BIG_H

#include "serve.h"

#pragma GCC visibility push(hidden)

/* A block of more than GB_SMALL_MAX bytes; NULL if there is no memory. */
void *gb_alloc_big(glebe_heap *heap, size_t bytes);
/* The same. *dirty: the bytes beyond the first *dirty ones are known to be zero. */
void *gb_alloc_dirty(glebe_heap *heap, size_t bytes, size_t *dirty);
/* The alignment is more than 16. The block may be a small one. */
void *gb_big_aligned(glebe_heap *heap, size_t alignment, size_t bytes);
/* Usable bytes of the block in use that starts there, or 0. gb_block_bytes serves most small blocks itself. */
size_t gb_big_bytes(gb_page *entry, const void *block);
/* Resizes the block if that takes no copying: returns the block, here or elsewhere, else NULL. The block is in no page
 * of a class, and has `before` bytes. */
void *gb_big_resize(gb_page *entry, void *block, size_t before, size_t bytes);
/* A block with room to grow on, for `block`, which grows to GB_GROWN_FROM or more. It may be `block` itself. */
void *gb_big_grown(glebe_heap *heap, void *block, size_t bytes);
/* What free() does with an address in no chunk, and with an address in a slice that is not `self`'s. */
GB_NOINLINE void gb_free_elsewhere(const char *call, void *block);
GB_NOINLINE void gb_free_unowned(glebe_heap *self, gb_page *entry, void *block, const char *call);
/* The heap of the block in use that starts there. NULL: none starts there, or the block is in a page. */
const glebe_heap *gb_big_heap(gb_page *entry, const void *block);
/* Frees all blocks of the heap that are in no page of a class. */
void gb_big_give(glebe_heap *heap);

#pragma GCC visibility pop

#endif
