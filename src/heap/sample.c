/* The sampler: which allocations a heap profile has, and what it knows of them.
 *
 * Bytes are sampled as a Poisson process: one byte in `mean_bytes` on average, each independently of all others. A
 * block that contains such a byte is a sample. A block of s bytes is one with probability p = 1 - exp(-s / mean). Each
 * sample stands for 1 / p blocks, so sums over samples have no bias.
 *
 *     malloc   front[class] -> block -> block -> block -> NULL        skip[class]: blocks before the next sample
 *                                                          ^
 *     the thread free list never holds a block beyond the next sample, so malloc finds the list empty exactly there.
 *     The refill sees skip[class] == 0, and serves this one request from the heap of sampled blocks
 *
 * Each heap has an independent process for each small class, and one for all larger blocks. Together they are one
 * process. The fast paths compare with fields of the heap in place of constants (gb_sampling). While a heap is sampled,
 * the compares fail, and requests take slow paths, which count. So sampling costs malloc and free no instruction, off
 * or on; on, a refill counts the blocks that it hands out.
 *
 * Sampled blocks are in a heap of their own, which no thread has as `gb_self`. So each free of such a block fails the
 * owner compare of the fast path, and ends in gb_sample_returned, or for a large block in gb_sample_drop.
 *
 *     gb_frame   a tree of all stacks, from the outermost callers to the innermost
 *     gb_site    one stack: what it allocated, what is live, what was live at the peak, how long freed blocks lived
 *     gb_sample  one sampled block that is in use: its weight, and its site
 *
 * A new peak only increments `peak_number`. A site saves its live weight before the first change after the peak, so no
 * event looks at all sites.
 *
 * An exact count chooses the peak: bytes in use. A maximum over time of the estimate would find the moment with the
 * largest error, and be the further above the truth the longer a process runs. But the count is of pages. Samples move
 * it a little, since they have pages of their own, so a new peak is higher than the last by more than an eighth of the
 * estimate's standard error. Holes between blocks count too, so the estimates have a say where chance cannot explain
 * their difference: a moment with clearly less in use is no peak, and one with far more is.
 *
 * One lock guards the heap of sampled blocks and all records. Callers are walked before the lock is taken, since the
 * unwinder may take locks of the loader. */
#include "heap.h"

#if GB_SAMPLES

static GB_TLS bool sample_taking; /* this thread takes a sample: its allocations are not sampled meanwhile */
static GB_TLS uint32_t sample_labels; /* the frame of this thread's last label; 0: it has none (label.c) */

/* ---- numbers ---- */

static double sample_exponential(uint64_t *chance)
{
    enum { TERMS = 21 };
    *chance += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *chance;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x = (x ^ x >> 31) >> 11 | 1; /* odd, 53 bits */
    /* -ln(x / 2^53): x = m * 2^e with m in [1, 2), and ln m = 2 atanh((m - 1) / (m + 1)) */
    unsigned e = gb_log2(x);
    double m = (double)x / (double)((uint64_t)1 << e), t = (m - 1) / (m + 1), power = t, sum = 0;
    for (int i = 1; i <= TERMS; i += 2, power *= t * t)
        sum += power / i;
    return (53 - (double)e) * 0.69314718055994530942 - 2 * sum;
}

/* Returns 1 - exp(-x). */
static double sample_chance(double x)
{
    enum { TERMS = 9 };
    if (x > 40)
        return 1;
    if (x > 1.0 / 16) { /* exp(-2y) = exp(-y)^2 */
        double half = 1 - sample_chance(x / 2);
        return 1 - half * half;
    }
    double term = x, sum = 0;
    for (int i = 2; i <= TERMS; i++) {
        sum += term;
        term *= -x / i;
    }
    return sum;
}

static double sample_mean(void)
{
    return (double)gb_load_relaxed(&gb_the.sampler.mean_bytes);
}

static double sample_distance(uint64_t *chance)
{
    return sample_exponential(chance) * (double)gb_load_relaxed(&gb_the.sampler.every_bytes);
}

uint32_t gb_sample_draw(uint64_t *chance, size_t bytes)
{
    double blocks = sample_distance(chance) / (double)bytes; /* the sample is in this block, counted from 0 */
    return blocks < (double)(UINT32_MAX / 2) ? (uint32_t)blocks : UINT32_MAX / 2;
}

