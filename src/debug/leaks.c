/* Leaks: blocks that malloc handed out and that nothing in the process refers to. The search runs in a copy of the
 * process (gb_port_copy), so the program goes on meanwhile.
 *
 *     tables -> live      a bit for each 16 bytes of chunks and each granule of extents: a block in use begins here
 *     roots  -> words -> blocks that are live and not marked -> their words -> ...              a stack of addresses
 *     live and not marked -> the file -> the process, which calls the program back
 *
 * 1. A word that holds an address anywhere inside a block reaches it, as in `glebe leaks` (cli/src/leaks), which does
 *    the same from outside.
 * 2. The caller holds the locks that a fork takes, so tables, extents and samples are consistent. Pages are not: a
 *    thread that was stopped inside malloc may have free blocks on no list, which look like leaks. So a leak is what
 *    leaked in two copies, between which each thread has run on.
 * 3. The copy allocates nothing from glebe. Its bits and its stack are mappings that are no roots.
 * 4. In this process no static variable keeps the address of a leaked block: it would be a root of the next search. */
#include "../heap/tags.h"
#include "debug.h"

#if GB_LEAKS

enum { LEAKS_LISTED_MOST = 1 << 20 }; /* more links than any list has: a damaged one may be a circle */

typedef struct leaks_head {
    uint64_t live_blocks, live_bytes, leaked_blocks;
} leaks_head;

typedef struct leaks_record {
    uint64_t block, bytes, first;
} leaks_record;

typedef struct leaks_block {
    uintptr_t start;
    size_t bytes, bit;
} leaks_block;

static struct leaks_search {
    size_t chunk_bytes, extent_bytes; /* from gb_the.base and gb_the.extents_base */
    size_t words; /* of each set of bits */
    uint64_t *live, *marked, *referred;
    uintptr_t *stack;
    size_t depth;
    struct { uintptr_t from, to; } own[2]; /* the bits; the stack */
    leaks_head head;
} leaks;

/* ---- which blocks are live ---- */

static size_t leaks_bit(uintptr_t start)
{
    size_t offset = start - gb_the.base;
    if (offset < leaks.chunk_bytes)
        return offset >> 4;
    return (leaks.chunk_bytes >> 4) + ((start - gb_the.extents_base) >> GB_GRANULE_LOG2);
}

static void leaks_clear(const void *block)
{
    size_t bit = leaks_bit((uintptr_t)block);
    leaks.live[bit / 64] &= ~((uint64_t)1 << bit % 64);
}

static void leaks_add(uintptr_t start)
{
    if (!GB_SAFE || !gb_held_block((const void *)start))
        gb_bit_set(leaks.live, leaks_bit(start));
}

/* The blocks of a list are free. It ends where a link leads to no block of a small page. */
static void leaks_clear_list(const gb_block *block)
{
    for (uint32_t n = 0; block && n < LEAKS_LISTED_MOST; n++, block = gb_link_get(block)) {
        const gb_page *entry = (uintptr_t)block % sizeof(void *) == 0 ? gb_page_entry(block) : NULL;
        if (!entry || entry->kind != GB_SMALL)
            return;
        leaks_clear(block);
    }
}

static void leaks_add_small(const gb_page *page)
{
    uintptr_t start = gb_page_start(page);
    uint64_t xfree = gb_load(&page->xfree);
    if (page->state == GB_SPARE || gb_page_purged(page))
        return;
    if (GB_MIXES && page->cls == GB_MIXED) {
        for (size_t offset = 0; offset < gb_page_bytes(page); offset += 8)
            if (gb_mixed_class(page, (void *)(start + offset)) != GB_MIXED)
                leaks_add(start + offset);
    } else {
        size_t bytes = gb_classes[page->cls].bytes;
        for (size_t i = 0; i < page->bump; i++) {
            size_t from = i * bytes >> GB_UNIT_LOG2, to = ((i + 1) * bytes - 1) >> GB_UNIT_LOG2;
            if (!((page->holes >> from | page->holes >> to) & 1))
                leaks_add(start + i * bytes);
        }
    }
    leaks_clear_list(gb_page_list(page));
    if (GB_XFREE_FIRST(xfree))
        leaks_clear_list((gb_block *)(start + GB_XFREE_FIRST(xfree) - 1));
    if (page->state == GB_AVAIL && page->mark == GB_PARKED)
        for (uint32_t u = 0; u < GB_PAGE_UNITS; u++)
            if (!(page->holes >> u & 1) && page[2].units[u])
                leaks_clear_list(gb_block_at(page, page[2].units[u] - 1u));
}

