/* The safe build's shadow: two bits for each 16 bytes of the chunks, in pairs of words of 64.
 *
 *     held     a block that was freed, and is not free for reuse yet, starts there. Threads set it by atomic operations
 *     reached  some word of the program's memory holds an address there; a sweep (serve/safe.c) sets it, and afterwards
 *              replaces the word by the bits of the held blocks that it releases */
#include "base.h"

bool gb_held_block(const void *block)
{
    uint64_t bit, *word = gb_held_word(block, &bit);
    return __atomic_load_n(word, __ATOMIC_RELAXED) & bit;
}

bool gb_held_set(const void *block)
{
    uint64_t bit, *word = gb_held_word(block, &bit);
    return !(__atomic_fetch_or(word, bit, __ATOMIC_RELEASE) & bit);
}
