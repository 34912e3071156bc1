/* Blocks with tags, where memory is linear. */
#ifndef GB_LINEAR_H
#define GB_LINEAR_H

#include "../region/region.h"

#pragma GCC visibility push(hidden)

/* ---- tagged: blocks of any size where memory is linear ---- */
gb_source gb_tagged_source;
/* Takes the block back. Where none in use starts there that is reported as a free: an answer would cost fuel, and
 * wasm prints nothing. */
void gb_tagged_free(uintptr_t start);
/* The block at c, its tag in front of it, is free from now on, together with what is free on either side. */
void gb_tagged_give(gb_tagged *c);
/* [c, c + bytes) becomes free, between blocks in use; and is not on a list any more. Where code must be short. */
void gb_tagged_add(gb_tagged *c, uint32_t bytes);
void gb_tagged_remove(gb_tagged *c);
/* The block that was freed last becomes free. */
void gb_tagged_cool(void);
/* Bytes usable at a block; 0 where none starts. */
size_t gb_tagged_usable(uintptr_t start);
/* Shrinks or grows in place; false, and nothing changed, where that cannot be. */
bool gb_tagged_resize(uintptr_t start, size_t bytes);
glebe_heap *gb_tagged_heap(const gb_tagged *c);
/* The heap of the block in use whose bytes begin there; NULL where none does. */
glebe_heap *gb_tagged_owner(uintptr_t start);

#pragma GCC visibility pop

#endif