static void leaks_add_medium(const gb_page *page)
{
    uint32_t bits = gb_load(&page->bits);
    for (uint32_t i = 0; i < page->cap && !gb_page_purged(page); i++)
        if (!(bits >> i & 1))
            leaks_add(gb_page_start(page) + (size_t)i * gb_classes[page->cls].bytes);
}

static const gb_page *leaks_run(uint32_t slice)
{
    const gb_page *entry = gb_entry_at(slice);
    return entry->kind == GB_FREE && gb_large_in(slice) ? gb_large_in(slice) : entry;
}

typedef void leaks_run_visit(const gb_page *page);
typedef void leaks_extent_visit(const gb_extent *extent);
/* Calls `run` for each run of slices, and `huge` for each extent in use. */
static void leaks_each_run(leaks_run_visit *run, leaks_extent_visit *huge)
{
    for (uint32_t slice = 0; slice < leaks.chunk_bytes >> GB_SLICE_LOG2;) {
        const gb_page *page = leaks_run(slice);
        bool is_run = page->kind != GB_FREE && page->kind != GB_RESERVED && page->slices;
        if (is_run)
            run(page);
        slice += is_run ? page->slices : 1;
    }
    size_t granules = leaks.extent_bytes >> GB_GRANULE_LOG2;
    for (size_t i = 0; i < granules; i += gb_the.extents[i].granules ? gb_the.extents[i].granules : 1)
        if (gb_the.extents[i].state == GB_EXTENT_USED)
            huge(gb_the.extents + i);
}

static void leaks_add_run(const gb_page *page)
{
    if (page->kind == GB_SMALL)
        leaks_add_small(page);
    else if (page->kind == GB_MEDIUM)
        leaks_add_medium(page);
    else if (page->kind == GB_LARGE && !page->warm)
        leaks_add(gb_run_start(page));
}

static void leaks_add_extent(const gb_extent *extent)
{
    if (!extent->collected && !extent->warm && !(GB_SAFE && extent->held) && extent->bytes)
        gb_bit_set(leaks.live, leaks_bit(gb_extent_start(extent)));
}

/* What heaps have at hand is free, though it is out of its page. */
static void leaks_clear_heap(const glebe_heap *heap)
{
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++) {
        leaks_clear_list(gb_block_or_null(heap->front[cls]));
        if (GB_BORROWS)
            leaks_clear_list(heap->borrowed[cls].first);
    }
    for (uint32_t i = 0; i < GB_REMOTE_SLOTS; i++)
        if (heap->remote[i].page.n)
            leaks_clear_list(heap->remote[i].first);
    for (uint32_t i = 0; i < GB_CLASSES - GB_SMALL_CLASSES; i++)
        if (heap->warm[i])
            leaks_clear(heap->warm[i]);
}

/* The sampler's records refer to every sampled block, so they are no roots, and no blocks either. */
static void leaks_clear_sampler(void)
{
    const gb_sampler *sampler = &gb_the.sampler;
    const gb_records *all[] = {&sampler->samples, &sampler->frames, &sampler->sites, &sampler->labels};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (size_t k = 0; GB_SAMPLES && k < sizeof all[i]->chunks / sizeof all[i]->chunks[0]; k++)
            if (all[i]->chunks[k])
                leaks_clear(all[i]->chunks[k]);
    if (GB_SAMPLES && sampler->sample_heads)
        leaks_clear(sampler->sample_heads);
}

/* ---- what words reach ---- */

