/* The fast paths, for inlining into the functions that programs call.
 *
 *     malloc   size -> class -> front[class] -> pop                                        14 instructions
 *     free     address -> its page's head; its owner is this thread's heap? -> push on the page, count down      21
 *
 * Two compares (bound and owner) send all unusual addresses to big.c and free.c: blocks of other threads, of medium,
 * large and huge size, of other allocators, NULL. The bound check looks redundant, but keeps a wild pointer from
 * reading outside the table. */
#ifndef GB_ALLOC_H
#define GB_ALLOC_H

#include "../heap/secure.h"
#include "../heap/tags.h"
#include "big.h"

GB_INLINE void *gb_alloc_small(glebe_heap *heap, size_t cls)
{
    gb_block *block = heap->front[cls];
    return GB_LIKELY(gb_is_block(block)) ? gb_hand_out(heap, cls, block) : gb_small_refill(heap, cls);
}

/* In the secure build: the short path of malloc; with `words`, that of gb_alloc_words. Returns NULL if gb_alloc_secure
 * must serve the request. */
GB_INLINE void *gb_alloc_few(glebe_heap *heap, size_t bytes, bool words)
{
    if (GB_UNLIKELY(bytes - 1 >= SECURE_FEW_MOST))
        return NULL;
    size_t all = bytes + GB_TAIL_BYTES;
    return gb_secure_take(heap, words ? gb_class_of_words(all) : gb_class_of_small(all), bytes);
}

/* `own`: the heap is this thread's own. */
GB_INLINE uint32_t gb_class_for(bool own, size_t bytes)
{
    return GB_CLASS_COPIES && own ? gb_heap_classes(gb_self)[bytes] : gb_class_of_small(bytes);
}

GB_INLINE void *gb_alloc_for(glebe_heap *heap, bool own, size_t bytes)
{
    if (GB_SECURE) {
        void *block = gb_alloc_few(heap, bytes, false);
        return GB_LIKELY(block) ? block : gb_alloc_secure(heap, bytes, false);
    }
    if (GB_LIKELY(bytes <= GB_SMALL_MOST))
        return gb_alloc_small(heap, gb_class_for(own, bytes));
    return gb_alloc_big(heap, bytes);
}
GB_INLINE void *gb_alloc(glebe_heap *heap, size_t bytes) { return gb_alloc_for(heap, false, bytes); }
GB_INLINE void *gb_alloc_own(size_t bytes) { return gb_alloc_for(gb_self, true, bytes); }

/* For objects that need only the alignment of a word. */
GB_INLINE void *gb_alloc_words(glebe_heap *heap, size_t bytes)
{
    if (GB_SECURE) {
        void *block = gb_alloc_few(heap, bytes, true);
        return GB_LIKELY(block) ? block : gb_alloc_secure(heap, bytes + (bytes == 0), true);
    }
    if (GB_LIKELY(bytes <= GB_SMALL_MOST))
        return gb_alloc_small(heap, gb_class_of_words(bytes));
    return gb_alloc_big(heap, bytes);
}

/* Clears small blocks entirely, larger ones only as far as they may be dirty. */
GB_INLINE void *gb_calloc_for(glebe_heap *heap, bool own, size_t count, size_t bytes)
{
    size_t total, dirty = 0;
    if (GB_UNLIKELY(__builtin_mul_overflow(count, bytes, &total)))
        return gb_out_of_memory();
    void *block;
    if (GB_SECURE && GB_LIKELY(total <= GB_SMALL_MOST))
        return gb_alloc(heap, total); /* a free one is zero */
    if (GB_LIKELY(total <= GB_SMALL_MOST)) {
        block = gb_alloc_small(heap, gb_class_for(own, total));
        dirty = total;
    } else
        block = gb_alloc_dirty(heap, total, &dirty);
    return GB_LIKELY(block) ? memset(block, 0, dirty < total ? dirty : total) : NULL;
}
GB_INLINE void *gb_calloc(glebe_heap *heap, size_t count, size_t bytes)
{
    return gb_calloc_for(heap, false, count, bytes);
}
GB_INLINE void *gb_calloc_own(size_t count, size_t bytes) { return gb_calloc_for(gb_self, true, count, bytes); }

