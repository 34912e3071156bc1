/* Blocks with tags, in linear memory. */
#ifndef GB_LINEAR_H
#define GB_LINEAR_H

#include "../region/region.h"

#pragma GCC visibility push(hidden)

/* ---- tagged: blocks of any size in linear memory ---- */
gb_source gb_tagged_source;
/* Frees a block. Reports a double free if no block in use starts there. Returns no result: it would cost instructions,
 * and WebAssembly prints no message. */
void gb_tagged_free(uintptr_t start);
/* Frees the block at c, whose tag is in front of it, and merges it with free neighbours. */
void gb_tagged_give(gb_tagged *c);
/* Makes [c, c + bytes) a free block, between blocks in use. Out of line, for code that must be short. */
void gb_tagged_add(gb_tagged *c, uint32_t bytes);
/* Takes a free block off its list. Out of line too. */
void gb_tagged_remove(gb_tagged *c);
/* Merges the warm block, which was freed last, into free memory. */
void gb_tagged_cool(void);
/* Returns the usable bytes of a block; 0 if none starts there. */
size_t gb_tagged_usable(uintptr_t start);
/* Resizes in place. Returns false, and changes nothing, if it cannot. */
bool gb_tagged_resize(uintptr_t start, size_t bytes);
glebe_heap *gb_tagged_heap(const gb_tagged *c);
/* Returns the heap of the block in use whose first byte is at `start`, or NULL. */
glebe_heap *gb_tagged_owner(uintptr_t start);

#pragma GCC visibility pop

#endif
