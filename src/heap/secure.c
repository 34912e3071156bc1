/* Checks of blocks that only the secure and the audit build make.
 *
 *     secure   The end of a small or medium block is its tail (page_map.h), which is secret.
 *
 *                  | the program's bytes | slack: the first 249 to 256 a pattern   | tail |    in use
 *                  | zeros                                                         | tail |    free, small
 *                  | zeros                                                                |    free, medium
 *
 *              A tail or a pattern that has changed is an overflow: of the block itself, or from the block behind. A
 *              free block that is not zero was written to. A block freed twice has the tail of a free one, which no
 *              write to the program's bytes reaches. What a block held cannot be read any more.
 *     audit    A bit for each block says whether it is in use (audit.c).
 *
 * Both check that an address is the start of a block that was handed out. The secure build checks a block when it is
 * freed, resized and handed out. The blocks that a heap has handed out and freed last are checked once more, with their
 * neighbours, at the heap's next slow request. This finds many overflows of blocks that the program never frees. */
#include "secure.h"

#if GB_SECURE
enum { AROUND = 64 /* bytes on either side of a block whose blocks are its neighbours */ };

#define LAST(n) (n == 0 ? 0 : SECURE_BIG_ENDIAN ? UINT64_MAX >> (64 - 8 * n) : UINT64_MAX << (64 - 8 * n))
const uint64_t gb_secure_last[] = {0, LAST(1), LAST(2), LAST(3), LAST(4), LAST(5), LAST(6), LAST(7), LAST(8)};

/* Bytes of slack that have the pattern: all, or as many as end with a word. */
static size_t pattern_bytes(size_t slack)
{
    return slack < PATTERN_MOST ? slack : PATTERN_MOST - (PATTERN_MOST - slack) % sizeof(uint64_t);
}

/* Writes and checks the pattern of the slack before the tail, by words, from its end. */
static void pattern_set(uint64_t *tail, size_t slack)
{
    uint64_t pattern = gb_the.tail_pattern, *end = tail - (slack - pattern_bytes(slack)) / sizeof *tail;
    for (slack = pattern_bytes(slack); slack > sizeof *end; slack -= sizeof *end)
        *--end = pattern;
    end[-1] = (end[-1] & ~gb_secure_last[slack]) | (pattern & gb_secure_last[slack]);
}

static bool pattern_intact(const uint64_t *tail, size_t slack)
{
    const uint64_t pattern = gb_the.tail_pattern, *end = tail - (slack - pattern_bytes(slack)) / sizeof *tail;
    for (slack = pattern_bytes(slack); slack > sizeof *end; slack -= sizeof *end)
        if (*--end != pattern)
            return false;
    return ((end[-1] ^ pattern) & gb_secure_last[slack]) == 0;
}

/* ---- blocks in use ---- */

void gb_secure_size(void *block, uint32_t cls, size_t bytes)
{
    size_t most = gb_classes[cls].bytes - GB_TAIL_BYTES, slack = most - (bytes ? bytes : 1);
    uint64_t *tail = gb_tail_at(block, gb_classes[cls].bytes);
    pattern_set(tail, slack);
    gb_tail_set(tail, slack);
}

size_t gb_secure_bytes(const gb_page *page, const void *block)
{
    size_t most = gb_classes[page->cls].bytes - GB_TAIL_BYTES;
    uint64_t plain = gb_tail_get(gb_tail_at(block, gb_classes[page->cls].bytes));
    return gb_tail_is(plain, plain & GB_TAIL_FREE) && gb_tail_slack(plain) < most ? most - gb_tail_slack(plain) : most;
}

/* Takes what gb_tail_get returned. */
GB_INLINE bool tail_intact(const uint64_t *tail, uint64_t plain, size_t most)
{
    size_t slack = gb_tail_slack(plain);
    return gb_tail_is(plain, 0) && slack < most && pattern_intact(tail, slack);
}

static bool used_intact(const gb_page *page, const void *block)
{
    const uint64_t *tail = gb_tail_at(block, gb_classes[page->cls].bytes);
    return tail_intact(tail, gb_tail_get(tail), gb_classes[page->cls].bytes - GB_TAIL_BYTES);
}

static void report_overflow(const char *call, const gb_page *page, const void *block)
{
    gb_report(call, block, "the block of %zu bytes here was written past its end, or from the block behind it",
        gb_secure_bytes(page, block));
}

