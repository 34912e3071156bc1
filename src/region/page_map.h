/* From an address to its page by arithmetic, for free, realloc, usable_size and the checker. An address is in slice
 * i = (address - base) / 16 KiB. The slice's entry is table[i], and its page's head is back_bytes before that. On hosts
 * heads[i] is the head too, for free(). If the entry is that of a free slice, a large block may begin there: its record
 * is large[i / 4]. */
#ifndef GB_PAGE_MAP_H
#define GB_PAGE_MAP_H

#include "../types.h"

/* Returns the entry of the slice that `address` is in; NULL if it is in no committed chunk. Never reads outside the
 * table. */
GB_INLINE gb_page *gb_page_entry(const void *address)
{
    size_t i = ((uintptr_t)address - gb_the.base) >> GB_SLICE_LOG2;
    return i < gb_peek(gb_the.slices) ? gb_the.table + i : NULL;
}

/* Returns the head of the page that has the slice; for other slices their own entry. */
GB_INLINE gb_page *gb_slice_head(size_t slice)
{
    if (GB_HEADS)
        return gb_the.heads[slice];
    return gb_the.table + slice;
}

GB_INLINE gb_page *gb_page_head(gb_page *entry) { return (gb_page *)((uintptr_t)entry - entry->back_bytes); }

GB_INLINE gb_page *gb_page_at(gb_page_id id) { return gb_the.table + id.n; } /* requires id.n != 0 */
/* gb_page_at, or NULL if `id` is none. */
GB_INLINE gb_page *gb_page_if(gb_page_id id) { return id.n ? gb_page_at(id) : NULL; }
GB_INLINE gb_page_id gb_page_id_of(const gb_page *page) { return (gb_page_id){(uint32_t)(page - gb_the.table)}; }

/* Convert a slice to its entry, and back. */
GB_INLINE gb_page *gb_entry_at(uint32_t slice) { return gb_the.table + slice; }
GB_INLINE uint32_t gb_slice_of(const gb_page *entry) { return (uint32_t)(entry - gb_the.table); }

GB_INLINE uintptr_t gb_slice_start(uint32_t slice) { return gb_the.base + ((uintptr_t)slice << GB_SLICE_LOG2); }
/* gb_slice_start(gb_slice_of(page)), with the two shifts merged */
GB_INLINE uintptr_t gb_page_start(const gb_page *page)
{
    return gb_the.base + (((uintptr_t)page - (uintptr_t)gb_the.table) << (GB_SLICE_LOG2 - 6));
}

/* Large blocks, not in linear memory: convert a slice to its record, and back. gb_large_in returns the record of the
 * block that begins in this slice, or NULL. */
GB_INLINE gb_page *gb_large_record(uint32_t slice) { return gb_the.large + slice / GB_LARGE_LEAST; }
GB_INLINE uint32_t gb_large_slice(const gb_page *large)
{
    return (uint32_t)(large - gb_the.large) * GB_LARGE_LEAST + large->cls;
}
GB_INLINE uintptr_t gb_large_start(const gb_page *large) { return gb_slice_start(gb_large_slice(large)); }
GB_INLINE gb_page *gb_large_in(uint32_t slice)
{
    gb_page *large = GB_TAGGED ? NULL : gb_large_record(slice);
    return large && large->kind == GB_LARGE && large->cls == slice % GB_LARGE_LEAST ? large : NULL;
}
/* Returns the record of the large block in use that begins at `block`, an address in a chunk, or NULL. */
GB_INLINE gb_page *gb_large_at(const void *block)
{
    uintptr_t offset = (uintptr_t)block - gb_the.base;
    gb_page *large = offset % GB_SLICE_BYTES == 0 ? gb_large_in((uint32_t)(offset >> GB_SLICE_LOG2)) : NULL;
    return large && !large->warm ? large : NULL;
}

/* Takes a page's head, or a large block's record. */
GB_INLINE uintptr_t gb_run_start(const gb_page *page)
{
    return !GB_TAGGED && page->kind == GB_LARGE ? gb_large_start(page) : gb_page_start(page);
}