/* Makes the block free for reuse. The caller owns the heap `self`. */
GB_INLINE void gb_free_now(const char *call, glebe_heap *self, void *block)
{
    size_t slice = ((uintptr_t)block - gb_the.base) >> GB_SLICE_LOG2;
    if (GB_UNLIKELY(slice >= gb_peek(gb_the.slices))) {
        gb_free_elsewhere(call, block);
        return;
    }
    gb_page *page = gb_slice_head(slice);
    if (GB_UNLIKELY(gb_peek(page->owner) != (uintptr_t)self)) {
        gb_free_unowned(self, page, block, call);
        return;
    }
    page = GB_HEADS ? page : gb_page_head(page);
    if (GB_SECURE) {
        gb_secure_free(call, self, page, block);
        return;
    }
    if (GB_AUDIT && !gb_free_allowed(call, page, block))
        return;
    if (GB_MARKS_LINKS && GB_UNLIKELY(gb_link_marked(block))) {
        gb_free_suspect(block, page, call);
        return;
    }
    gb_page_freed(page, block);
}

/* In the secure build: frees a small block of this thread's heap, of which the program states that it has `bytes`.
 * Returns false if the usual way must check and free it. */
GB_INLINE bool gb_free_told(glebe_heap *self, void *block, size_t bytes)
{
    size_t slice = ((uintptr_t)block - gb_the.base) >> GB_SLICE_LOG2;
    if (GB_UNLIKELY(slice >= gb_peek(gb_the.slices)))
        return false;
    gb_page *page = gb_slice_head(slice);
    return GB_LIKELY(gb_peek(page->owner) == (uintptr_t)self) && gb_secure_freed(self, page, block, true, bytes);
}

GB_INLINE void gb_free(const char *call, glebe_heap *self, void *block)
{
    if (GB_SAFE)
        gb_safe_free(call, self, block);
    else
        gb_free_now(call, self, block);
}

/* The same for the public functions: the address is the program's, with its tag. */
GB_INLINE void gb_free_given(const char *call, glebe_heap *self, void *block)
{
    gb_free(call, self, gb_tag_taken(call, block));
}

/* Returns the usable bytes of the small or medium block in use that starts there. 0: gb_big_bytes must look. */
GB_INLINE size_t gb_class_bytes(const void *block)
{
    size_t slice = ((uintptr_t)block - gb_the.base) >> GB_SLICE_LOG2;
    if (GB_SECURE || GB_AUDIT || GB_SAFE || GB_UNLIKELY(slice >= gb_peek(gb_the.slices)))
        return 0;
    gb_page *page = gb_slice_head(slice);
    page = GB_HEADS ? page : gb_page_head(page);
    bool medium = !GB_TAGGED && page->kind == GB_MEDIUM;
    uint32_t cls = page->cls, index;
    if ((!medium && page->kind != GB_SMALL) || !gb_class_exact(cls, (uintptr_t)block - gb_page_start(page), &index)
        || index >= __atomic_load_n(&page->bump, __ATOMIC_RELAXED))
        return 0;
    bool in_use = medium ? gb_medium_in_use(page, block, index) : !(GB_MARKS_LINKS && gb_link_marked(block));
    return in_use ? gb_classes[cls].bytes : 0;
}

/* Returns whether realloc() leaves a block of `before` usable bytes where it is. A block that shrinks to more than half
 * stays, so that a block whose size alternates does not always move. */
GB_INLINE bool gb_stays(size_t before, size_t bytes)
{
    return bytes <= before && bytes > before / 2 && (bytes > GB_SMALL_MAX) == (before > GB_SMALL_MAX);
}

/* The same for small and medium blocks, most of those that programs resize. In linear memory code must be short. */
GB_INLINE bool gb_resize_stays(const void *block, size_t bytes)
{
    return !GB_SHORT && GB_LIKELY(gb_stays(gb_class_bytes(block), bytes));
}

/* Out-of-line variants for callers that are slow anyway; they keep code small. */
GB_INLINE void *gb_alloc_seldom(glebe_heap *heap, size_t bytes)
{
    return GB_SHORT ? gb_alloc_any(heap, bytes) : gb_alloc(heap, bytes);
}

GB_INLINE void gb_free_seldom(const char *call, glebe_heap *self, void *block)
{
    if (GB_SHORT)
        gb_free_any(call, self, block);
    else
        gb_free(call, self, block);
}

#endif
