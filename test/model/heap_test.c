/* The heap against a model of it. Random operations by several simulated threads (gb_self is switched by hand, so
 * remote frees, abandoned heaps and reclaims happen in an order that the seed decides) on a host whose clock,
 * memory and failures the seed decides too. The model is a plain table: address, size, and a pattern that was written
 * there.
 *
 * After each step: no block overlaps another, alignment and size are as requested, calloc'ed memory is zero, blocks
 * that are resized or freed still hold their pattern, limits hold, and glebe_check finds nothing. At the end everything
 * is freed, and no memory may be in use. The seed decides about the host:
 *
 *     seed % 8   0..2 plain   3 purges sometimes fail   4 commits, moves and purges fail   5 little memory
 *                6 address space is limited and partly taken   7 OS pages of 16 KiB
 *     seed / 8 % 2   0 emptying pages are parked   1 memory is purged lazily
 *
 *     GLEBE_TEST_SEEDS=n   how many seeds (default 24)         GLEBE_TEST_SEED=n    the first of them (default 1)
 *     GLEBE_TEST_STEPS=n   steps of each (default 400)         GLEBE_TEST_TRACE=1   print each step */
#define MODEL_REPEAT "test/model/heap"
#define FIXTURE_WARM_BYTES ((size_t)1 << 20)
#include "model.h"

enum { BLOCKS = 1500, HEAPS = 4, THREADS = 6, LARGE_MAX = 1 << 20 };

typedef struct model_block {
    unsigned char *at;
    size_t bytes;
    uint64_t tag;
    int heap; /* index in heaps[], or -1: a thread's heap */
    uint32_t life; /* of the thread that made it */
    bool unsized; /* an aligned block, which sized frees do not accept, in C and here */
} model_block;

static model_block blocks[BLOCKS];
static int block_count;
static struct {
    glebe_heap *heap;
    size_t limit;
} heaps[HEAPS];
static uint32_t lives[THREADS], life_last;
static uint64_t tag_last;
static bool failing, tracing;
static size_t favourites[6];

#define TRACE(...) \
    do \
        if (tracing) { \
            fprintf(stderr, "%d [thread %d] ", step, fixture_now); \
            fprintf(stderr, __VA_ARGS__); \
        } \
    while (0)

/* ---- patterns: the ends, and eight bytes of each KiB ---- */

static size_t pattern_next(size_t i, size_t bytes)
{
    i++;
    if (i < 32 || i + 32 >= bytes || (i & 1023) < 8)
        return i;
    size_t next = (i | 1023) + 1;
    return next < bytes - 32 ? next : bytes - 32;
}

static unsigned char pattern_byte(uint64_t tag, size_t i) { return (unsigned char)(tag * 37 + i * 11 + (i >> 10) + 1); }

static void pattern_write(model_block *b)
{
    b->tag = ++tag_last;
    for (size_t i = 0; i < b->bytes; i = pattern_next(i, b->bytes))
        b->at[i] = pattern_byte(b->tag, i);
}

static void pattern_read(const model_block *b, size_t whole, size_t bytes)
{
    for (size_t i = 0; i < bytes; i = pattern_next(i, whole))
        if (b->at[i] != pattern_byte(b->tag, i)) {
            fprintf(stderr, "block %p of %zu bytes, byte %zu is 0x%x\n", (void *)b->at, whole, i, b->at[i]);
            model_fail("a block does not hold what was written to it");
        }
}

/* ---- the model ---- */

static size_t random_size(void)
{
    size_t pick = below(1000);
    if (pick < 700)
        return favourites[below(6)];
    if (pick < 850)
        return below(GB_SMALL_MAX + 2);
    if (pick < 960)
        return GB_SMALL_MAX + below(GB_MEDIUM_MAX - GB_SMALL_MAX + 2);
    if (pick < 992)
        return GB_MEDIUM_MAX + below(LARGE_MAX - GB_MEDIUM_MAX + 2) / (one_in(2) ? 1 : 8);
    return LARGE_MAX + below((size_t)6 << 20);
}