/* Returns the head of the page, or the record of the large block, that contains `address`; the entry, if the slice is
 * free; NULL if the address is in no chunk. */
static inline gb_page *gb_page_around(const void *address)
{
    gb_page *entry = gb_page_entry(address);
    if (GB_TAGGED || !entry || entry->kind != GB_FREE)
        return entry ? gb_page_head(entry) : NULL;
    uint32_t slice = gb_slice_of(entry);
    const gb_page *first = gb_large_record(slice / GB_CHUNK_SLICES * GB_CHUNK_SLICES);
    for (gb_page *large = gb_large_record(slice); large >= first; large--)
        if (large->kind == GB_LARGE && gb_large_slice(large) <= slice)
            return slice - gb_large_slice(large) < large->slices ? large : entry;
    return entry;
}

GB_INLINE size_t gb_page_bytes(const gb_page *page) { return (size_t)page->slices << GB_SLICE_LOG2; }

/* The owner value in the entries of a run. Small pages: the heap, so that its frees take the fast path. Collected
 * pages: a value that no heap has. Others: 0. */
GB_INLINE uintptr_t gb_owner(const glebe_heap *heap, enum gb_kind kind)
{
    return kind == GB_SMALL ? (uintptr_t)heap : GB_HEAPS && kind >= GB_COLLECTED ? (uintptr_t)heap | 1 : 0;
}

GB_INLINE void gb_page_own(gb_page *page, uintptr_t owner)
{
    for (uint32_t i = 0; i < page->slices; i++)
        gb_store_relaxed(&page[i].owner, owner);
}

/* The extent with this number; NULL if there is none. */
GB_INLINE gb_extent *gb_extent_if(uint32_t number) { return number ? gb_the.extents + number : NULL; }
GB_INLINE gb_linked gb_extents_linked(void) { return GB_LINKED(gb_the.extents, gb_extent, links); }

GB_INLINE gb_chunk *gb_chunk_at(uint32_t chunk) { return gb_the.chunk_table + chunk; }
GB_INLINE uint32_t gb_chunk_number(const gb_chunk *chunk) { return (uint32_t)(chunk - gb_the.chunk_table); }
GB_INLINE uintptr_t gb_chunk_start(const gb_chunk *chunk)
{
    return gb_slice_start(gb_chunk_number(chunk) * GB_CHUNK_SLICES);
}
/* A link to a chunk is its number + 1, because 0 is none: as if the table began one chunk earlier. */
GB_INLINE gb_chunk *gb_chunk_if(uint32_t link) { return link ? gb_chunk_at(link - 1) : NULL; }
GB_INLINE gb_linked gb_chunks_linked(size_t offset)
{
    return (gb_linked){(uintptr_t)gb_the.chunk_table - sizeof(gb_chunk), sizeof(gb_chunk), offset};
}
GB_INLINE gb_chunk *gb_chunk_of(uint32_t slice) { return gb_chunk_at(slice / GB_CHUNK_SLICES); }

/* A heap, and where threads' heaps have it, the copy of gb_class_small (GB_CLASS_COPIES). */
typedef struct gb_heap_slot {
    struct glebe_heap heap;
#if GB_CLASS_COPIES
    uint8_t gap[GB_CLASS_COPY_AT - sizeof(struct glebe_heap)];
#endif
    uint8_t classes[GB_CLASS_COPIES ? GB_CLASS_SMALL_ROWS : 1];
} gb_heap_slot;

/* no two heaps share a cache line; an OS page may hold parts of several, but with copies each part has OS pages of its
 * own */
#define GB_HEAP_STRIDE (GB_CLASS_COPIES ? 2 * GB_CLASS_COPY_AT : (sizeof(struct glebe_heap) + 63) / 64 * 64)

GB_INLINE glebe_heap *gb_heap_at(gb_heap_id number)
{
    if (!GB_THREADS)
        return number.n == GB_HEAP_MAIN.n ? &gb_heap_main : (glebe_heap *)gb_slice_start(number.n);
    return (glebe_heap *)((uintptr_t)gb_the.heaps + number.n * GB_HEAP_STRIDE);
}