static bool sample_count(int64_t *left, uint64_t *chance, size_t bytes)
{
    *left -= (int64_t)bytes;
    if (GB_LIKELY(*left > 0))
        return false;
    *left = (int64_t)sample_distance(chance) + 1;
    return true;
}

/* ---- heaps ---- */

void gb_sampling_draw(glebe_heap *heap)
{
    gb_sampling *sampling = &heap->sampling;
    uint32_t start = gb_load_relaxed(&gb_the.sampler.starts);
    if (GB_LIKELY(sampling->start == start))
        return;
    sampling->start = start;
    sampling->chance = gb_port_random();
    sampling->left = (int64_t)sample_distance(&sampling->chance) + 1;
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++)
        sampling->skip[cls] = gb_sample_draw(&sampling->chance, gb_classes[cls].bytes);
}

void gb_sampling_set(glebe_heap *heap)
{
    gb_sampling *sampling = &heap->sampling;
    uint32_t spells = gb_load_relaxed(&gb_the.guards.spells);
    bool on = gb_load_relaxed(&gb_the.sampler.on) && (spells < 2 || sampling->spell % spells == 0)
        && heap->kind == GB_HEAP_THREAD;
    gb_store_relaxed(&sampling->on, on);
    gb_store_relaxed(&sampling->few, on ? INT32_MAX : GB_FEW_BLOCKS);
    gb_store_relaxed(&sampling->warm_least, on ? UINT32_MAX : 0);
    gb_store_relaxed(&sampling->medium_most, on ? 0 : GB_MEDIUM_MAX);
}

void gb_sampling_turn(glebe_heap *heap)
{
    heap->sampling.spell++;
    gb_sampling_set(heap);
}

void gb_sampling_flushed(glebe_heap *heap)
{
    gb_sampling *sampling = &heap->sampling;
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++)
        if (sampling->skip[cls] == 0 && gb_block_or_null(heap->front[cls]))
            sampling->skip[cls] = gb_sample_draw(&sampling->chance, gb_classes[cls].bytes);
}

bool gb_sample_due(glebe_heap *heap, size_t bytes)
{
    gb_sampling_draw(heap);
    return bytes <= GB_BLOCK_MAX && sample_count(&heap->sampling.left, &heap->sampling.chance, bytes);
}

bool gb_sample_due_common(size_t bytes)
{
    gb_sampler *sampler = &gb_the.sampler;
    if (!gb_load_relaxed(&sampler->on) || bytes > GB_BLOCK_MAX)
        return false;
    gb_lock_take(&sampler->lock);
    bool due = sample_count(&sampler->common_left, &sampler->chance, bytes / gb_load_relaxed(&gb_the.guards.spells));
    gb_lock_drop(&sampler->lock);
    return due;
}

/* ---- records ---- */

static glebe_heap *sample_heap(void)
{
    return gb_heap_at((gb_heap_id){gb_load_relaxed(&gb_the.sampler.heap)});
}

/* Memory for records: a large block, which is never freed. Zero. */
static void *record_chunk(void)
{
    gb_request request = {.bytes = GB_SAMPLE_CHUNK_BYTES, .alignment = 1, .cls = GB_CLASSES};
    void *chunk = gb_large_source(sample_heap(), &request);
    if (chunk && request.dirty)
        memset(chunk, 0, request.dirty);
    gb_the.sampler.chunks += chunk != NULL;
    return chunk;
}

void *gb_record_at(const gb_records *records, size_t bytes, uint32_t number)
{
    uint32_t each = (uint32_t)(GB_SAMPLE_CHUNK_BYTES / bytes);
    return records->chunks[number / each] + number % each * bytes;
}

uint32_t gb_record_new(gb_records *records, size_t bytes)
{
    uint32_t each = (uint32_t)(GB_SAMPLE_CHUNK_BYTES / bytes), number = records->count ? records->count : 1;
    if (number / each >= GB_SAMPLE_CHUNKS)
        return 0;
    char **chunk = &records->chunks[number / each];
    if (!*chunk && !(*chunk = record_chunk()))
        return 0;
    records->count = number + 1;
    return number;
}

