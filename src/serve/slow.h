/* The spine of the slow path. Every allocation that a fast path cannot serve comes through gb_serve, whatever its size:
 *
 *     malloc, calloc, ...  ->  gb_serve  ->  a heap for the thread, if it has none
 *                                        ->  a tick: a bounded step of purging
 *                                        ->  the source: a small, medium, large, huge, tagged or collected block
 *                                        ->  if it fails: make room, and call the source again
 *                                        ->  if it fails again: errno is ENOMEM
 *                                        ->  if more is kept now than the bounds allow: purge the excess
 *
 * A source returns a block, or NULL. It starts no heap, never ticks, never retries and reports nothing.
 *
 * These functions are inlined, so that the call of the source is direct. With threads, rare cases call the source by a
 * pointer (slow.c). Without threads every call is direct, which makes the code shorter. */
#ifndef GB_SLOW_H
#define GB_SLOW_H

#include "serve.h"

/* Serves a request of no bytes. Returns NULL if a block with a byte must do. */
GB_INLINE void *gb_alloc_none(const glebe_heap *heap, size_t alignment)
{
    return GB_ZEROS && gb_load_relaxed(&heap->kind) != GB_HEAP_OWNED ? gb_zero_take(alignment) : NULL;
}

/* Returns a block, or NULL; does not set errno. Owner. */
GB_INLINE void *gb_serve_quietly(glebe_heap *heap, gb_source *source, gb_request *request)
{
    if (GB_PURGES)
        gb_tick(heap);
    for (bool again = false;; again = true) {
        void *block = source(heap, request);
        if (GB_THREADS && GB_UNLIKELY(!block))
            block = gb_serve_again(heap, source, request);
        gb_retain_bound();
        if (GB_THREADS || GB_LIKELY(block != NULL))
            return block;
        if (again || !gb_make_room(heap))
            return NULL;
    }
}

/* Returns a block, or NULL and ENOMEM. The heap may be gb_heap_none. */
GB_INLINE void *gb_serve(glebe_heap *heap, gb_source *source, gb_request *request)
{
    if (GB_UNLIKELY(heap->number.n == 0)) {
        if (GB_THREADS)
            return gb_serve_first(source, request);
        heap = gb_thread_start();
    }
    void *block = gb_serve_quietly(heap, source, request);
    return GB_LIKELY(block != NULL) ? block : gb_out_of_memory();
}

/* gb_serve for a size that the program chose. No host has more than GB_BLOCK_MAX: larger requests fail at once. */
GB_INLINE void *gb_serve_sane(glebe_heap *heap, gb_source *source, gb_request *request)
{
    bool enormous = request->bytes > GB_BLOCK_MAX || request->alignment > GB_BLOCK_MAX - request->bytes;
    return enormous ? gb_out_of_memory() : gb_serve(heap, source, request);
}

#endif