/* The owner of a page or a large block. */
GB_INLINE glebe_heap *gb_page_heap(const gb_page *page)
{
    return gb_heap_at((gb_heap_id){gb_load_relaxed(&page->heap)});
}
GB_INLINE bool gb_heap_owns(const glebe_heap *heap, const gb_page *page)
{
    return gb_load_relaxed(&page->heap) == heap->number.n;
}

/* Bytes held by a heap, and by all. */
GB_INLINE size_t gb_heap_held(const glebe_heap *heap)
{
    return gb_load_relaxed(&heap->bytes) + (GB_TAGGED && heap == &gb_heap_main ? gb_the.linear.used : 0);
}
GB_INLINE uint64_t gb_held(void) { return glebe_live.stats.used_bytes + (GB_TAGGED ? gb_the.linear.used : 0); }

GB_INLINE gb_block *gb_block_at(const gb_page *page, uint32_t index)
{
    return (gb_block *)(gb_page_start(page) + (size_t)index * gb_classes[page->cls].bytes);
}

/* Lists of pages. A page is on one list at most; only the owner touches the lists of a heap. gb_list_first and
 * gb_list_next return NULL at the end. They do not use links.h: with its functions a malloc in WebAssembly takes 1.7 %
 * more fuel. */
GB_INLINE gb_page *gb_list_first(const gb_list *list) { return gb_page_if(list->first); }
GB_INLINE gb_page *gb_list_next(const gb_page *page) { return gb_page_if(page->next); }

GB_INLINE void gb_list_push_last(gb_list *list, gb_page *page)
{
    gb_page_id id = gb_page_id_of(page);
    page->next = GB_NO_PAGE;
    page->prev = list->last;
    if (list->last.n)
        gb_page_at(list->last)->next = id;
    else
        list->first = id;
    list->last = id;
}

GB_INLINE void gb_list_push_first(gb_list *list, gb_page *page)
{
    gb_page_id id = gb_page_id_of(page);
    page->prev = GB_NO_PAGE;
    page->next = list->first;
    if (list->first.n)
        gb_page_at(list->first)->prev = id;
    else
        list->last = id;
    list->first = id;
}

GB_INLINE void gb_list_remove(gb_list *list, gb_page *page)
{
    if (page->prev.n)
        gb_page_at(page->prev)->next = page->next;
    else
        list->first = page->next;
    if (page->next.n)
        gb_page_at(page->next)->prev = page->prev;
    else
        list->last = page->prev;
}

/* Tails: the last word of each small block, and of each medium block in use, of the secure build. It is secret, since
 * it is XORed with a number that depends on the key and on its address. Without that number it has three fields, and
 * zeros below and above them: whoever overwrites a byte at either end changes one of those.
 *
 *     in memory      63..50  0   49  free   48..35  a free block's link   34..19  slack   18..0  0
 *     plain          63..31  0   30  free   29..16  a free block's link   15..0   slack
 *
 * Plain is the word without the number, rotated so that the zeros at both ends are one field. One compare then checks
 * all of a tail: that of a block in use is less than the bytes of its class. A link is (next block - block) / 8, with
 * its sign; 0: none. Slack is the number of bytes between the program's bytes and the tail. A free block keeps that of
 * its last use. */
#define GB_TAIL_ATOMIC (sizeof(void *) == 8) /* other threads look at tails only there: gb_secure_look */
enum { GB_TAIL_LINK = 16, GB_TAIL_LOW = 19 /* zeros at the low end of the word in memory */ };
#define GB_TAIL_FREE ((uint64_t)1 << 30)
#define GB_TAIL_SLACK_MASK ((uint64_t)0xffff)
#define GB_TAIL_LINK_MASK ((uint64_t)0x3fff << GB_TAIL_LINK)

GB_INLINE uint64_t *gb_tail_at(const void *block, size_t block_bytes)
{
    return (uint64_t *)((uintptr_t)block + block_bytes - sizeof(uint64_t));
}

/* Neither end of the number is a zero byte, since zeros are what overflows write most: both factors are odd, as the key
 * is here. */
