/* The sampler's interface: see sample.c. */
#ifndef GB_SAMPLE_H
#define GB_SAMPLE_H

#include "../region/region.h"

#pragma GCC visibility push(hidden)

/* ---- for the fast paths: the values with which they compare ---- */
GB_INLINE int32_t gb_few_blocks(const glebe_heap *heap)
{
    return GB_SAMPLES ? gb_peek(heap->sampling.few) : GB_FEW_BLOCKS;
}
GB_INLINE uint32_t gb_warm_least(const glebe_heap *heap)
{
    return GB_SAMPLES ? gb_peek(heap->sampling.warm_least) : 0;
}
GB_INLINE size_t gb_medium_most(const glebe_heap *heap)
{
    return GB_SAMPLES ? gb_peek(heap->sampling.medium_most) : GB_MEDIUM_MAX;
}
/* Returns whether the heap's allocations are sampled. */
GB_INLINE bool gb_sampled(const glebe_heap *heap)
{
    return GB_SAMPLES && gb_peek(heap->sampling.on);
}

/* ---- when the next sample is due ---- */
/* Sets the fields above. Any thread: the owner may be in the midst of a request. */
void gb_sampling_set(glebe_heap *heap);
/* Called at the heap's ticks while blocks are guarded. Owner. */
void gb_sampling_turn(glebe_heap *heap);
/* Draws the next samples, unless that was done since the last start. Begins each request that counts blocks. Owner. */
void gb_sampling_draw(glebe_heap *heap);
/* Redraws the next sample of each class whose thread free list ends at one. Called before these lists are flushed: a
 * sample among blocks that are never handed out is none. Owner. */
void gb_sampling_flushed(glebe_heap *heap);
/* Returns the number of blocks of `bytes` before the next sample. */
uint32_t gb_sample_draw(uint64_t *chance, size_t bytes);
/* Counts `bytes` that are about to be allocated above the small blocks. Returns whether they are a sample. Owner. */
bool gb_sample_due(glebe_heap *heap, size_t bytes);
/* The same for a thread that has no heap. */
bool gb_sample_due_common(size_t bytes);
/* Returns how many bytes a request counts as: those of its class; else its own, since few bytes are more than asked
 * for, except where a short block is aligned widely. */
GB_INLINE size_t gb_request_bytes(const gb_request *request)
{
    const size_t least = GB_LARGE_LEAST * GB_SLICE_BYTES;
    if (request->cls < GB_CLASSES)
        return gb_classes[request->cls].bytes;
    return request->bytes <= least ? least : gb_round_up(request->bytes, GB_UNIT_BYTES);
}

/* ---- samples ---- */
/* Serves a request from the heap of sampled blocks, and records it with its callers. Returns NULL if there is no
 * memory, or this thread is taking a sample already: then the block is none. The caller holds no lock. */
GB_COLD void *gb_sample_take(gb_source *source, gb_request *request);
/* Returns whether the heap of this number has the sampled blocks. */
GB_INLINE bool gb_sample_owns(uint32_t heap)
{
    return GB_SAMPLES && GB_UNLIKELY(heap == gb_load_relaxed(&gb_the.sampler.heap));
}
/* Frees a sampled block of a small or medium page. Returns false if no block in use starts there. */
GB_COLD bool gb_sample_returned(gb_page *page, void *block);
/* Forgets a sampled block that is about to be freed, or resized. Returns the number of its record, or 0. */
GB_COLD uint32_t gb_sample_detach(const void *block);
GB_COLD void gb_sample_drop(const void *block);
/* Records a detached block again, which has another address or length now. */
GB_COLD void gb_sample_attach(uint32_t number, const void *block, size_t bytes);

/* Writes the callers of a sampled block's allocation, the innermost first. Returns their number; 0 if it is none. */
uint32_t gb_sample_callers(const void *block, uintptr_t callers[GB_SAMPLE_FRAMES]);
/* The same for at most so many, from a thread that may hold locks: 0 if the sampler's lock is held. */
uint32_t gb_sample_callers_try(const void *block, uintptr_t *callers, uint32_t most);

/* ---- the profile ---- */
/* Starts to sample all threads' allocations. Returns 0, EBUSY or ENOMEM. `asked`: by another process, which wants no
 * samples of an earlier profile; unless one was this process's own, they are forgotten. */
int gb_sampler_start(size_t mean_bytes, bool asked);
void gb_sampler_stop(void);
/* Makes the heap of sampled blocks, and the tables. Returns false if there is no memory. */
bool gb_sampler_make(gb_sampler *sampler);
/* Guards a block at each so many bytes of allocations from now on; 0: none. Returns false if it cannot: then nothing
 * changed. */
bool gb_sampler_guard(size_t guard_bytes);
/* Records by number. The caller holds the sampler's lock. */
void *gb_record_at(const gb_records *records, size_t bytes, uint32_t number);
/* Returns the number of a new record; 0 if there is no memory. */
uint32_t gb_record_new(gb_records *records, size_t bytes);
/* Returns the place in a hash table, of 2^log2 places, for two numbers. */
uint32_t *gb_record_head(uint32_t *heads, uint32_t log2, uintptr_t a, uint32_t b);
/* Returns the frame of an address, or of a label, below another; 0 if there is no memory. */
uint32_t gb_frame_of(uintptr_t address, uint32_t caller, uint32_t label);
gb_site *gb_site_at(uint32_t number);
gb_frame *gb_frame_at(uint32_t number);
gb_label *gb_label_at(uint32_t number);
/* Returns where the frame of this thread's last label is noted. */
uint32_t *gb_sample_labels(void);
/* Sets a label of the calling thread; a NULL value takes it away. Returns 0, EINVAL, E2BIG or ENOMEM. */
int gb_label_set(const char *key, const char *value);
/* What was live at the peak. */
gb_weight gb_site_peak(const gb_site *site);

#pragma GCC visibility pop

#endif