static gb_sample *sample_at(uint32_t number)
{
    return gb_record_at(&gb_the.sampler.samples, sizeof(gb_sample), number);
}

gb_frame *gb_frame_at(uint32_t number)
{
    return gb_record_at(&gb_the.sampler.frames, sizeof(gb_frame), number);
}

gb_site *gb_site_at(uint32_t number)
{
    return gb_record_at(&gb_the.sampler.sites, sizeof(gb_site), number);
}

uint32_t *gb_record_head(uint32_t *heads, uint32_t log2, uintptr_t a, uint32_t b)
{
    uintptr_t hash = a ^ b * GB_GOLDEN;
    hash ^= hash >> sizeof hash * 4;
    return heads + (hash * GB_GOLDEN >> (sizeof hash * 8 - log2));
}

static uint32_t *frame_head(const gb_sampler *sampler, uintptr_t key, uint32_t caller)
{
    return gb_record_head(sampler->frame_heads, sampler->frames_log2, key, caller);
}

/* Called when lists have become long, as labels with many values make them. Without memory they stay so. */
static void frames_spread(gb_sampler *sampler)
{
    uint32_t *heads = record_chunk();
    if (!heads)
        return;
    sampler->frame_heads = heads;
    sampler->frames_log2 = GB_SAMPLE_CHUNK_LOG2 - 2; /* the chunk is full of heads */
    for (uint32_t number = 1; number < sampler->frames.count; number++) {
        gb_frame *frame = gb_frame_at(number);
        uint32_t *head = frame_head(sampler, frame->address ^ frame->label, frame->caller);
        frame->next = *head;
        *head = number;
    }
}

uint32_t gb_frame_of(uintptr_t address, uint32_t caller, uint32_t label)
{
    gb_sampler *sampler = &gb_the.sampler;
    if (sampler->frames.count == 4u << GB_SAMPLE_HEADS_LOG2 && sampler->frames_log2 == GB_SAMPLE_HEADS_LOG2)
        frames_spread(sampler);
    uint32_t *head = frame_head(sampler, address ^ label, caller);
    for (uint32_t number = *head; number;) {
        const gb_frame *frame = gb_frame_at(number);
        if (frame->address == address && frame->caller == caller && frame->label == label)
            return number;
        number = frame->next;
    }
    uint32_t number = gb_record_new(&sampler->frames, sizeof(gb_frame));
    if (number) {
        *gb_frame_at(number) = (gb_frame){address, caller, *head, 0, label};
        *head = number;
    }
    return number;
}

/* Returns whether the stack that ends at `frame` is this one, with the thread's labels. */
static bool frame_has(uint32_t frame, const uintptr_t *callers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!frame || gb_frame_at(frame)->address != callers[i])
            return false;
        frame = gb_frame_at(frame)->caller;
    }
    return frame == sample_labels;
}

/* Returns the innermost frame of this stack, with the thread's labels; 0 if it has none, or if there is no memory. Most
 * stacks were seen before: a table has the last one of each hash. */
static uint32_t frame_of_stack(const uintptr_t *callers, uint32_t count)
{
    uintptr_t hash = sample_labels;
    for (uint32_t i = 0; i < count; i++)
        hash = (hash ^ callers[i]) * GB_GOLDEN;
    uint32_t *recent = gb_the.sampler.recent + (hash >> (sizeof hash * 8 - GB_SAMPLE_RECENT_LOG2));
    if (frame_has(*recent, callers, count))
        return *recent;
    uint32_t frame = sample_labels;
    for (uint32_t i = count; i > 0; i--)
        if ((frame = gb_frame_of(callers[i - 1], frame, 0)) == 0)
            return 0;
    return *recent = frame;
}

/* Returns the site of this stack, innermost caller first, with the thread's labels; 0 if there is no memory. An empty
 * stack has a site too. */
static uint32_t site_of(const uintptr_t *callers, uint32_t count)
{
    uint32_t frame = frame_of_stack(callers, count);
    if (frame == 0 && (count != 0 || (frame = gb_frame_of(0, 0, 0)) == 0))
        return 0;
    uint32_t *site = &gb_frame_at(frame)->site;
    if (*site == 0 && (*site = gb_record_new(&gb_the.sampler.sites, sizeof(gb_site))) != 0)
        gb_site_at(*site)->frame = frame;
    return *site;
}