/* Finds the block, live or not, that the address is in. */
static bool leaks_find(uintptr_t at, leaks_block *found)
{
    if (at - gb_the.base < leaks.chunk_bytes) {
        const gb_page *page = gb_page_around((const void *)at);
        if (page->kind == GB_LARGE) {
            found->start = gb_run_start(page);
            found->bytes = gb_page_bytes(page);
        } else if (page->kind == GB_SMALL || page->kind == GB_MEDIUM) {
            gb_place place = gb_page_locate(page, at - gb_page_start(page));
            if (!place.carved)
                return false;
            found->start = at - place.inside;
            found->bytes = gb_classes[place.cls].bytes;
        } else
            return false;
    } else if (at - gb_the.extents_base < leaks.extent_bytes) {
        const gb_extent *extent = gb_extent_of((const void *)at);
        found->start = gb_extent_start(extent);
        found->bytes = extent->bytes;
        if (extent->state != GB_EXTENT_USED || at - found->start >= extent->bytes)
            return false;
    } else
        return false;
    found->bit = leaks_bit(found->start);
    return gb_bit(leaks.live, found->bit);
}

/* The bytes of a block that can be read: a huge block may have room that is not committed. */
static size_t leaks_readable(const leaks_block *block)
{
    if (block->start - gb_the.extents_base >= leaks.extent_bytes)
        return block->bytes;
    const gb_extent *extent = gb_extent_of((const void *)block->start);
    return extent->committed < block->bytes ? extent->committed : block->bytes;
}

typedef uintptr_t __attribute__((may_alias)) leaks_word;

static void leaks_reach(uintptr_t from, uintptr_t to)
{
    leaks_block found;
    for (const leaks_word *word = (const leaks_word *)gb_round_up(from, sizeof *word);
         (uintptr_t)(word + 1) <= to; word++)
        if (leaks_find(gb_tag_off(*word), &found) && !gb_bit(leaks.marked, found.bit)) {
            gb_bit_set(leaks.marked, found.bit);
            leaks.stack[leaks.depth++] = found.start;
        }
}

static void leaks_mark(uintptr_t from, uintptr_t to)
{
    leaks_block block;
    leaks_reach(from, to);
    while (leaks.depth > 0)
        if (leaks_find(leaks.stack[--leaks.depth], &block))
            leaks_reach(block.start, block.start + leaks_readable(&block));
}

/* A piece of memory with roots: all of it but what glebe and this search have for themselves, and blocks. */
static void leaks_root(void *context, uintptr_t from, uintptr_t to)
{
    (void)context;
    const struct { uintptr_t from, to; } not[] = {
        {(uintptr_t)gb_the.table, gb_the.base + leaks.chunk_bytes},
        {gb_the.extents_base, gb_the.extents_base + leaks.extent_bytes},
        {(uintptr_t)&gb_the, (uintptr_t)(&gb_the + 1)},
        {(uintptr_t)&leaks, (uintptr_t)(&leaks + 1)},
        {leaks.own[0].from, leaks.own[0].to},
        {leaks.own[1].from, leaks.own[1].to},
    };
    for (size_t i = 0; i < sizeof not / sizeof not[0]; i++)
        if (not[i].from < to && not[i].to > from) {
            if (from < not[i].from)
                leaks_root(NULL, from, not[i].from);
            if (to <= not[i].to)
                return;
            from = not[i].to;
            i = SIZE_MAX; /* from the first again, which ++ makes 0 */
        }
    leaks_mark(from, to);
}

/* Objects of a collector are roots. */
static void leaks_root_run(const gb_page *page)
{
    if (page->kind >= GB_COLLECTED)
        leaks_mark(gb_page_start(page), gb_page_start(page) + gb_page_bytes(page));
}

static void leaks_root_extent(const gb_extent *extent)
{
    if (extent->collected)
        leaks_mark(gb_extent_start(extent), gb_extent_start(extent) + extent->committed);
}

/* ---- the search, in the copy ---- */

static uintptr_t leaks_memory(size_t bytes, int which)
{
    bytes = gb_round_up(bytes + 1, GB_CHUNK_BYTES);
    uintptr_t at = gb_port_reserve(bytes);
    if (!at || gb_port_commit(at, bytes, true) != GB_COMMITTED)
        return 0;
    leaks.own[which].from = at;
    leaks.own[which].to = at + bytes;
    return at;
}

