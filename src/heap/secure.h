/* The secure build's paths for small blocks of up to SECURE_FEW bytes, for inlining into malloc and free. They do what
 * secure.c describes, and leave everything unusual to it: larger blocks, level 3, and whatever is a report. A block is
 * a few words here, so stores and compares of words are cheaper than memset and memcmp, and nothing needs a frame. */
#ifndef GB_SECURE_H
#define GB_SECURE_H

#include "heap.h"

#pragma GCC visibility push(hidden)

enum { SECURE_FEW = 256, SECURE_FEW_MOST = SECURE_FEW - GB_TAIL_BYTES, PATTERN_MOST = 256 };

/* ---- words of a block up to its tail. A block of the least class has one such word. ---- */

GB_INLINE bool secure_words_zero(const uint64_t *word, const uint64_t *tail)
{
    enum { STEP = 4 };
    if (tail - word < STEP)
        return (word[0] | word[(size_t)(tail - word) / 2] | tail[-1]) == 0;
    uint64_t all = tail[-4] | tail[-3] | tail[-2] | tail[-1] | word[0] | word[1] | word[2] | word[3];
    while ((word += STEP) < tail - STEP)
        all |= word[0] | word[1] | word[2] | word[3];
    return all == 0;
}

GB_INLINE void secure_words_clear(uint64_t *word, uint64_t *tail)
{
    enum { STEP = 4 };
    if (tail - word < STEP) {
        word[0] = word[(size_t)(tail - word) / 2] = tail[-1] = 0;
        return;
    }
    tail[-4] = tail[-3] = tail[-2] = tail[-1] = word[0] = word[1] = word[2] = word[3] = 0;
    for (word += STEP; word < tail - STEP; word += STEP) {
        __asm__("" : "+r"(word)); /* compilers would count the steps first */
        word[0] = word[1] = word[2] = word[3] = 0;
    }
}

/* ---- the pattern between the program's bytes and the tail ---- */

enum { SECURE_BIG_ENDIAN = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };

/* Masks of the last 0 to 8 bytes of a word. */
extern const uint64_t gb_secure_last[];

/* Of a class up to SECURE_FEW a request leaves so many bytes of slack. A block that was resized may have more. */
enum { SECURE_SLACK = 16 };

/* A block that is zero gets its pattern before its tail: stores of eight bytes reach into the tail. The pattern is the
 * same in each word, so from `end` it is rotated. No loop: compilers make too much of it. */
GB_INLINE void secure_pattern_set_few(uint64_t *tail, char *end)
{
    uint64_t pattern = gb_the.tail_pattern;
    if (GB_UNLIKELY((char *)(tail - 1) > end))
        tail[-1] = pattern;
    unsigned turn = (unsigned)((SECURE_BIG_ENDIAN ? -(uintptr_t)end : (uintptr_t)end) * 8 % 64);
    pattern = pattern >> turn | pattern << (64 - turn) % 64;
    memcpy(end, &pattern, sizeof pattern);
}

GB_INLINE bool secure_pattern_intact_few(const uint64_t *tail, size_t slack)
{
    uint64_t pattern = gb_the.tail_pattern;
    if (GB_UNLIKELY(slack > sizeof *tail)) {
        if (slack > SECURE_SLACK || *--tail != pattern)
            return false;
        slack -= sizeof *tail;
    }
    return ((tail[-1] ^ pattern) & gb_secure_last[slack]) == 0;
}

/* ---- carving: makes a block free whose words are zero ---- */
GB_INLINE void secure_fresh(gb_block *block, size_t size, const gb_block *next)
{
    gb_tail_set(gb_tail_at(block, size), GB_TAIL_FREE | gb_tail_to(block, next));
}

/* ---- malloc, free, usable size ---- */

/* Returns the program's bytes of a small block in use whose tail is intact; else 0. */
GB_INLINE size_t gb_secure_used(const gb_page *page, const void *block)
{
    uint32_t index;
    if (page->kind != GB_SMALL || !gb_class_exact(page->cls, (uintptr_t)block - gb_page_start(page), &index)
        || index >= __atomic_load_n(&page->bump, __ATOMIC_RELAXED))
        return 0;
    size_t size = gb_classes[page->cls].bytes;
    uint64_t plain = gb_tail_get(gb_tail_at(block, size));
    size_t slack = gb_tail_slack(plain), most = size - GB_TAIL_BYTES;
    return gb_tail_is(plain, 0) && slack < most ? most - slack : 0;
}

/* Takes a block for 1 to SECURE_FEW_MOST bytes off its thread free list. Returns NULL if the usual way must serve the
 * request. */
GB_INLINE void *gb_secure_take(glebe_heap *heap, uint32_t cls, size_t bytes)
{
    gb_block *block = heap->front[cls];
    size_t size = gb_classes[cls].bytes;
    if (GB_UNLIKELY(!block))
        return NULL;
    uint64_t *tail = gb_tail_at(block, size), secret = gb_tail_secret(tail);
    uint64_t plain = gb_tail_plain(gb_tail_coded(tail), secret);
    if (GB_UNLIKELY(!gb_tail_is(plain, GB_TAIL_FREE)))
        return NULL;
    gb_block *next = gb_tail_next(block, plain);
    __builtin_prefetch(next, 1);
    heap->front[cls] = next;
    heap->watched[0] = block;
    if (GB_UNLIKELY(!secure_words_zero((uint64_t *)block, tail)))
        return gb_secure_written(block, bytes);
    char *end = (char *)block + bytes;
    secure_pattern_set_few(tail, end);
    gb_tail_code(tail, (size_t)((char *)tail - end), secret);
    return block;
}

/* Frees a block of a small page, which the caller owns. With `told` the program states that it has `bytes`. Returns
 * false if the usual way must free it.
 *
 * It does not look whether a block starts here: where none does, the word is not a tail, but for one in 2^56. So it is
 * read as bytes. It is not in the first slice of a chunk, which is a guard. No page has a tail of a block in use beyond
 * its carved blocks (gb_secure_forget). No tail has a slack of all bytes, so `bytes` is not 0. */
GB_INLINE bool gb_secure_freed(glebe_heap *self, gb_page *page, gb_block *block, bool told, size_t bytes)
{
    size_t size = gb_classes[page->cls].bytes;
    uint64_t *tail = gb_tail_at(block, size), secret = gb_tail_secret(tail), coded;
    if (GB_UNLIKELY(size > gb_the.tail_few || (uintptr_t)tail % GB_CHUNK_BYTES / GB_SLICE_BYTES == 0))
        return false;
    memcpy(&coded, (const char *)block + size - GB_TAIL_BYTES, sizeof coded);
    uint64_t plain = gb_tail_plain(coded, secret);
    size_t most = size - GB_TAIL_BYTES;
    if (GB_UNLIKELY(told ? plain != most - bytes : plain >= most))
        return false;
    if (GB_UNLIKELY(!secure_pattern_intact_few(tail, (size_t)plain)))
        return false;
    secure_words_clear((uint64_t *)block, tail);
    gb_tail_code(tail, (plain + GB_TAIL_FREE) | gb_tail_to(block, page->free), secret);
    page->free = block;
    self->watched[1] = block;
    gb_page_counted(page);
    return true;
}

GB_INLINE void gb_secure_free(const char *call, glebe_heap *self, gb_page *page, gb_block *block)
{
    if (GB_UNLIKELY(!gb_secure_freed(self, page, block, false, 0)))
        gb_secure_free_slow(call, self, page, block);
}

#pragma GCC visibility pop
#endif
