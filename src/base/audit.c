/* The audit build's shadow: one bit for each 16 bytes of the chunks says whether a block in use starts there. The
 * shadow is a table of the region, committed with the chunks. Threads set and clear bits by atomic operations;
 * gb_audit_wipe needs the region's lock. */
#include "base.h"

static uint64_t *audit_word(const void *block, uint64_t *bit)
{
    size_t i = ((uintptr_t)block - gb_the.base) >> 4;
    *bit = (uint64_t)1 << i % 64;
    return gb_the.shadow + i / 64;
}

void gb_audit_born(const void *block)
{
    uint64_t bit, *word = audit_word(block, &bit);
    if (__atomic_fetch_or(word, bit, __ATOMIC_RELAXED) & bit)
        gb_report("malloc", block, "this block is in use already: glebe's own tables are damaged");
}

void gb_audit_wipe(uintptr_t start, size_t bytes)
{
    memset((char *)gb_the.shadow + ((start - gb_the.base) >> GB_SHADOW_LOG2), 0, bytes >> GB_SHADOW_LOG2);
}

bool gb_audit_alive(const void *block)
{
    uint64_t bit, *word = audit_word(block, &bit);
    return __atomic_load_n(word, __ATOMIC_RELAXED) & bit;
}

bool gb_audit_died(const void *block)
{
    uint64_t bit, *word = audit_word(block, &bit);
    return __atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED) & bit;
}