typedef void leaks_visit(gb_text *out, const leaks_block *block);
/* Calls `visit` with each live block. */
static void leaks_each(leaks_visit *visit, gb_text *out)
{
    size_t cells = leaks.chunk_bytes >> 4;
    for (size_t i = 0; i < leaks.words; i++)
        for (uint64_t bits = leaks.live[i]; bits; bits &= bits - 1) {
            leaks_block block;
            size_t bit = i * 64 + gb_ctz64(bits);
            uintptr_t at = bit < cells ? gb_the.base + (bit << 4) + 15 /* the block begins in these 16 bytes */
                                       : gb_the.extents_base + ((bit - cells) << GB_GRANULE_LOG2);
            if (leaks_find(at, &block))
                visit(out, &block);
        }
}

static void leaks_count(gb_text *out, const leaks_block *block)
{
    (void)out;
    leaks.head.live_blocks++;
    leaks.head.live_bytes += block->bytes;
}

/* Notes the blocks that a leaked block refers to. */
static void leaks_refer(gb_text *out, const leaks_block *block)
{
    (void)out;
    if (gb_bit(leaks.marked, block->bit))
        return;
    leaks.head.leaked_blocks++;
    uintptr_t end = block->start + leaks_readable(block);
    leaks_block found;
    for (const leaks_word *word = (const leaks_word *)block->start; (uintptr_t)(word + 1) <= end; word++)
        if (leaks_find(gb_tag_off(*word), &found) && found.bit != block->bit)
            gb_bit_set(leaks.referred, found.bit);
}

static void leaks_put(gb_text *out, const leaks_block *block)
{
    leaks_record record = {block->start, block->bytes, !gb_bit(leaks.referred, block->bit)};
    if (!gb_bit(leaks.marked, block->bit))
        gb_text_bytes(out, (const char *)&record, sizeof record);
}

static void leaks_find_live(void)
{
    leaks_each_run(leaks_add_run, leaks_add_extent);
    for (const glebe_heap *heap = NULL; (heap = gb_heap_next(heap));)
        leaks_clear_heap(heap);
    leaks_clear_sampler();
}

/* Without memory it writes nothing, which the process takes for a failure. */
static void leaks_work(void *context, int file)
{
    (void)context;
    leaks.chunk_bytes = gb_load_relaxed(&gb_the.slices) << GB_SLICE_LOG2;
    leaks.extent_bytes = (size_t)gb_load_relaxed(&gb_the.huge.top) << GB_GRANULE_LOG2;
    leaks.words = ((leaks.chunk_bytes >> 4) + (leaks.extent_bytes >> GB_GRANULE_LOG2)) / 64 + 1;
    leaks.live = (uint64_t *)leaks_memory(3 * leaks.words * sizeof(uint64_t), 0);
    if (!leaks.live)
        return;
    leaks.marked = leaks.live + leaks.words;
    leaks.referred = leaks.marked + leaks.words;
    leaks_find_live();
    leaks_each(leaks_count, NULL);
    leaks.stack = (uintptr_t *)leaks_memory(leaks.head.live_blocks * sizeof(uintptr_t), 1);
    if (!leaks.stack || !gb_port_world_memory(leaks_root, NULL))
        return;
    leaks_each_run(leaks_root_run, leaks_root_extent);
    leaks_each(leaks_refer, NULL);
    gb_text out = {.file = file, .error = 0, .count = 0};
    gb_text_bytes(&out, (const char *)&leaks.head, sizeof leaks.head);
    leaks_each(leaks_put, &out);
    gb_text_flush(&out);
}

/* ---- in the process ---- */

/* Searches one copy. Returns 0 or an error. */
static int leaks_copy(const void *frame, gb_copied *copied, leaks_head *head)
{
    gb_heaps_lock();
    int error = gb_port_copy(frame, leaks_work, NULL, copied);
    gb_heaps_unlock();
    if (!error && !gb_port_copy_read(copied, head, sizeof *head)) {
        gb_port_copy_end(copied);
        error = ENOMEM;
    }
    return error;
}