GB_INLINE uint64_t gb_tail_secret(const uint64_t *tail)
{
    return (((uint64_t)gb_the.key ^ (uintptr_t)tail) * UINT64_C(0x9e3779b97f4a7c15)) | (uint64_t)1 << 63;
}

GB_INLINE uint64_t gb_tail_coded(const uint64_t *tail)
{
    return GB_TAIL_ATOMIC ? __atomic_load_n(tail, __ATOMIC_ACQUIRE) : *tail;
}
GB_INLINE uint64_t gb_tail_plain(uint64_t coded, uint64_t secret)
{
    uint64_t word = coded ^ secret;
    return word >> GB_TAIL_LOW | word << (64 - GB_TAIL_LOW);
}
GB_INLINE void gb_tail_code(uint64_t *tail, uint64_t plain, uint64_t secret)
{
    uint64_t coded = (plain << GB_TAIL_LOW | plain >> (64 - GB_TAIL_LOW)) ^ secret;
    if (GB_TAIL_ATOMIC)
        __atomic_store_n(tail, coded, __ATOMIC_RELEASE);
    else
        *tail = coded;
}
GB_INLINE uint64_t gb_tail_get(const uint64_t *tail)
{
    return gb_tail_plain(gb_tail_coded(tail), gb_tail_secret(tail));
}
GB_INLINE void gb_tail_set(uint64_t *tail, uint64_t plain) { gb_tail_code(tail, plain, gb_tail_secret(tail)); }

/* Returns whether the fields are those of a tail, and of a free block's if `free` is GB_TAIL_FREE, else not (0). */
GB_INLINE bool gb_tail_is(uint64_t plain, uint64_t free)
{
    return free ? plain / GB_TAIL_FREE == 1 : plain <= GB_TAIL_SLACK_MASK;
}
GB_INLINE size_t gb_tail_slack(uint64_t plain) { return plain & GB_TAIL_SLACK_MASK; }

/* The page of a block that is known to be one. */
GB_INLINE gb_page *gb_block_page(const void *block)
{
    return gb_slice_head(((uintptr_t)block - gb_the.base) >> GB_SLICE_LOG2);
}

/* The field of a link to `next`, a block of the same page or NULL; and the block that the link leads to, NULL if there
 * is none or the tail was overwritten. */
GB_INLINE uint64_t gb_tail_to(const gb_block *block, const gb_block *next)
{
    uint32_t away = next ? (uint32_t)((uintptr_t)next - (uintptr_t)block) : 0;
    return away << (GB_TAIL_LINK - 3) & (uint32_t)GB_TAIL_LINK_MASK;
}
GB_INLINE gb_block *gb_tail_next(const gb_block *block, uint64_t plain)
{
    enum { ABOVE = 2 }; /* bits above the link, of 32 */
    intptr_t away = (int32_t)((uint32_t)plain << ABOVE) >> (GB_TAIL_LINK + ABOVE);
    return away && gb_tail_is(plain, GB_TAIL_FREE) ? (gb_block *)((intptr_t)block + away * 8) : NULL;
}

/* In the secure build: set the link of a block, which becomes free; and return it. */
GB_INLINE void gb_tail_link(gb_block *block, const gb_block *next)
{
    const gb_page *page = gb_block_page(block);
    uint64_t *tail = gb_tail_at(block, gb_classes[page->cls].bytes), plain = gb_tail_get(tail);
    plain = gb_tail_is(plain, plain & GB_TAIL_FREE) ? plain & GB_TAIL_SLACK_MASK : 0;
    gb_tail_set(tail, plain | GB_TAIL_FREE | gb_tail_to(block, next));
}

GB_INLINE gb_block *gb_tail_linked(const gb_block *block)
{
    const gb_page *page = gb_block_page(block);
    return gb_tail_next(block, gb_tail_get(gb_tail_at(block, gb_classes[page->cls].bytes)));
}

/* Links of free blocks. A link is the address times a secret odd number, modulo 2^64; the number's inverse gives the
 * address back. A change of any byte changes all bits of the product from that byte on, so a link that was overwritten,
 * also in part, leads to no address that a program has. In the secure build a link is a part of the tail.
 *
 * Where links have marks, the end of a list is a secret negative number, gb_the.end: content cannot look like it, as it
 * could look like 0. malloc knows it by its sign, and refills; the refill compares it, since half of all overwritten
 * links are negative too. malloc faults at the other half, and code that walks a list at both. Elsewhere the end is
 * 0. */
