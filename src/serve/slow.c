/* The parts of the spine (slow.h) that are not inlined, and the refill of a thread free list, its most frequent
 * caller. */
#include "alloc.h"
#include "slow.h"

#if GB_THREADS
void *gb_serve_again(glebe_heap *heap, gb_source *source, gb_request *request)
{
    void *block = gb_make_room(heap) ? source(heap, request) : NULL;
    if (GB_SAFE && !block && gb_safe_sweep())
        block = source(heap, request);
    if (GB_SNAPSHOTS && !block && gb_the.watch.look)
        gb_the.watch.look(gb_request_bytes(request));
    return block;
}

/* Returns a block from a common heap; NULL if the thread needs a heap of its own. */
static void *serve_common(gb_source *source, gb_request *request)
{
    gb_common *common = gb_common_enter();
    if (!common)
        return NULL;
    glebe_heap *heap = gb_common_heap(common);
    uint32_t cls = request->cls;
    bool left = gb_tick_common(heap);
    gb_block *front = gb_class_is_small(cls) ? gb_block_or_null(heap->front[cls]) : NULL;
    if (!front && gb_inbox_filled(heap))
        gb_inbox_drain_some(heap); /* all frees of its blocks come that way */
    void *block = front ? gb_hand_out(heap, cls, front) : source(heap, request);
    gb_common_leave(common);
    if (GB_UNLIKELY(left))
        gb_tick_left();
    gb_retain_bound();
    return block;
}

/* Starting a heap may allocate, and so fill thread free lists. Their blocks return to their pages, because sources
 * expect the thread free lists to be empty. */
void *gb_serve_first(gb_source *source, gb_request *request)
{
    if (GB_SAMPLES && gb_load_relaxed(&gb_the.sampler.on)) {
        bool due = gb_sample_due_common(gb_request_bytes(request));
        void *sample = due ? gb_sample_take(source, request) : NULL;
        if (sample)
            return sample;
    }
    void *common = serve_common(source, request);
    if (common)
        return common;
    glebe_heap *heap = gb_thread_start();
    if (!heap)
        return gb_out_of_memory();
    gb_fronts_flush(heap);
    if (GB_SAMPLES && GB_UNLIKELY(gb_sampled(heap)) && source == gb_small_source) {
        gb_sampling_draw(heap);
        source = gb_small_counted;
    }
    void *block = gb_serve(heap, source, request);
    gb_thread_late();
    return block;
}
#endif

#if GB_SAMPLES
/* Serves the request as a sample if that is due. Else counts the blocks that it hands out, none of them beyond the next
 * sample. */
static GB_COLD void *small_refill_sampled(glebe_heap *heap, size_t cls)
{
    uint32_t *skip = &heap->sampling.skip[cls];
    gb_request request;
    request.cls = (uint32_t)cls;
    gb_sampling_draw(heap);
    if (*skip == 0) {
        *skip = gb_sample_draw(&heap->sampling.chance, gb_classes[cls].bytes);
        void *sample = heap->limit_bytes ? NULL : gb_sample_take(gb_small_source, &request);
        if (sample)
            return sample;
        *skip += *skip == 0; /* this block */
    }
    return gb_serve(heap, gb_small_counted, &request);
}

/* The heap's next samples were drawn for this start of the sampler. */
static bool sampled_drawn(const glebe_heap *heap)
{
    return heap->sampling.start == gb_load_relaxed(&gb_the.sampler.starts);
}

/* Takes blocks of the current page, if these are the next ones to be taken. */
static GB_NOINLINE void *small_refill_few(glebe_heap *heap, size_t cls)
{
    uint32_t *skip = &heap->sampling.skip[cls];
    gb_page *page = gb_page_if(heap->current[cls]);
    if (GB_LIKELY(page && *skip > 0 && sampled_drawn(heap)) && !(GB_MIXES && heap->mixed.n)
        && !(GB_BORROWS && heap->borrowed[cls].first)) {
        if (GB_BORROWS)
            heap->borrowed[cls].frees = 0;
        gb_block *chain = gb_page_supply_some(page, skip);
        if (GB_LIKELY(chain != NULL))
            return gb_hand_out(heap, cls, chain);
    }
    return small_refill_sampled(heap, cls);
}