/* Requires that the bytes are zero: all of them; of a huge block both ends, and some of each KiB. */
static void zero_read(const unsigned char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i = bytes > LARGE_MAX ? pattern_next(i, bytes) : i + 1)
        if (p[i] != 0)
            model_fail("calloc gave memory that is not zero");
}

static void block_enter(void *at, size_t bytes, size_t alignment, int heap, bool zero)
{
    unsigned char *p = at;
    REQUIRE((uintptr_t)p % alignment == 0);
    REQUIRE(glebe_usable_size(p) >= bytes);
    for (int i = 0; i < block_count; i++)
        if (p < blocks[i].at + (blocks[i].bytes ? blocks[i].bytes : 1) && blocks[i].at < p + (bytes ? bytes : 1))
            model_fail("two blocks overlap");
    if (zero)
        zero_read(p, bytes);
    model_block *b = &blocks[block_count++];
    *b = (model_block){p, bytes, 0, heap, lives[fixture_now], alignment > 16};
    pattern_write(b);
}

static void block_forget(int i) { blocks[i] = blocks[--block_count]; }

static int random_heap(void)
{
    int h = (int)below(HEAPS);
    return heaps[h].heap && one_in(2) ? h : -1;
}

static void step_allocate(void)
{
    size_t bytes = random_size(), alignment = 16;
    size_t n = bytes <= GB_SMALL_MAX ? 1 + below(60) : bytes <= GB_MEDIUM_MAX ? 1 + below(8) : 1;
    int h = random_heap(), way = (int)below(8);
    glebe_heap *heap = h < 0 ? NULL : heaps[h].heap;
    if (way == 0)
        alignment = (size_t)16 << below(bytes <= LARGE_MAX ? 14 : GB_LINEAR ? 16 : 20);
    else if (way == 2 && bytes > 0)
        alignment = 8;
    TRACE("%zu of %zu bytes, alignment %zu, heap %d%s\n", n, bytes, alignment, h, way == 1 ? ", zero" : "");
    for (size_t i = 0; i < n && block_count < BLOCKS; i++) {
        void *p;
        if (way == 0)
            p = h < 0 && one_in(2) ? glebe_memalign(alignment, bytes)
                : glebe_heap_aligned_alloc(heap, alignment, bytes);
        else if (way == 1)
            p = h < 0 && one_in(2) ? glebe_calloc(bytes, 1) : glebe_heap_calloc(heap, 1, bytes);
        else if (alignment == 8)
            p = glebe_heap_realloc_sized(heap, NULL, 0, bytes);
        else
            p = h < 0 && one_in(2) ? glebe_malloc(bytes) : glebe_heap_malloc(heap, bytes);
        if (!p) {
            REQUIRE(failing || (h >= 0 && heaps[h].limit));
            return;
        }
        block_enter(p, bytes, alignment, h, way == 1);
    }
}

static void block_free(int i)
{
    model_block b = blocks[i];
    pattern_read(&b, b.bytes, b.bytes);
    int way = (int)below(4);
    bool own = b.heap >= 0 || b.life == lives[fixture_now];
    glebe_heap *heap = b.heap >= 0 ? heaps[b.heap].heap : NULL;
    block_forget(i);
    if (way == 0 && own && !b.unsized)
        glebe_heap_free_sized(heap, b.at, b.bytes);
    else if (way == 1 && own)
        glebe_heap_free(heap, b.at);
    else if (way == 2 && !b.unsized)
        glebe_free_sized(b.at, b.bytes);
    else
        glebe_free(b.at);
}

/* Frees many blocks at once, mostly ones that were allocated together, so that pages become empty. */
static void step_free(void)
{
    size_t n = one_in(30) ? BLOCKS : 1 + below(70);
    TRACE("free %zu of %d\n", n, block_count);
    for (int i = block_count ? (int)below((size_t)block_count) : 0; n > 0 && block_count; n--) {
        block_free(i < block_count ? i : 0);
        i = one_in(4) || i == 0 ? (block_count ? (int)below((size_t)block_count) : 0) : i - 1;
    }
}

