/* Blocks above the small ones: one interface with two implementations, of which glebe.c takes one.
 *
 *     big.c                medium blocks in pages, runs of slices, extents
 *     linear/big.c         blocks with tags, where memory is one piece
 *
 * `entry` is that of the slice where the block starts; NULL: the block is in no chunk. */
#ifndef GB_BIG_H
#define GB_BIG_H

#include "serve.h"

#pragma GCC visibility push(hidden)

/* More than GB_SMALL_MAX bytes. */
void *gb_alloc_big(glebe_heap *heap, size_t bytes);
/* The same. *dirty: so many bytes from its start may not be zero. */
void *gb_alloc_dirty(glebe_heap *heap, size_t bytes, size_t *dirty);
/* The alignment is more than 16; the block may be a small one. */
void *gb_big_aligned(glebe_heap *heap, size_t alignment, size_t bytes);
/* Bytes usable at a block that is no small one of the default build; 0 where none starts there. */
size_t gb_big_bytes(gb_page *entry, const void *block);
/* The block, which is in no page of a class, with so many bytes and its content, here or elsewhere, if that takes no
 * copying; else NULL. */
void *gb_big_resize(gb_page *entry, void *block, size_t bytes);
/* For a block that grows to GB_GROWN_FROM or more: one with room to grow on, which may be the block itself. */
void *gb_big_grown(glebe_heap *heap, void *block, size_t bytes);
/* What free() does with an address in no chunk, and with one in a slice that is not `self`'s. */
GB_NOINLINE void gb_free_elsewhere(const char *call, void *block);
GB_NOINLINE void gb_free_unowned(glebe_heap *self, gb_page *entry, void *block, const char *call);
/* The heap of the block in use that starts there; NULL where none does, and for blocks in pages. */
const glebe_heap *gb_big_heap(gb_page *entry, const void *block);
/* All of the heap's that are in no page of a class. */
void gb_big_give(glebe_heap *heap);

#pragma GCC visibility pop

#endif