bool gb_secure_resize(const gb_page *page, void *block, size_t bytes)
{
    size_t most = gb_classes[page->cls].bytes - GB_TAIL_BYTES;
    if (bytes > most || bytes <= most / 2)
        return false;
    if (!used_intact(page, block))
        report_overflow("realloc", page, block);
    size_t before = gb_secure_bytes(page, block);
    if (bytes < before) /* gb_secure_medium_freed relies on it */
        memset((char *)block + bytes, 0, before - bytes + pattern_bytes(most - before));
    gb_secure_size(block, page->cls, bytes);
    return true;
}

/* ---- free blocks ---- */

bool gb_secure_is_free(const gb_page *page, const void *block)
{
    return gb_tail_is(gb_tail_get(gb_tail_at(block, gb_classes[page->cls].bytes)), GB_TAIL_FREE);
}

static void report_written(const gb_page *page, const void *block)
{
    gb_report("malloc", block, "free block of %zu bytes was written to after it was freed, or its neighbour overflowed",
        gb_secure_bytes(page, block));
}

void gb_secure_cut(const gb_page *page, gb_block *block)
{
    report_written(page, block);
    gb_link_set(block, NULL);
}

gb_block *gb_secure_next(const gb_page *page, gb_block *block)
{
    size_t most = gb_classes[page->cls].bytes - GB_TAIL_BYTES, some = most < AROUND ? most : AROUND;
    gb_block *next = gb_link_get(block);
    if (!next && !gb_secure_is_free(page, block))
        gb_secure_cut(page, block);
    else if (!gb_words_zero(block, some)) {
        report_written(page, block);
        memset(block, 0, most);
    }
    return next;
}

gb_block *gb_secure_out(gb_block *block, size_t cls)
{
    size_t bytes = gb_classes[cls].bytes;
    uint64_t *tail = gb_tail_at(block, bytes), plain = gb_tail_get(tail);
    gb_block *next = gb_tail_next(block, plain);
    if (GB_UNLIKELY(!gb_tail_is(plain, GB_TAIL_FREE) || !gb_words_zero(block, bytes - GB_TAIL_BYTES))) {
        report_written(gb_block_page(block), block);
        memset(block, 0, bytes - GB_TAIL_BYTES);
    }
    gb_tail_set(tail, 0);
    return next;
}

void *gb_secure_written(gb_block *block, size_t bytes)
{
    const gb_page *page = gb_block_page(block);
    report_written(page, block);
    memset(block, 0, gb_classes[page->cls].bytes - GB_TAIL_BYTES);
    gb_secure_size(block, page->cls, bytes);
    return block;
}