typedef struct leaks_reader {
    const gb_copied *copied;
    uint64_t left; /* records */
    leaks_record record;
    bool broken;
} leaks_reader;

static bool leaks_next(leaks_reader *reader)
{
    if (reader->left == 0)
        return false;
    reader->left--;
    reader->broken = !gb_port_copy_read(reader->copied, &reader->record, sizeof reader->record);
    return !reader->broken;
}

static void leaks_tell(const leaks_record *record, glebe_leaks_sums *sums, glebe_leaks_each *each, void *context)
{
    uintptr_t callers[GB_SAMPLE_FRAMES];
    sums->leaked_blocks++;
    sums->leaked_bytes += record->bytes;
    if (!each)
        return;
    glebe_leak leak = {.block = (const void *)(uintptr_t)record->block, .bytes = (size_t)record->bytes,
        .first = record->first != 0, .callers = callers};
#if GB_SAMPLES
    leak.callers_count = gb_sample_callers(leak.block, callers);
#endif
    each(context, &leak);
}

/* Tells of the blocks that leaked in both copies. Their records are sorted by address. Returns 0 or an error. */
static int leaks_tell_all(
    leaks_reader *one, leaks_reader *two, glebe_leaks_sums *sums, glebe_leaks_each *each, void *context)
{
    bool more = leaks_next(one);
    while (more && leaks_next(two)) {
        while (more && one->record.block < two->record.block)
            more = leaks_next(one);
        if (more && one->record.block == two->record.block)
            leaks_tell(&two->record, sums, each, context);
    }
    memset(&one->record, 0, sizeof one->record);
    memset(&two->record, 0, sizeof two->record);
    return one->broken || two->broken ? EIO : 0;
}

static int leaks_search(const void *frame, glebe_leaks_sums *sums, glebe_leaks_each *each, void *context)
{
    gb_copied one, two;
    leaks_head head, again;
    int error = leaks_copy(frame, &one, &head);
    if (error)
        return error;
    *sums = (glebe_leaks_sums){.live_blocks = head.live_blocks, .live_bytes = head.live_bytes, .threads = one.threads,
        .stopped_us = one.stopped_us};
    if (head.leaked_blocks) {
        gb_port_copy_wait();
        error = leaks_copy(frame, &two, &again);
    }
    if (head.leaked_blocks && !error) {
        leaks_reader first = {.copied = &one, .left = head.leaked_blocks},
                     second = {.copied = &two, .left = again.leaked_blocks};
        sums->stopped_us = one.stopped_us > two.stopped_us ? one.stopped_us : two.stopped_us;
        error = leaks_tell_all(&first, &second, sums, each, context);
        gb_port_copy_end(&two);
    }
    gb_port_copy_end(&one);
    return error;
}

#endif

/* ---- public ---- */

/* The registers that the caller may still need are stored in this frame; what is below it is no root. */
GB_NOINLINE int glebe_leaks(glebe_leaks_sums *sums, size_t sums_bytes, glebe_leaks_each *each, void *context)
{
    GB_ENTRY;
#if GB_LEAKS
    enum { SAVED_BYTES = 128 };
    static _Atomic uint32_t searching; /* process of the thread that is in here; a child of fork is another */
    glebe_leaks_sums all = {0};
    uint32_t process = gb_port_process();
    if (gb_lock_forking())
        return EDEADLK;
    if (gb_swap(&searching, process) == process)
        return EBUSY;
    __builtin_unwind_init();
    const char *frame = __builtin_frame_address(0);
    int error = gb_the.ready ? leaks_search(frame - SAVED_BYTES, &all, each, context) : 0;
    gb_store(&searching, 0);
    if (sums)
        memcpy(sums, &all, sums_bytes < sizeof all ? sums_bytes : sizeof all);
    return error;
#else
    (void)each, (void)context;
    if (sums)
        memset(sums, 0, sums_bytes);
    return ENOSYS;
#endif
}