uint32_t *gb_sample_labels(void)
{
    return &sample_labels;
}

/* ---- weights ---- */

static void weight_add(gb_weight *to, const gb_sample *sample)
{
    to->objects += sample->objects;
    to->bytes += sample->bytes;
}

static void weight_take(gb_weight *from, const gb_sample *sample)
{
    from->objects -= sample->objects;
    from->bytes -= sample->bytes;
}

static void sample_weigh(gb_sample *sample, size_t bytes)
{
    double chance = sample_chance((double)bytes / sample_mean());
    sample->objects = (uint64_t)(65536 / chance + 0.5);
    sample->bytes = (uint64_t)((double)bytes / chance + 0.5);
}

gb_weight gb_site_peak(const gb_site *site)
{
    return site->peak_number == gb_the.sampler.peak_number ? site->peak : site->live;
}

/* Returns the exact count that chooses the peak: bytes in use by heaps whose allocations are sampled. */
static uint64_t sampler_used(const gb_sampler *sampler)
{
    gb_lock_take(&gb_the.lock);
    uint64_t used = gb_held() - gb_the.owned_bytes;
    gb_lock_drop(&gb_the.lock);
    return used - sampler->chunks * GB_SAMPLE_CHUNK_BYTES;
}

/* Returns the part of a sample in the square of the estimate's standard error: s^2 (1 - p) / p^2. */
static double sample_noise(const gb_sample *sample)
{
    double bytes = (double)sample->bytes;
    return bytes * bytes * (1 - 65536 / (double)sample->objects);
}

/* Returns whether `more` is above `less` by more than so many standard errors, of which `noise` is the square. */
static bool sample_above(uint64_t more, uint64_t less, double errors, double noise)
{
    double by = (double)more - (double)less;
    return by > 0 && by * by > errors * errors * noise;
}

/* Returns whether more is in use now than at the last peak. */
static bool sampler_peaks(gb_sampler *sampler)
{
    uint64_t live = sampler->live_bytes, peak = sampler->peak_bytes;
    double noise = sampler->live_noise, peak_noise = sampler->peak_noise;
    if (sampler->late)
        return live > peak;
    uint64_t used = sampler_used(sampler);
    bool grown = sample_above(used, sampler->peak_used, 0.125, noise) && !sample_above(peak, live, 2, peak_noise);
    if (!grown && !sample_above(live, peak, 6, noise + peak_noise))
        return false;
    if (used > sampler->peak_used)
        sampler->peak_used = used;
    return true;
}

/* Called before the live weight of a site changes. */
static void site_keep_peak(gb_site *site)
{
    if (site->peak_number != gb_the.sampler.peak_number) {
        site->peak = site->live;
        site->peak_number = gb_the.sampler.peak_number;
    }
}

static void sample_begins(const gb_sample *sample)
{
    gb_sampler *sampler = &gb_the.sampler;
    gb_site *site = gb_site_at(sample->site);
    site_keep_peak(site);
    weight_add(&site->live, sample);
    weight_add(&site->allocated, sample);
    sampler->live_bytes += sample->bytes;
    sampler->live_noise += sample_noise(sample);
    if (sampler_peaks(sampler)) {
        sampler->peak_bytes = sampler->live_bytes;
        sampler->peak_noise = sampler->live_noise;
        sampler->peak_number++;
    }
}

static void sample_ends(const gb_sample *sample)
{
    gb_site *site = gb_site_at(sample->site);
    site_keep_peak(site);
    weight_take(&site->live, sample);
    gb_the.sampler.live_bytes -= sample->bytes;
    gb_the.sampler.live_noise -= sample_noise(sample);
}

/* Called when a sampled block is freed. */
static void sample_lived(const gb_sample *sample)
{
    uint64_t ns = gb_port_now_ns() - sample->born_ns, limit = 10000;
    uint32_t cls = 0;
    for (; cls < GB_LIFETIMES - 1 && ns >= limit; cls++)
        limit = cls % 2 ? limit / 3 * 10 : limit * 3;
    gb_site_at(sample->site)->freed.bytes[cls] += sample->bytes;
}