/* Marks a block that is about to be cleared: gb_secure_look of another thread must not see a pattern half gone. */
static void tail_retire(uint64_t *tail)
{
    uint64_t plain = gb_tail_get(tail);
    gb_tail_set(tail, (gb_tail_is(plain, 0) ? plain : 0) | GB_TAIL_LINK_MASK | GB_TAIL_FREE);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

void gb_secure_free_slow(const char *call, glebe_heap *self, gb_page *page, gb_block *block)
{
    const size_t bytes = gb_classes[page->cls].bytes, most = bytes - GB_TAIL_BYTES;
    uint32_t index;
    uint64_t *tail = gb_tail_at(block, bytes), plain = 0;
    bool exact = gb_class_exact(page->cls, (uintptr_t)block - gb_page_start(page), &index) && index < page->bump;
    if (GB_UNLIKELY(!exact || !tail_intact(tail, plain = gb_tail_get(tail), most))) {
        if (!exact || gb_tail_is(plain, GB_TAIL_FREE)) {
            gb_report_address(call, block);
            return;
        }
        report_overflow(call, page, block);
    }
    memset(block, 0, most);
    plain = gb_tail_is(plain, 0) ? plain : 0;
    gb_tail_set(tail, plain | GB_TAIL_FREE | gb_tail_to(block, page->free));
    page->free = block;
    self->watched[1] = block;
    if (GB_UNLIKELY(gb_the.options.secure == GB_SECURE_MOST))
        gb_secure_look(self);
    gb_page_counted(page);
}

void gb_secure_clear(const char *call, const gb_page *page, void *block)
{
    if (!used_intact(page, block))
        report_overflow(call, page, block);
    tail_retire(gb_tail_at(block, gb_classes[page->cls].bytes));
    gb_clear_touched(block, gb_classes[page->cls].bytes - GB_TAIL_BYTES);
}

void gb_secure_forget(gb_page *page)
{
    gb_clear_touched((void *)gb_page_start(page), (size_t)page->bump * gb_classes[page->cls].bytes);
}

/* ---- medium blocks ---- */

void gb_secure_medium_freed(const char *call, const gb_page *page, void *block)
{
    uint64_t *tail = gb_tail_at(block, gb_classes[page->cls].bytes);
    size_t slack = gb_tail_slack(gb_tail_get(tail)), most = gb_classes[page->cls].bytes - GB_TAIL_BYTES;
    if (!used_intact(page, block)) {
        report_overflow(call, page, block);
        slack = 0;
    }
    tail_retire(tail);
    if (gb_secure_level() > 1) /* what is behind the pattern is zero still */
        gb_clear_touched(block, gb_round_up(most - slack + pattern_bytes(slack), sizeof *tail));
}

void gb_secure_medium_out(const gb_page *page, void *block)
{
    size_t bytes = gb_classes[page->cls].bytes - GB_TAIL_BYTES;
    if (gb_words_zero(block, bytes))
        return;
    report_written(page, block);
    memset(block, 0, bytes);
}

/* The memory of an empty page is zero but for the tails. Without them it is blank: whatever is found there when another
 * medium page takes it was written meanwhile. */
void gb_secure_medium_give(gb_page *page)
{
    if (gb_secure_level() == 1)
        return;
    for (uint32_t dirty = gb_load_relaxed(&page->dirty); dirty; dirty &= dirty - 1) {
        uint64_t *tail = gb_tail_at(gb_block_at(page, gb_ctz32(dirty)), gb_classes[page->cls].bytes);
        if (gb_tail_is(gb_tail_get(tail), GB_TAIL_FREE))
            *tail = 0;
    }
    page->state = GB_BLANK;
}

void gb_secure_medium_taken(const gb_page *page)
{
    char *slice = (char *)gb_page_start(page);
    for (uint32_t i = 0; i < page->slices; i++, slice += GB_SLICE_BYTES) {
        bool blank = page->blank >> i & 1;
        if (blank && gb_words_zero(slice, GB_SLICE_BYTES))
            continue;
        if (blank) {
            const uint64_t *word = (const uint64_t *)(const void *)slice;
            while (*word == 0)
                word++;
            gb_report(
                "malloc", word, "free memory was written to here, in a block that was freed or past the end of one");
        }
        gb_clear_touched(slice, GB_SLICE_BYTES);
    }
}

/* ---- neighbours ---- */

/* Checks a block that may be free or in use. Another thread may free it meanwhile. Blocks that the purger took are
 * zero: it says so before. A free block that was written to is cleared, so that it is one report: only the owner hands
 * it out. */
static GB_NOINLINE void look_twice(const gb_page *page, gb_block *block)
{
    size_t bytes = gb_classes[page->cls].bytes - GB_TAIL_BYTES;
    uint64_t plain = gb_tail_get(gb_tail_at(block, gb_classes[page->cls].bytes));
    bool is_free = gb_tail_is(plain, GB_TAIL_FREE), clearing = (plain & GB_TAIL_LINK_MASK) == GB_TAIL_LINK_MASK;
    if (is_free ? clearing || gb_words_zero(block, bytes < AROUND ? bytes : AROUND) : gb_tail_is(plain, 0))
        return;
    if (gb_load(&page->xfree) & GB_XFREE_PURGED)
        return;
    if (is_free) {
        report_written(page, block);
        memset(block, 0, bytes);
    } else
        report_overflow("malloc", page, block);
}

/* Looks at block `index` of the page and its neighbours. Most are as they should be. */
static void look_around(const gb_page *page, uint32_t index)
{
    uint32_t beside = gb_secure_near(page->cls),
             to = page->bump + beside < page->cap ? page->bump + beside : page->cap;
    to = index + beside + 1 < to ? index + beside + 1 : to;
    if (page->state == GB_SPARE || page->bump == 0)
        return;
    size_t size = gb_classes[page->cls].bytes, some = size - GB_TAIL_BYTES < AROUND ? size - GB_TAIL_BYTES : AROUND;
    uint32_t i = index > beside ? index - beside : 0;
    for (gb_block *block = gb_block_at(page, i); i < to; i++, block = (gb_block *)((uintptr_t)block + size)) {
        if (GB_UNLIKELY(page->holes) && gb_hole_has(page, i))
            continue;
        uint64_t plain = gb_tail_get(gb_tail_at(block, size));
        if (!gb_tail_is(plain, 0)
            && !(gb_tail_is(plain, GB_TAIL_FREE)
                && secure_words_zero((uint64_t *)block, (uint64_t *)((uintptr_t)block + some))))
            look_twice(page, block);
    }
}

uint32_t gb_secure_near(uint32_t cls)
{
    uint32_t beside = AROUND / gb_classes[cls].bytes;
    return beside ? beside : 1;
}

/* Checks the slack of a block too. If it is in use, another thread may free it meanwhile. */
static void look_at_used(const gb_page *page, const void *block)
{
    if (used_intact(page, block))
        return;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (!gb_secure_is_free(page, block))
        report_overflow("malloc", page, block);
}

/* Returns whether a medium block is in use. Under the lock no bit is the purger's. */
static bool medium_used(const gb_page *page, uint32_t index)
{
    gb_lock_take(&gb_the.lock);
    bool is_free = gb_page_purged(page) || (gb_load_relaxed(&page->bits) >> index & 1);
    gb_lock_drop(&gb_the.lock);
    return !is_free;
}

/* The end of the block before is checked too, unless reading it could touch memory. */
static void look_medium(const glebe_heap *heap, const gb_page *page, void *block)
{
    uint32_t index = gb_class_index(page->cls, (uintptr_t)block - gb_page_start(page));
    void *held = heap->warm[page->cls - GB_SMALL_CLASSES];
    if (held == block) {
        if (gb_secure_level() > 1 && !gb_words_zero(block, AROUND))
            gb_secure_medium_out(page, block);
    } else if (!used_intact(page, block) && medium_used(page, index))
        look_at_used(page, block);
    const char *before = (const char *)block - AROUND;
    if (index == 0 || (uintptr_t)before / GB_UNIT_BYTES != (uintptr_t)block / GB_UNIT_BYTES)
        return;
    void *neighbour = (char *)block - gb_classes[page->cls].bytes;
    uint64_t *tail = gb_tail_at(block, 0);
    uint64_t coded = gb_tail_coded(tail); /* one read: the purger may clear it now */
    uint64_t plain = gb_tail_plain(coded, gb_tail_secret(tail));
    if (!gb_tail_is(plain, plain & GB_TAIL_FREE) && coded != 0) {
        if (medium_used(page, index - 1) && neighbour != held)
            look_at_used(page, neighbour);
        else {
            report_written(page, neighbour);
            *tail = 0;
        }
    } else if (!gb_tail_is(plain, 0) && gb_secure_level() > 1 && !gb_words_zero(before, AROUND - GB_TAIL_BYTES)
        && !medium_used(page, index - 1))
        gb_secure_medium_out(page, neighbour); /* no other thread is clearing it */
}

void gb_secure_look(glebe_heap *heap)
{
    for (unsigned i = 0; i < GB_WATCHED; i++) {
        gb_block *block = heap->watched[i];
        if (!block || !GB_TAIL_ATOMIC)
            continue;
        heap->watched[i] = NULL;
        uint32_t index;
        const gb_page *page = gb_block_page(block);
        if ((page->kind != GB_SMALL && page->kind != GB_MEDIUM) || !gb_heap_owns(heap, page)
            || !gb_class_exact(page->cls, (uintptr_t)block - gb_page_start(page), &index) || index >= page->bump)
            continue; /* the page has other blocks now */
        if (page->kind == GB_SMALL) {
            look_around(page, index);
            if (page->state != GB_SPARE && gb_tail_is(gb_tail_get(gb_tail_at(block, gb_classes[page->cls].bytes)), 0))
                look_at_used(page, block);
        } else
            look_medium(heap, page, block);
    }
}
#endif

#if GB_SECURE || GB_AUDIT
bool gb_free_allowed(const char *call, const gb_page *page, void *block)
{
    if (!gb_block_in_use(page, block) || (GB_AUDIT && !gb_audit_died(block))) {
        gb_report_address(call, block);
        return false;
    }
    if (GB_SECURE)
        gb_secure_clear(call, page, block);
    return true;
}
#endif