static void step_resize(void)
{
    if (block_count == 0)
        return;
    int i = (int)below((size_t)block_count);
    model_block *b = &blocks[i];
    size_t before = b->bytes;
    size_t bytes = one_in(3) ? before + below(before + 2) / (1 + below(8))
        : one_in(2) ? before / (1 + below(3))
        : random_size();
    bytes = bytes > (size_t)24 << 20 ? random_size() : bytes;
    TRACE("resize %p from %zu to %zu bytes\n", (void *)b->at, before, bytes);
    pattern_read(b, before, before);
    void *p;
    if (b->heap >= 0) {
        glebe_heap *heap = heaps[b->heap].heap;
        p = one_in(2) && bytes && !b->unsized ? glebe_heap_realloc_sized(heap, b->at, before, bytes)
            : glebe_heap_realloc(heap, b->at, bytes);
    } else
        p = glebe_realloc(b->at, bytes);
    if (bytes == 0) {
        REQUIRE(p == NULL);
        block_forget(i);
        return;
    }
    if (!p) {
        REQUIRE(failing || (b->heap >= 0 && heaps[b->heap].limit));
        pattern_read(b, before, before);
        return;
    }
    model_block moved = *b;
    moved.at = p;
    pattern_read(&moved, before, bytes < before ? bytes : before);
    bool stayed = p == (void *)b->at;
    block_forget(i);
    uint32_t life = moved.life;
    /* without memory realloc may leave a block too large: sized frees do not accept that one */
    bool unsized = moved.unsized || (bytes <= GB_SMALL_MAX && glebe_usable_size(p) > GB_SMALL_MAX);
    block_enter(p, bytes, 8, moved.heap, false);
    blocks[block_count - 1].unsized = unsized; /* it may still be the same block */
    if (stayed)
        blocks[block_count - 1].life = life;
}

static void step_heap(void)
{
    int h = (int)below(HEAPS);
    if (!heaps[h].heap) {
        heaps[h].limit = one_in(3) ? below((size_t)4 << 20) : 0;
        heaps[h].heap = glebe_heap_create(heaps[h].limit);
        TRACE("create heap %d with limit %zu\n", h, heaps[h].limit);
        REQUIRE(heaps[h].heap || failing);
        return;
    }
    if (one_in(2)) {
        size_t limit = one_in(2) ? 0 : below((size_t)4 << 20), held = glebe_heap_bytes(heaps[h].heap);
        TRACE("limit heap %d, which holds %zu, to %zu\n", h, held, limit);
        int error = glebe_heap_limit(heaps[h].heap, limit);
        REQUIRE(error == (limit && held > limit ? EBUSY : 0));
        heaps[h].limit = error ? heaps[h].limit : limit;
        return;
    }
    TRACE("destroy heap %d\n", h);
    for (int i = block_count; i-- > 0;)
        if (blocks[i].heap == h) {
            pattern_read(&blocks[i], blocks[i].bytes, blocks[i].bytes);
            block_forget(i);
        }
    glebe_heap_destroy(heaps[h].heap);
    heaps[h].heap = NULL;
}

static void step_thread(void)
{
    int k = (int)below(THREADS);
    if (one_in(4)) {
        TRACE("thread %d ends\n", k);
        fixture_thread_end(k);
        lives[k] = ++life_last;
        return;
    }
    TRACE("thread %d goes on\n", k);
    fixture_thread(k);
}

static void step_time(void)
{
    fake.now_ms += (uint32_t)(one_in(3) ? below(2000) : below(60));
    if (one_in(6)) {
        int h = random_heap();
        TRACE("collect %d\n", h);
        glebe_trim(h < 0 ? NULL : heaps[h].heap);
    }
    if (GB_THREADS && gb_self->number.n && one_in(2))
        gb_tick_due(gb_self);
}

/* Makes pages have four slices from the start: only those are parked. */
static void model_demand(void)
{
    enum { MUCH = 1 << 20 };
    for (uint32_t number = 1; GB_THREADS && number <= gb_the.records.made; number++)
        for (uint32_t cls = 0; cls < GB_CLASSES; cls++)
            if (gb_heap_at((gb_heap_id){number})->class_slices[cls] < MUCH)
                gb_heap_at((gb_heap_id){number})->class_slices[cls] += MUCH;
}

