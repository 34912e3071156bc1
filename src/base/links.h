/* Doubly linked lists of records in a table: huge blocks of a heap, free extents, chunks.
 *
 *     list             records of the table
 *                         0       1       2       3       4       5
 *     first: 5  next          |   3   |       |   0   |       |   1   |
 *     last: 3   prev          |   5   |       |   1   |       |   0   |        5, 1, 3
 *
 * 1. A link is the number of a record: half the bytes of a pointer.
 * 2. Number 0 stands for the list: the record behind 0 is the first, the one before 0 is the last. So record 0 is on no
 *    list, and a list of zeros is empty.
 * 3. A record has a gb_links for each list that it may be on at the same time.
 * 4. One lock, or one owner thread, guards a list and the links of its records.
 *
 * The compiler folds the table into each call. The core has other lists too: lists of pages, which are quicker
 * (page_map.h); the inbox, to which any thread pushes a page without a lock; the stack of abandoned heaps; and free
 * blocks and pools, which link through their own memory by pointers. */
#ifndef GB_LINKS_H
#define GB_LINKS_H

#include "bits.h"

typedef struct gb_links {
    uint32_t next, prev;
} gb_links;

typedef struct gb_ends {
    uint32_t first, last;
} gb_ends;

/* A list whose length other threads read without its lock. */
typedef struct gb_queue {
    gb_ends ends;
    _Atomic uint32_t count;
} gb_queue;

/* A table of records: where it begins, the bytes of a record, and where in a record its links are. */
typedef struct gb_linked {
    uintptr_t table;
    size_t bytes, offset;
} gb_linked;
#define GB_LINKED(table, record, field) ((gb_linked){(uintptr_t)(table), sizeof(record), offsetof(record, field)})

GB_INLINE gb_links *gb_links_at(gb_linked in, uint32_t number)
{
    return (gb_links *)(in.table + number * in.bytes + in.offset);
}

/* Sets the record that follows `before`, and the one that precedes `behind`. */
GB_INLINE void gb_links_set(
    gb_linked in, gb_ends *list, uint32_t before, uint32_t next, uint32_t behind, uint32_t prev)
{
    if (before)
        gb_links_at(in, before)->next = next;
    else
        list->first = next;
    if (behind)
        gb_links_at(in, behind)->prev = prev;
    else
        list->last = prev;
}

/* Inserts a record, given by its links, between two neighbours. */
GB_INLINE void gb_links_insert(gb_linked in, gb_ends *list, gb_links *links, uint32_t before, uint32_t behind)
{
    uint32_t number = (uint32_t)(((uintptr_t)links - in.offset - in.table) / in.bytes);
    links->next = behind;
    links->prev = before;
    gb_links_set(in, list, before, number, behind, number);
}

GB_INLINE void gb_links_push_first(gb_linked in, gb_ends *list, gb_links *links)
{
    gb_links_insert(in, list, links, 0, list->first);
}

GB_INLINE void gb_links_remove(gb_linked in, gb_ends *list, const gb_links *links)
{
    gb_links_set(in, list, links->prev, links->next, links->next, links->prev);
}

/* Inserts a record behind `before`; last, if that is 0. */
GB_INLINE void gb_queue_insert(gb_linked in, gb_queue *queue, gb_links *links, uint32_t before)
{
    uint32_t behind = before ? gb_links_at(in, before)->next : 0;
    gb_links_insert(in, &queue->ends, links, before ? before : queue->ends.last, behind);
    gb_store_relaxed(&queue->count, gb_load_relaxed(&queue->count) + 1);
}

GB_INLINE void gb_queue_remove(gb_linked in, gb_queue *queue, const gb_links *links)
{
    gb_links_remove(in, &queue->ends, links);
    gb_store_relaxed(&queue->count, gb_load_relaxed(&queue->count) - 1);
}

#endif
