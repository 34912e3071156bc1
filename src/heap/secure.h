/* The secure build's paths for small blocks of up to SECURE_FEW bytes, for inlining into malloc and free. They do what
 * secure.c describes, and leave everything unusual to it: larger blocks, level 3, and whatever is a report. A block is
 * a few words here, so stores and compares of words are cheaper than memset and memcmp, and nothing needs a frame. */
#ifndef GB_SECURE_H
#define GB_SECURE_H

#include "heap.h"

#pragma GCC visibility push(hidden)

enum { SECURE_FEW = 256, PATTERN_MOST = 256 };

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
    while ((word += STEP) < tail - STEP)
        word[0] = word[1] = word[2] = word[3] = 0;
}

/* ---- the pattern between the program's bytes and the tail ---- */

/* Eight times a byte that is not zero: the secret's lowest. */
GB_INLINE uint64_t secure_pattern(uint64_t secret) { return (uint8_t)secret * UINT64_C(0x0101010101010101); }

/* The last bytes of a word, 8 - 2 * half / 8: alone, as the low or high part of a number; and back, with zeros for the
 * others. Two shifts, since one cannot shift by 64. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define SECURE_ALONE(word, half) ((word) << (half) << (half))
#define SECURE_BACK(word, half) ((word) >> (half) >> (half))
#else
#define SECURE_ALONE(word, half) ((word) >> (half) >> (half))
#define SECURE_BACK(word, half) ((word) << (half) << (half))
#endif
/* `from` is 0 to 8 bytes below `to`. */
GB_INLINE unsigned secure_half(const uint64_t *to, const char *from)
{
    return (unsigned)(32 - 4 * ((const char *)to - from));
}

/* The bytes [from, tail) are slack. */
GB_INLINE bool secure_pattern_intact(const uint64_t *tail, const char *from, uint64_t secret)
{
    uint64_t pattern = secure_pattern(secret);
    for (; (const char *)(tail - 1) > from; tail--)
        if (tail[-1] != pattern)
            return false;
    return SECURE_ALONE(tail[-1] ^ pattern, secure_half(tail, from)) == 0;
}
GB_INLINE void secure_pattern_set(uint64_t *tail, const char *from, uint64_t secret)
{
    uint64_t pattern = secure_pattern(secret);
    for (; (const char *)(tail - 1) > from; tail--)
        tail[-1] = pattern;
    unsigned half = secure_half(tail, from);
    tail[-1] ^= SECURE_BACK(SECURE_ALONE(tail[-1] ^ pattern, half), half);
}
/* The same in a block that is zero, of a class up to SECURE_FEW: there are up to 31 bytes of slack. No loop: compilers
 * make too much of it. */
GB_INLINE void secure_pattern_set_few(uint64_t *tail, const char *from, uint64_t secret)
{
    uint64_t pattern = secure_pattern(secret);
    if (GB_UNLIKELY((const char *)(tail - 1) > from)) {
        *--tail = pattern;
        if (GB_UNLIKELY((const char *)(tail - 1) > from)) {
            *--tail = pattern;
            if ((const char *)(tail - 1) > from)
                *--tail = pattern;
        }
    }
    unsigned half = secure_half(tail, from);
    tail[-1] = SECURE_BACK(pattern, half);
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

/* Takes a block of a small class off the thread free list. Returns NULL if the usual way must serve the request. */
GB_INLINE void *gb_secure_take(glebe_heap *heap, uint32_t cls, size_t bytes)
{
    gb_block *block = heap->front[cls];
    size_t size = gb_classes[cls].bytes;
    if (GB_UNLIKELY(!block))
        return NULL;
    if (GB_UNLIKELY(size > SECURE_FEW))
        return NULL;
    uint64_t *tail = gb_tail_at(block, size), secret = gb_tail_secret(tail), plain = gb_tail_coded(tail) ^ secret;
    if (GB_UNLIKELY(!gb_tail_is(plain, GB_TAIL_FREE) || !secure_words_zero((uint64_t *)block, tail)))
        return NULL;
    gb_block *next = gb_tail_next(block, plain);
    __builtin_prefetch(next, 1);
    heap->front[cls] = next;
    heap->watched[0] = block;
    char *end = (char *)block + bytes;
    secure_pattern_set_few(tail, end, secret);
    gb_tail_code(tail, secret ^ (uint64_t)((char *)tail - end) << GB_TAIL_SLACK);
    return block;
}

/* Frees a block of a small page, which the caller owns. */
GB_INLINE void gb_secure_free(const char *call, glebe_heap *self, gb_page *page, gb_block *block)
{
    size_t size = gb_classes[page->cls].bytes;
    uint32_t index;
    if (GB_UNLIKELY(!gb_class_exact(page->cls, (uintptr_t)block - gb_page_start(page), &index) || index >= page->bump
            || size > SECURE_FEW || gb_the.options.secure == GB_SECURE_MOST)) {
        gb_secure_free_slow(call, self, page, block);
        return;
    }
    uint64_t *tail = gb_tail_at(block, size), secret = gb_tail_secret(tail), plain = gb_tail_coded(tail) ^ secret;
    size_t slack = gb_tail_slack(plain);
    if (GB_UNLIKELY(!gb_tail_is(plain, 0) || slack >= size - GB_TAIL_BYTES
            || !secure_pattern_intact(tail, (char *)tail - slack, secret))) {
        gb_secure_free_slow(call, self, page, block);
        return;
    }
    secure_words_clear((uint64_t *)block, tail);
    gb_tail_code(tail, secret ^ (plain | GB_TAIL_FREE | gb_tail_to(block, page->free)));
    page->free = block;
    self->watched[1] = block;
    gb_page_counted(page);
}

#pragma GCC visibility pop
#endif
