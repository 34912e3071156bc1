/* Blocks above the small ones: one interface with two implementations. glebe.c includes one of them.
 *
 *     big.c                medium blocks in pages, runs of slices, extents
 *     linear/big.c         blocks with tags, where memory is one piece
 *
 * `entry` is the entry of the slice where the block starts; NULL: the block is in no chunk. */
#ifndef GB_BIG_H
#define GB_BIG_H

#include "serve.h"

#pragma GCC visibility push(hidden)

/* Returns a block of `bytes`, more than GB_SMALL_MAX; NULL if there is no memory. */
void *gb_alloc_big(glebe_heap *heap, size_t bytes);
/* gb_alloc_big for calloc: all bytes behind the first *dirty ones are known to be zero. */
void *gb_alloc_dirty(glebe_heap *heap, size_t bytes, size_t *dirty);
/* Returns a block with an alignment of more than 16. It may be a small one. */
void *gb_big_aligned(glebe_heap *heap, size_t alignment, size_t bytes);
/* Returns the usable bytes of the block in use that starts there, or 0. gb_block_bytes serves most small blocks
 * itself. */
size_t gb_big_bytes(gb_page *entry, const void *block);
/* Resizes the block, in place or by moving its OS pages. Returns its address, or NULL if that takes copying. The block
 * is in no page of a class, and has `before` bytes. */
void *gb_big_resize(gb_page *entry, void *block, size_t before, size_t bytes);
/* Returns a block with room to grow, to replace `block`, which grows to GB_GROWN_FROM or more. It may be `block`
 * itself. */
void *gb_big_grown(glebe_heap *heap, void *block, size_t bytes);
/* free() of an address in no chunk, and of an address in a slice that `self` does not own. */
GB_NOINLINE void gb_free_elsewhere(const char *call, void *block);
GB_NOINLINE void gb_free_unowned(glebe_heap *self, gb_page *entry, void *block, const char *call);
/* Returns the heap of the block in use that starts there; NULL if none starts there, or the block is in a page. */
const glebe_heap *gb_big_heap(gb_page *entry, const void *block);
/* Frees all blocks of the heap that are in no page of a class. */
void gb_big_give(glebe_heap *heap);

#pragma GCC visibility pop

#endif