/* The refill while the heap is sampled: the usual one, which also counts. */
static GB_NOINLINE void *small_refill_counted(glebe_heap *heap, size_t cls)
{
    gb_page *page = gb_page_if(heap->current[cls]);
    gb_block *chain = page ? gb_page_list(page) : NULL;
    if (GB_LIKELY(chain && page->holes == 0 && sampled_drawn(heap))) {
        uint32_t count = (uint32_t)(page->bump - page->left), skip = heap->sampling.skip[cls];
        if (GB_LIKELY(count >= GB_FEW_BLOCKS && count < skip)) {
            heap->sampling.skip[cls] = skip - count;
            gb_page_list_set(page, NULL);
            page->left = page->bump;
            return gb_hand_out(heap, cls, chain);
        }
    }
    return small_refill_few(heap, cls);
}
#else
#define small_refill_counted(heap, cls) NULL
#define small_refill_sampled(heap, cls) NULL
#endif

static GB_NOINLINE void *small_refill_slow(glebe_heap *heap, size_t cls)
{
    gb_request request;
    request.cls = (uint32_t)cls; /* gb_small_source reads no other field */
    return gb_serve(heap, gb_small_source, &request);
}

#if GB_ZEROS
/* malloc(0). Out of line, so that the refill needs no frame. */
static GB_NOINLINE void *small_none(glebe_heap *heap)
{
    void *none = gb_alloc_none(heap, 1);
    return none ? none : gb_alloc(heap, 1);
}
#else
#define small_none(heap) NULL
#endif

#if GB_SECURE
void *gb_alloc_secure(glebe_heap *heap, size_t bytes, bool words)
{
    if (bytes > GB_SMALL_MOST)
        return gb_alloc_big(heap, bytes);
    size_t all = bytes ? bytes + GB_TAIL_BYTES : 0; /* blocks of no bytes have no tail */
    return gb_alloc_of_class(heap, words ? gb_class_of_words(all) : gb_class_of_small(all), bytes);
}

void *gb_alloc_of_class(glebe_heap *heap, uint32_t cls, size_t bytes)
{
    void *block = gb_alloc_small(heap, cls);
    if (block && cls != GB_ZERO_CLASS)
        gb_secure_size(block, cls, bytes);
    return block;
}
#endif

/* Out of line, so that the refill needs no frame. */
static GB_COLD void *small_refill_damaged(glebe_heap *heap, size_t cls)
{
    gb_front_damaged(heap, cls);
    return gb_small_refill(heap, cls);
}

/* Most refills take the blocks that were freed to the current page since the last refill. Every fourth refill looks at
 * the cycle counter. */
void *gb_small_refill(glebe_heap *heap, size_t cls)
{
    if (GB_SECURE)
        gb_secure_look(heap);
    gb_page *page = gb_page_if(heap->current[cls]);
    if (page && !gb_front_ended(heap, cls))
        return small_refill_damaged(heap, cls);
    bool due = GB_PURGES && page
        && (--heap->tick <= 0 || (heap->tick % 4 == 0 && gb_cycles() - heap->tick_cycles > GB_TICK_CYCLES));
    if (GB_LIKELY(page && !due)) {
        gb_block *chain = gb_page_list(page);
        int32_t all = page->bump;
        if (GB_LIKELY(chain && (!GB_PURGES || page->holes == 0) && all - page->left >= gb_few_blocks(heap))) {
            gb_page_list_set(page, NULL);
            page->left = all;
            return gb_hand_out(heap, cls, chain);
        }
    }
    if (GB_ZEROS && GB_UNLIKELY(cls == GB_ZERO_CLASS))
        return small_none(heap);
    if (GB_SAMPLES && GB_UNLIKELY(gb_sampled(heap)))
        return due ? small_refill_sampled(heap, cls) : small_refill_counted(heap, cls);
    return small_refill_slow(heap, cls);
}