/* ---- samples ---- */

static uint32_t *sample_head(const void *block)
{
    return gb_record_head(gb_the.sampler.sample_heads, GB_SAMPLE_HEADS_LOG2, (uintptr_t)block >> 4, 0);
}

static void sample_link(uint32_t number, const void *block)
{
    uint32_t *head = sample_head(block);
    gb_sample *sample = sample_at(number);
    sample->block = (uintptr_t)block;
    sample->next = *head;
    *head = number;
}

/* Returns the number of the block's record, which is on no list then; 0: the block has none. */
static uint32_t sample_unlink(const void *block)
{
    for (uint32_t *link = sample_head(block); *link;) {
        uint32_t number = *link;
        gb_sample *sample = sample_at(number);
        if (sample->block == (uintptr_t)block) {
            *link = sample->next;
            return number;
        }
        link = &sample->next;
    }
    return 0;
}

static void sample_add(const void *block, size_t bytes, const uintptr_t *callers, uint32_t count)
{
    gb_sampler *sampler = &gb_the.sampler;
    uint32_t number = sampler->sample_free, site = site_of(callers, count);
    if (number)
        sampler->sample_free = sample_at(number)->next;
    else
        number = gb_record_new(&sampler->samples, sizeof(gb_sample));
    if (!number || !site) {
        sampler->lost++;
        if (number) {
            sample_at(number)->next = sampler->sample_free;
            sampler->sample_free = number;
        }
        return;
    }
    gb_sample *sample = sample_at(number);
    sample->site = site;
    sample->born = sampler->taken;
    sample->born_ns = gb_port_now_ns();
    sample_weigh(sample, bytes);
    sample_link(number, block);
    sample_begins(sample);
    gb_port_sampled(block, bytes, sample->bytes);
}

/* Returns how many bytes of this sample are to be guarded; 0: it is not. */
static size_t sample_guards(gb_sampler *sampler, const gb_request *request)
{
    size_t every = gb_load_relaxed(&gb_the.guards.every_bytes), bytes = every ? gb_guard_wants(request) : 0;
    if (!bytes || !gb_guard_room())
        return 0;
    if (!gb_load_relaxed(&sampler->profiles))
        return bytes;
    gb_the.guards.left -= (int64_t)gb_load_relaxed(&sampler->every_bytes);
    if (gb_the.guards.left > 0)
        return 0;
    gb_the.guards.left = (int64_t)every;
    return bytes;
}

/* Returns a sample that is not guarded. */
static void *sample_plain(gb_source *source, gb_request *request)
{
    glebe_heap *heap = sample_heap();
    gb_block *front = gb_class_is_small(request->cls) ? gb_block_or_null(heap->front[request->cls]) : NULL;
    return front ? gb_hand_out(heap, request->cls, front) : source(heap, request);
}

void *gb_sample_take(gb_source *source, gb_request *request)
{
    uintptr_t callers[GB_SAMPLE_FRAMES];
    gb_sampler *sampler = &gb_the.sampler;
    if (sample_taking || !gb_load_relaxed(&sampler->on) || gb_lock_forking()
        || (!gb_load_relaxed(&sampler->profiles) && !(gb_guard_wants(request) && gb_guard_room())))
        return NULL;
    sample_taking = true;
    uint32_t count = gb_port_stack(callers, GB_SAMPLE_FRAMES);
    size_t bytes = gb_request_bytes(request);
    gb_lock_take(&sampler->lock);
    size_t guarded = sample_guards(sampler, request);
    bool profiles = gb_load_relaxed(&sampler->profiles);
    void *block = guarded ? gb_guard_take(guarded, callers, count) : NULL;
    if (!block && profiles)
        block = sample_plain(source, request);
    if (block && profiles) {
        sampler->taken++;
        sample_add(block, bytes, callers, count);
    }
    gb_lock_drop(&sampler->lock);
    if (block && sampler->written)
        sampler->written();
    gb_watch_poll();
    sample_taking = false;
    return block;
}

static void sample_forget(uint32_t number)
{
    gb_sampler *sampler = &gb_the.sampler;
    gb_sample *sample = sample_at(number);
    sample_ends(sample);
    gb_port_sample_freed((const void *)sample->block);
    sample->block = 0;
    sample->next = sampler->sample_free;
    sampler->sample_free = number;
}