GB_INLINE bool gb_is_block(const gb_block *block)
{
    return GB_MARKS_LINKS ? (intptr_t)block > 0 : block != NULL;
}
/* For code that walks a list: NULL at its end. */
GB_INLINE gb_block *gb_block_or_null(gb_block *block)
{
    return GB_MARKS_LINKS && (uintptr_t)block == gb_the.end ? NULL : block;
}
GB_INLINE gb_block *gb_block_or_end(gb_block *block)
{
    return GB_MARKS_LINKS && !block ? (gb_block *)gb_the.end : block;
}

GB_INLINE uintptr_t gb_link_coded(uintptr_t link)
{
    return GB_KEYED ? link * gb_the.key : link;
}
GB_INLINE uintptr_t gb_link_plain(uintptr_t coded)
{
    return GB_KEYED ? coded * gb_the.unkey : coded;
}

/* Writes a link to what the address is, a block or the end. */
GB_INLINE void gb_link_put(gb_block *block, gb_block *next)
{
    if (GB_SECURE)
        gb_tail_link(block, next);
    else
        block->words[GB_LINK_AT / sizeof(void *)] = gb_link_coded((uintptr_t)next);
}

/* Sets another link of a block that has one. */
GB_INLINE void gb_link_change(gb_block *block, gb_block *next)
{
    gb_link_put(block, gb_block_or_end(next));
}

GB_INLINE void gb_link_mark(gb_block *block)
{
    if (GB_MARKS_LINKS)
        ((uint8_t *)block)[GB_MARK_AT] = GB_LINK_MARK;
}

GB_INLINE void gb_link_set(gb_block *block, gb_block *next)
{
    gb_link_change(block, next);
    gb_link_mark(block);
}

/* The next block, or the end. */
GB_INLINE gb_block *gb_link_whole(const gb_block *block)
{
    if (GB_SECURE)
        return gb_tail_linked(block);
    return (gb_block *)gb_link_plain(block->words[GB_LINK_AT / sizeof(void *)]);
}
GB_INLINE gb_block *gb_link_get(const gb_block *block)
{
    return gb_block_or_null(gb_link_whole(block));
}

/* A page's list of free blocks. Only free() reads page->free as it is: a block or the end. */
GB_INLINE gb_block *gb_page_list(const gb_page *page)
{
    return gb_block_or_null(page->free);
}
GB_INLINE void gb_page_list_set(gb_page *page, gb_block *first)
{
    page->free = gb_block_or_end(first);
}
GB_INLINE void gb_page_push(gb_page *page, gb_block *block)
{
    gb_link_put(block, page->free);
    gb_link_mark(block);
    page->free = block;
}

/* Returns whether the block may have a link: it is free, or the program wrote a byte like the mark. */
GB_INLINE bool gb_link_marked(const gb_block *block)
{
    return ((const uint8_t *)block)[GB_MARK_AT] == GB_LINK_MARK;
}

/* The link of a block with a mark; of one without, an address that no program has. The word from the mark on is the
 * mark, and above it the link without its highest byte. Less the mark and times `unkey`, it is the address above a byte
 * of 0. Another byte instead of the mark leaves another byte than 0, since `unkey` is odd; turned to the top, it is the
 * highest of the result. */
GB_INLINE uintptr_t gb_link_if_marked(const gb_block *block)
{
    uint64_t word;
    memcpy(&word, (const uint8_t *)block + GB_MARK_AT, sizeof word);
    word = (word - GB_LINK_MARK) * gb_the.unkey;
    return (uintptr_t)(word >> 8 | word << 56);
}

/* Clears the mark, and with the same store all of the link but its last byte. */
GB_INLINE void gb_link_clear(gb_block *block)
{
    memset((uint8_t *)block + GB_MARK_AT, 0, sizeof(uint64_t));
}

#endif