static void model_step(void)
{
    if (gb_the.options.background)
        model_demand();
    size_t pick = below(100);
    size_t grow = step / 60 % 2 ? 30 : 50; /* the heap swells and shrinks */
    if (pick < grow)
        step_allocate();
    else if (pick < 75)
        step_free();
    else if (pick < 83)
        step_resize();
    else if (pick < 86)
        step_heap();
    else if (pick < 94)
        step_thread();
    else
        step_time();
    fixture_check();
    for (int h = 0; h < HEAPS; h++)
        REQUIRE(!heaps[h].heap || !heaps[h].limit || glebe_heap_bytes(heaps[h].heap) <= heaps[h].limit);
    REQUIRE(glebe_live.stats.errors == 0);
    if (GB_PURGES && !failing && seed % 8 != 3 && !gb_the.options.purge_lazily) {
        /* retained memory adds no more to the peak than if all of it was huge blocks */
        size_t peak = (size_t)glebe_live.stats.peak_used_bytes;
        size_t idle = (gb_the.arena.dirty_slices << GB_SLICE_LOG2) + (size_t)glebe_live.stats.huge_retained_bytes;
        size_t most = peak + peak / GB_KEPT_SHARE + GB_KEPT_BYTES + peak / GB_KEPT_HUGE_SHARE;
        REQUIRE(glebe_live.stats.used_bytes + idle <= most);
    }
}

/* Sets up the host for this seed. */
static void model_host(void)
{
    uint32_t purge = 1u << GB_FAKE_PURGE, commit = 1u << GB_FAKE_COMMIT | 1u << GB_FAKE_MOVE;
    failing = seed % 8 >= 4 && seed % 8 <= 6;
    if (seed % 8 == 3 && one_in(4))
        gb_fake_fail(purge, 1, 1 + below(20));
    if (GB_LINEAR && seed % 8 == 6 && one_in(16))
        fake.foreign_bytes = (size_t)1 << 16 << below(4);
    if (seed % 8 == 4 && one_in(8))
        gb_fake_fail(purge | commit, 1 + below(4), 1 + below(3));
    if (step != 0)
        return;
    if (seed % 8 == 5)
        fake.memory_bytes = (size_t)12 << 20;
    if (seed % 8 == 6) {
        fake.address_bytes = (size_t)1 << 27;
        fake.taken_from = fake_start + ((size_t)16 << 20);
        fake.taken_to = fake.taken_from + ((size_t)6 << 20);
    }
    if (seed % 8 == 7)
        fake.page_bytes = (size_t)16 << 10;
}

static void model_run(void)
{
    fixture_start(seed);
    gb_the.options.purge_ms = 100;
    gb_the.options.background = seed / 8 % 2 == 0; /* no thread on this host, but pages are parked for one */
    gb_the.options.purge_lazily = seed / 8 % 2;
    chance = seed * 1000003;
    block_count = 0;
    step = 0;
    life_last = 0;
    for (int k = 0; k < THREADS; k++)
        lives[k] = ++life_last;
    memset(heaps, 0, sizeof heaps);
    for (int i = 0; i < 6; i++)
        favourites[i] = i < 5 ? 1 + below((size_t)16 << below(8)) : GB_SMALL_MAX + below(GB_MEDIUM_MAX / 4);
    for (; step < steps_wanted; step++) {
        model_host();
        model_step();
    }
    gb_fake_fail(0, 0, 0);
    while (block_count)
        block_free(0);
    for (int h = 0; h < HEAPS; h++)
        glebe_heap_destroy(heaps[h].heap);
    fixture_check();
    if (one_in(2))
        for (int k = 1; k < THREADS; k++)
            fixture_thread_end(k);
    fixture_release();
}

int main(void)
{
    tracing = number("GLEBE_TEST_TRACE", 0) != 0;
    return model_main(model_run, 400);
}
