/* Size classes: which block serves a request, and which block of its page an address is in.
 *
 *     bytes   1..128      every 16           8 classes    small: free blocks linked through themselves
 *             24, 40, 56                     3 classes    for requests that need only the alignment of a word
 *             ..2 KiB     8 a doubling      32 classes
 *             ..64 KiB    8 a doubling      40 classes    medium: free blocks are bits of the page's entry
 *
 * The secure build has one more class, of 80 KiB: a block of 64 KiB with its tail.
 *
 * malloc never uses the classes of 24, 40 and 56 bytes, because it promises an alignment of 16. They serve Lua, for
 * example: a table has 56 bytes, a closure 40.
 *
 * In linear memory (config.h) classes end at 2 KiB, and malloc uses those up to 512 bytes; the others hold collected
 * objects. There are no classes of 24, 40 and 56 bytes.
 *
 * Eight steps a doubling waste 1/16 on average and 1/9 at worst. tools/size-classes makes the table. */
#ifndef GB_SIZE_CLASS_H
#define GB_SIZE_CLASS_H

#include "bits.h"
#include "config.h"
#include "size_class_table.h"

#pragma GCC visibility push(hidden)

/* What malloc takes for the class of a request of no bytes. It has no blocks, so that malloc takes the slow path. */
#define GB_ZERO_CLASS (GB_ZEROS ? GB_CLASSES : 0)

typedef struct gb_class {
    uint32_t bytes;
    uint32_t magic; /* ceil(2^31 / odd part of bytes) */
    uint8_t shift; /* log2 of the power of two in bytes */
    uint8_t first_slices; /* slices of a class's first pages */
    uint8_t slices; /* slices of its pages once the class is in demand */
#if !GB_SHORT
    uint64_t exact; /* ceil(2^64 / bytes) */
#endif
} gb_class;

/* the last row is for mixed pages: it makes gb_class_exact find no block anywhere */
extern const gb_class gb_classes[GB_CLASSES + 1];
/* By bytes, so that malloc need not round them. In linear memory, where code must be short, by (bytes + 15) / 16. */
#define GB_CLASS_SMALL_ROWS (GB_SHORT ? GB_OBJECT_MAX / 16 + 1 : GB_OBJECT_MAX + 1)
extern const uint8_t gb_class_small[GB_CLASS_SMALL_ROWS];
extern const uint8_t gb_class_words[GB_SMALL_MAX / 8 + 1]; /* these two not in linear memory */
#define GB_MEDIUM_ROWS (GB_MEDIUM_MAX / 256 + 1 + GB_SECURE)
extern const uint8_t gb_class_medium[GB_MEDIUM_ROWS];

/* bytes <= GB_OBJECT_MAX. 0: GB_ZERO_CLASS, where it exists; else as 1 */
GB_INLINE uint32_t gb_class_of_small(size_t bytes) { return gb_class_small[GB_SHORT ? (bytes + 15) >> 4 : bytes]; }

/* bytes <= GB_SMALL_MAX; the request needs only the alignment of a word. In the safe build blocks begin at multiples of
 * 16: base/held.c */
GB_INLINE uint32_t gb_class_of_words(size_t bytes)
{
    return GB_SHORT || GB_SAFE ? gb_class_of_small(bytes) : gb_class_words[(bytes + 7) >> 3];
}

/* GB_SMALL_MAX < bytes <= GB_MEDIUM_MAX + GB_TAIL_BYTES */
GB_INLINE uint32_t gb_class_of_medium(size_t bytes)
{
    return GB_SHORT ? GB_CLASSES : gb_class_medium[(bytes + 255) >> 8];
}

/* 0 counts as 1 */
GB_INLINE uint32_t gb_class_of(size_t bytes)
{
    return bytes <= GB_OBJECT_MAX ? gb_class_of_small(bytes + (bytes == 0)) : gb_class_of_medium(bytes);
}

GB_INLINE bool gb_class_is_small(uint32_t cls) { return cls < GB_SMALL_CLASSES; }

/* Returns the least class whose blocks hold `bytes` and are aligned to `alignment`, a power of two of at most a slice;
 * GB_CLASSES if there is none. Pages start on slices, so a size that is a multiple of the alignment is enough. */
GB_INLINE uint32_t gb_class_of_aligned(size_t bytes, size_t alignment)
{
    if (bytes > GB_MEDIUM_MAX + GB_TAIL_BYTES || alignment > GB_MEDIUM_MAX)
        return GB_CLASSES;
    uint32_t cls = gb_class_of(bytes < alignment ? alignment : bytes);
    while (cls < GB_CLASSES && ((size_t)1 << gb_classes[cls].shift) < alignment)
        cls++;
    return cls;
}

/* Returns which block of a page of class `cls` the byte at `offset` is in. */
GB_INLINE uint32_t gb_class_index(uint32_t cls, size_t offset)
{
    const gb_class *c = &gb_classes[cls];
    return (uint32_t)((uint64_t)(offset >> c->shift) * c->magic >> 31);
}

/* Returns whether a block of class `cls` starts at `offset` of its page. *index is the number of the block there. */
GB_INLINE bool gb_class_exact(uint32_t cls, size_t offset, uint32_t *index)
{
#if GB_SHORT
    *index = gb_class_index(cls, offset);
    return *index * gb_classes[cls].bytes == offset;
#else
    uint64_t high, low = gb_mul_wide(offset, gb_classes[cls].exact, &high);
    *index = (uint32_t)high;
    return low < gb_classes[cls].exact;
#endif
}

#pragma GCC visibility pop

#endif