static void sample_freed(uint32_t number)
{
    sample_lived(sample_at(number));
    sample_forget(number);
}

/* Locked. Writes the callers of the block's allocation. */
static uint32_t sample_callers(const void *block, uintptr_t *callers, uint32_t most)
{
    uint32_t number = gb_the.sampler.sample_heads ? *sample_head(block) : 0, count = 0;
    while (number && sample_at(number)->block != (uintptr_t)block)
        number = sample_at(number)->next;
    uint32_t frame = number ? gb_site_at(sample_at(number)->site)->frame : 0;
    for (; frame && count < most; frame = gb_frame_at(frame)->caller)
        if (gb_frame_at(frame)->address)
            callers[count++] = gb_frame_at(frame)->address;
    return count;
}

uint32_t gb_sample_callers(const void *block, uintptr_t callers[GB_SAMPLE_FRAMES])
{
    gb_lock_take(&gb_the.sampler.lock);
    uint32_t count = sample_callers(block, callers, GB_SAMPLE_FRAMES);
    gb_lock_drop(&gb_the.sampler.lock);
    return count;
}

uint32_t gb_sample_callers_try(const void *block, uintptr_t *callers, uint32_t most)
{
    if (!gb_lock_try(&gb_the.sampler.lock))
        return 0;
    uint32_t count = sample_callers(block, callers, most);
    gb_lock_drop(&gb_the.sampler.lock);
    return count;
}

uint32_t gb_sample_detach(const void *block)
{
    gb_lock_take(&gb_the.sampler.lock);
    uint32_t number = sample_unlink(block);
    gb_lock_drop(&gb_the.sampler.lock);
    return number;
}

void gb_sample_attach(uint32_t number, const void *block, size_t bytes)
{
    if (!number)
        return;
    gb_lock_take(&gb_the.sampler.lock);
    gb_sample *sample = sample_at(number);
    gb_site *site = gb_site_at(sample->site);
    sample_ends(sample);
    gb_port_sample_freed((const void *)sample->block);
    weight_take(&site->allocated, sample);
    sample_weigh(sample, gb_round_up(bytes, GB_UNIT_BYTES));
    sample_begins(sample);
    sample_link(number, block);
    gb_port_sampled(block, bytes, sample->bytes);
    gb_lock_drop(&gb_the.sampler.lock);
}

void gb_sample_drop(const void *block)
{
    gb_lock_take(&gb_the.sampler.lock);
    uint32_t number = sample_unlink(block);
    if (number)
        sample_freed(number);
    gb_lock_drop(&gb_the.sampler.lock);
}

bool gb_sample_returned(gb_page *page, void *block)
{
    glebe_heap *heap = sample_heap();
    gb_lock_take(&gb_the.sampler.lock);
    uint32_t number = sample_unlink(block);
    bool medium = page->kind == GB_MEDIUM; /* the page may be another heap's once its last block is free */
    bool freed = medium ? gb_medium_return(heap, page, block) : gb_page_put(page, block);
    if (freed && !medium)
        gb_page_returned(heap, page, 1);
    if (number)
        sample_freed(number);
    gb_lock_drop(&gb_the.sampler.lock);
    return freed;
}

/* ---- start and stop ---- */

bool gb_sampler_make(gb_sampler *sampler)
{
    if (!gb_load_relaxed(&sampler->heap)) {
        const glebe_heap *heap = gb_heap_new(GB_HEAP_SAMPLED);
        if (!heap)
            return false;
        gb_store_relaxed(&sampler->heap, heap->number.n);
    }
    if (!sampler->sample_heads) {
        enum { HEADS = 1 << GB_SAMPLE_HEADS_LOG2 };
        _Static_assert(3 * HEADS * sizeof(uint32_t) <= GB_SAMPLE_CHUNK_BYTES, "all tables are one chunk");
        sampler->sample_heads = record_chunk();
        sampler->frame_heads = sampler->sample_heads ? sampler->sample_heads + HEADS : NULL;
        sampler->label_heads = sampler->sample_heads ? sampler->frame_heads + HEADS : NULL;
        sampler->frames_log2 = GB_SAMPLE_HEADS_LOG2;
    }
    return sampler->sample_heads != NULL;
}

