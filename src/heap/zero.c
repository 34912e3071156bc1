/* Blocks of no bytes: what malloc(0) returns. Each has an address of its own, where nobody may read or write. So a
 * program that uses such a block as if it had bytes faults there.
 *
 *     zeros.base |  0|  1|  2|  3| ... 64 blocks, 16 bytes apart ...|  64|  65| ...     address space without access
 *     zeros.bits |  one word: bit i is 1 if block i is free         |  word 1   ...     one bit a block, elsewhere
 *
 * malloc takes the slow path for 0 bytes, because the thread free list of GB_ZERO_CLASS is always empty. free does too,
 * since these addresses are in no chunk. So requests of other sizes pay nothing, and nothing is in use before the first
 * malloc(0).
 *
 * A thread takes the blocks of a word from the lowest to the highest, and then goes to another word. So a freed block
 * is not the next one, and a second free of it is found. If a few words have no free block, more words are added: an
 * address costs only its bit. If no more fit, malloc(0) returns a block of one byte.
 *
 * 1. Any thread sets and clears bits, by one atomic operation on a word. There is no owner, and no lock but for growth.
 * 2. A word below `words` has blocks, and stays so. Their memory is never accessible.
 *
 * Heaps of the program's are destroyed with all their blocks, so these blocks are not for them. */
#include "heap.h"

enum { ZERO_WORD = 64, ZERO_LOOKS = 8 };
static GB_TLS uint32_t zero_next; /* the number of the block after the one that this thread took last */

/* Returns the bits of a word of blocks that have the alignment. */
static uint64_t zero_aligned(uint32_t word, size_t alignment)
{
    size_t step = alignment / GB_ZERO_BYTES;
    uint64_t bits = 1;
    if (step <= 1)
        return UINT64_MAX;
    if (step >= ZERO_WORD)
        return word % (step / ZERO_WORD) == 0;
    for (; step < ZERO_WORD; step *= 2)
        bits |= bits << step;
    return bits;
}

/* Takes one of these blocks of the word. Returns 0 if none is free. */
static uintptr_t zero_claim(uint32_t word, uint64_t which)
{
    uint64_t bits = gb_load_relaxed(&gb_the.zeros.bits[word]);
    while (bits & which) {
        unsigned bit = gb_ctz64(bits & which);
        if (gb_cas(&gb_the.zeros.bits[word], &bits, bits & ~((uint64_t)1 << bit))) {
            zero_next = word * ZERO_WORD + bit + 1;
            return gb_the.zeros.base + (size_t)(zero_next - 1) * GB_ZERO_BYTES;
        }
    }
    return 0;
}

/* Locked. Makes sure that words up to `words` have blocks. */
static bool zero_reach(uint32_t words)
{
    const size_t piece = GB_GRANULE_BYTES;
    if (words > gb_the.zeros.words_max)
        return false;
    size_t need = (size_t)words * ZERO_WORD * GB_ZERO_BYTES;
    while (!gb_the.reserved && gb_the.zeros.committed < need) {
        uintptr_t at = gb_the.zeros.base + gb_the.zeros.committed;
        if (gb_port_commit(at, piece, false) != GB_COMMITTED)
            return false;
        gb_port_protect(at, piece);
        glebe_live.stats.table_bytes += piece;
        gb_the.zeros.committed += piece;
    }
    return gb_meta_commit((void *)gb_the.zeros.bits, &gb_the.zeros.bits_committed, words * sizeof(uint64_t));
}

/* Adds words until one has a block of this alignment, and takes that. */
static uintptr_t zero_grow(size_t alignment)
{
    uintptr_t block = 0;
    gb_lock_take(&gb_the.lock);
    if (gb_region_start()) {
        uint32_t word = gb_load_relaxed(&gb_the.zeros.words), last = word;
        while (zero_aligned(last, alignment) == 0)
            last++;
        if (zero_reach(last + 1)) {
            for (; word <= last; word++)
                gb_store_relaxed(&gb_the.zeros.bits[word], UINT64_MAX);
            block = zero_claim(last, zero_aligned(last, alignment));
            gb_store(&gb_the.zeros.words, last + 1);
        }
    }
    gb_lock_drop(&gb_the.lock);
    return block;
}

void *gb_zero_take(size_t alignment)
{
    uint32_t words = gb_load(&gb_the.zeros.words), word = zero_next / ZERO_WORD;
    uint64_t later = UINT64_MAX << zero_next % ZERO_WORD;
    if (alignment > GB_GRANULE_BYTES)
        return NULL;
    for (int looks = 0; looks < ZERO_LOOKS && words; looks++) {
        uintptr_t block = word < words ? zero_claim(word, later & zero_aligned(word, alignment)) : 0;
        if (block)
            return (void *)block;
        word = atomic_fetch_add_explicit(&gb_the.zeros.next, 1, memory_order_relaxed) % words;
        later = UINT64_MAX;
    }
    return (void *)zero_grow(alignment);
}

/* Returns the bit of the block that starts there, and its word; 0 if none does. */
static uint64_t zero_bit(const void *block, _Atomic uint64_t **word)
{
    uintptr_t offset = (uintptr_t)block - gb_the.zeros.base;
    uintptr_t number = offset / GB_ZERO_BYTES;
    if (offset % GB_ZERO_BYTES || number / ZERO_WORD >= gb_load(&gb_the.zeros.words))
        return 0;
    *word = &gb_the.zeros.bits[number / ZERO_WORD];
    return (uint64_t)1 << number % ZERO_WORD;
}

bool gb_zero_place(const void *address)
{
    size_t bytes = (size_t)gb_the.zeros.words_max * ZERO_WORD * GB_ZERO_BYTES;
    return (uintptr_t)address - gb_the.zeros.base < bytes;
}

bool gb_zero_in_use(const void *block)
{
    _Atomic uint64_t *word;
    uint64_t bit = zero_bit(block, &word);
    return bit && (gb_load(word) & bit) == 0;
}

bool gb_zero_give(const void *block)
{
    _Atomic uint64_t *word;
    uint64_t bit = zero_bit(block, &word);
    return bit && (atomic_fetch_or_explicit(word, bit, memory_order_acq_rel) & bit) == 0;
}

void gb_zero_report(const char *call, const void *address, const char *twice)
{
    _Atomic uint64_t *word;
    if (zero_bit(address, &word))
        gb_report(call, address, "%sthe block of 0 bytes here is free already", twice);
    else
        gb_report(call, address, "address is between two blocks of 0 bytes, or none was given out here");
}