/* Sets the paths of all heaps of threads. Abandoned heaps follow when a thread reclaims them. */
static void sampler_switch(bool on)
{
    gb_store_relaxed(&gb_the.sampler.on, on);
    gb_lock_take(&gb_the.abandoned.lock); /* no heap is reclaimed meanwhile */
    gb_lock_take(&gb_the.lock);
    for (glebe_heap *heap = NULL; (heap = gb_heap_next(heap));)
        if (gb_load_relaxed(&heap->kind) == GB_HEAP_THREAD)
            gb_sampling_set(heap);
    gb_lock_drop(&gb_the.lock);
    gb_lock_drop(&gb_the.abandoned.lock);
}

/* Samples a byte in so many from now on; 0: none. The sampler's lock is held. Counting bytes takes time: for guards
 * alone each heap counts in some spells only, and takes as many more samples then. */
static void sampler_run(gb_sampler *sampler, size_t every_bytes)
{
    bool guards = !gb_load_relaxed(&sampler->profiles) && every_bytes >= GB_GUARD_SPELLS_FROM;
    uint32_t spells = guards ? GB_GUARD_SPELLS : 1;
    gb_store_relaxed(&gb_the.guards.spells, spells);
    if (every_bytes) {
        gb_store_relaxed(&sampler->every_bytes, every_bytes / spells);
        gb_store_relaxed(&sampler->starts, gb_load_relaxed(&sampler->starts) + 1);
        sampler->chance = gb_port_random();
        sampler->common_left = (int64_t)sample_distance(&sampler->chance) + 1;
    }
    sampler_switch(every_bytes != 0);
}

/* Makes ordinary blocks of all samples, and forgets the peak. A block that a realloc has detached stays a sample. */
static void sampler_forget(gb_sampler *sampler)
{
    for (uint32_t i = 1; i < sampler->samples.count; i++) {
        const gb_sample *sample = sample_at(i);
        uint32_t number = sample->block ? sample_unlink((const void *)sample->block) : 0;
        if (number)
            sample_forget(number);
    }
    sampler->peak_bytes = sampler->live_bytes;
    sampler->peak_noise = sampler->live_noise;
    sampler->peak_used = 0;
    sampler->peak_number++;
}

int gb_sampler_start(size_t mean_bytes, bool asked)
{
    gb_sampler *sampler = &gb_the.sampler;
    int error = 0;
    mean_bytes += mean_bytes == 0;
    gb_port_stack_start();
    gb_port_stack_often();
    gb_lock_take(&sampler->lock);
    if (gb_load_relaxed(&sampler->profiles))
        error = EBUSY;
    else if (!gb_sampler_make(sampler))
        error = ENOMEM;
    else {
        sampler->own |= !asked;
        if (!sampler->own)
            sampler_forget(sampler);
        gb_store_relaxed(&sampler->profiles, 1);
        gb_store_relaxed(&sampler->mean_bytes, mean_bytes);
        sampler->late = sampler_used(sampler) > GB_SAMPLE_LATE_BYTES;
        sampler_run(sampler, mean_bytes);
    }
    gb_lock_drop(&sampler->lock);
    return error;
}

void gb_sampler_stop(void)
{
    gb_sampler *sampler = &gb_the.sampler;
    gb_lock_take(&sampler->lock);
    gb_store_relaxed(&sampler->profiles, 0);
    sampler_run(sampler, gb_load_relaxed(&gb_the.guards.every_bytes));
    gb_lock_drop(&sampler->lock);
}

bool gb_sampler_guard(size_t guard_bytes)
{
    gb_sampler *sampler = &gb_the.sampler;
    gb_port_stack_start();
    gb_lock_take(&sampler->lock);
    bool opened = guard_bytes == 0 || gb_guard_open();
    if (opened) {
        gb_store_relaxed(&gb_the.guards.every_bytes, guard_bytes);
        gb_the.guards.left = 0;
        if (!gb_load_relaxed(&sampler->profiles))
            sampler_run(sampler, guard_bytes);
    }
    gb_lock_drop(&sampler->lock);
    return opened;
}

#endif
