/* Where collected objects come from: the gaps that the last collection left in pages.
 *
 *     a page        | A | - | - | A | - | - | - | A |    A: allocated; a bit says so, in a table beside the slice table
 *                           at^      ^end
 *
 * Objects of one class and one layout share pages, so no object has a header. A cursor is a gap in one of the pages.
 * The gap was zeroed as a whole and its objects count as allocated, so that handing one out is an addition and a
 * compare. A cursor takes all free objects of a word of bits at once. Behind its gap it goes on to the next one that
 * begins in that word, without a look at the page. Only then does it look for another word with a free object, in this
 * page and those that follow. So gaps are found and cleared only when needed. If none is left the cursor takes a new
 * page, unless a collection is due.
 *
 * A layout gets its own pages once 4 KiB of it were allocated between two collections. Until then, and if too many
 * layouts are in use, its objects are in the conservative pages, where every word may be a reference. Objects over 2
 * KiB have a run of slices each.
 *
 * One thread at a time uses a collector, so the only lock is the region's, in gb_run_take and gb_run_give. */
#include "gc.h"

enum { EARLY_BYTES = 4096, PROBES = 4, SPARING_BYTES = 384 << 10 };
enum { WORD_BYTES = 64 * GB_CELL_BYTES /* of memory that a word of bits is for */ };

GB_NOINLINE gb_page *gb_object_at(const glebe_gc *gc, uintptr_t word, uintptr_t *object)
{
    gb_page *page = gb_page_entry((const void *)word);
    if (!page || !gb_collects(gc, page))
        return NULL;
    page = gb_page_head(page);
    uint32_t index = gb_object_index(page, word - gb_page_start(page));
    if (index >= page->cap)
        return NULL;
    *object = gb_object_start(page, index);
    return gb_bit(gb_bits_of(gc)->allocated, gb_cell(*object)) ? page : NULL;
}

/* ---- pages ---- */

static GB_NOINLINE gb_page *collected_take(
    glebe_gc *gc, enum gb_kind kind, uint32_t slices, uintptr_t layout, uint32_t dense, bool *zero)
{
    gb_page *page = gb_run_take(gc->heap, kind, slices, 1, zero);
    if (!page)
        return NULL;
    for (uint32_t i = 0; i < slices; i++)
        page[i].dense = dense;
    gc->heap->collected_bytes += gb_page_bytes(page);
    page->state = GB_SWEPT;
    page->layout = layout;
    page->cap = 1;
    page->step = (uint32_t)gb_page_bytes(page);
    return page;
}

void gb_collected_give(glebe_gc *gc, gb_list *list, gb_page *page)
{
    gb_list_remove(list, page);
    gc->heap->collected_bytes -= gb_page_bytes(page);
    gb_run_give(page);
}

/* Returns the index of the first bit that is set in [from, to); `to` if there is none. */
static uint32_t bits_next(const uint64_t *bits, uint32_t from, uint32_t to)
{
    while (from < to) {
        uint64_t word = bits[from / 64] >> from % 64;
        if (word) {
            from += gb_ctz64(word);
            return from < to ? from : to;
        }
        from = (from | 63) + 1;
    }
    return to;
}

/* ---- small objects ---- */

/* Returns the class of an object: four classes per doubling, while malloc has eight. Half of a collector's heap is
 * garbage anyway, and fewer classes need fewer pages. */
static uint32_t collected_class(size_t bytes)
{
    if (GB_CELL_BYTES == 8 && bytes <= 56 && (bytes + 7) & 8)
        return GB_OBJECT_CLASSES + (uint32_t)bytes / 16;
    uint32_t cls = gb_class_of_small(bytes + (GB_ZEROS && bytes == 0)), eights = gb_class_of_small(128) + 1;
    return cls < eights ? cls : eights + ((cls - eights) | 1);
}

static GB_NOINLINE uint32_t collected_step(uint32_t cls)
{
    return cls < GB_OBJECT_CLASSES ? gb_classes[cls].bytes : (cls - GB_OBJECT_CLASSES) * 16 + 8;
}

/* Returns the bits of the objects of `step` cells that start in a word of 64 bits, if one starts at its first bit. */
static uint64_t cells_every(uint32_t step)
{
    uint64_t every = 1;
    for (; step < 64; step *= 2)
        every |= every << step;
    return every;
}

/* Returns the first object, from the one at `from` on, that starts in a further word. */
static uint32_t cells_beyond(uint32_t from, uint32_t step)
{
    return from + (63 - from % 64 + step) / step * step;
}

/* Flips the bits of objects of `step` cells in [from, to): all are 0 and become 1, or the reverse. `every` is
 * cells_every(step). */
static void cells_flip(uint64_t *bits, uint32_t from, uint32_t to, uint32_t step, uint64_t every)
{
    for (; from < to; from = cells_beyond(from, step))
        bits[from / 64] ^= every << from % 64 & (from / 64 < to / 64 ? ~(uint64_t)0 : ((uint64_t)1 << to % 64) - 1);
}

/* If marking runs, records that the page has new objects, which count as reached. */
static void collected_born(glebe_gc *gc, gb_page *page)
{
    if (GB_CALLBACKS && gc->marking) {
        page->gc_flags |= GB_BORN;
        gc->born = true;
    }
}

/* Moves the cursor, whose gap has ended, to the first gap of its rest, which is not empty. */
static GB_NOINLINE void cursor_step(gb_cursor *cursor, uint32_t step)
{
    uint64_t rest = cursor->rest;
    uint32_t from = gb_ctz64(rest);
    uint64_t used = cursor->every << from & ~rest; /* objects behind the first one of the rest, and not free */
    uint64_t gap = rest & (used - 1);
    cursor->rest = rest ^ gap;
    cursor->at = (cursor->end & ~(uintptr_t)(WORD_BYTES - 1)) + from * GB_CELL_BYTES;
    cursor->end = cursor->at + gb_popcount64(gap) * step;
}

GB_SHORT_BEGIN /* to the end of the file */
/* Moves the cursor to the next gap of the page, from page->bump on. Returns false if there is none. All free objects of
 * the word of bits in which it begins count as in use from now on: the further gaps of that word are found without a
 * look at the page. A gap to the end of its word takes in the words behind it that are free. */
static bool cursor_gap(glebe_gc *gc, gb_cursor *cursor, gb_page *page)
{
    uint64_t *bits = gb_page_bits(gb_bits_of(gc)->allocated, page);
    uint32_t step = page->step / (uint32_t)GB_CELL_BYTES, end = page->cap * step, at = page->bump, objects = 0;
    uintptr_t start = gb_page_start(page);
    for (; at < end; at = cells_beyond(at, step)) {
        uint64_t free = cursor->every << at % 64 & ~bits[at / 64];
        if (at / 64 == end / 64)
            free &= ((uint64_t)1 << end % 64) - 1;
        uint32_t count = gb_popcount64(free);
        if (!objects) {
            if (!free)
                continue;
            cursor->rest = free;
            cursor->end = start + at / 64 * WORD_BYTES;
            cursor_step(cursor, page->step);
        } else if (cursor->end == start + at * GB_CELL_BYTES && !bits[at / 64])
            cursor->end += count * page->step;
        else
            break;
        bits[at / 64] |= free;
        objects += count;
    }
    page->bump = (uint16_t)(at < end ? at : end);
    if (!objects)
        return false;
    cursor->page = gb_page_id_of(page);
    collected_born(gc, page);
    gc->taken_bytes += objects * page->step;
    gc->stats.allocated_objects += objects;
    return true;
}

static gb_page *collected_fresh(glebe_gc *gc, gb_cursor *cursor, bool *zero)
{
    uint32_t slices = cursor->cls < GB_OBJECT_CLASSES ? gb_classes[cursor->cls].first_slices : 1;
    uint32_t step = collected_step(cursor->cls), dense = gb_layout_dense(cursor->layout) ? step : 0;
    gb_page *page = collected_take(gc, GB_COLLECTED, slices, cursor->layout, dense, zero);
    if (!page)
        return NULL;
    page->cls = (uint8_t)cursor->cls;
    page->cursor = (uint32_t)(cursor - gc->cursors);
    page->step = step;
    page->magic = (uint32_t)((((uint64_t)1 << 32) + step - 1) / step);
    page->cap = (uint16_t)(gb_page_bytes(page) / step);
    cursor->every = cells_every(step / (uint32_t)GB_CELL_BYTES);
    gb_list_push_last(&cursor->pages, page);
    return page;
}

/* Linear memory never shrinks, so there a third of the pace is enough if it would have to grow by `slices`. */
static GB_NOINLINE bool collection_due(glebe_gc *gc, uint32_t slices)
{
    gc->due = !gc->forced
        && (gc->taken_bytes >= gc->trigger_bytes
            || (!GB_PURGES && slices && gc->taken_bytes >= gc->trigger_bytes / 3 && !gb_run_fits(slices)));
    return gc->due;
}

/* Finds the cursor's next gap, and clears it. Returns false if a collection is due or there is no memory. */
static bool cursor_refill(glebe_gc *gc, gb_cursor *cursor, uint32_t step)
{
    bool zero = false;
    if (cursor->rest)
        cursor_step(cursor, step);
    else if (collection_due(gc, 0))
        return false;
    else {
        gb_page *page = gb_page_if(cursor->page);
        while (page && !cursor_gap(gc, cursor, page))
            page = gb_list_next(page);
        if (!page) {
            cursor->page = GB_NO_PAGE;
            /* a large heap takes long to mark */
            if (!GB_PURGES && gc->trigger_bytes <= SPARING_BYTES && collection_due(gc, 1))
                return false;
            page = collected_fresh(gc, cursor, &zero);
            if (!page)
                return false;
            cursor_gap(gc, cursor, page);
        }
    }
    if (!zero)
        gb_gap_zero(cursor->at, cursor->end);
    return true;
}

/* A new page whose memory is zero has GB_CLEAN until its first sweep. */
static gb_page *collected_fresh_clean(glebe_gc *gc, gb_cursor *cursor)
{
    bool zero;
    gb_page *page = collected_fresh(gc, cursor, &zero);
    if (page) {
        page->gc_flags = zero ? GB_CLEAN : 0;
        cursor->page = gb_page_id_of(page);
    }
    return page;
}

/* Adds gaps of the page, from page->bump on, to the row: `most` cells at most. Returns their cells. Gaps of one or
 * two objects are the rule in an old heap, and most begin and end in one word of bits. */
static uint32_t page_gaps(glebe_gc *gc, gb_page *page, uint32_t most, gb_cache_row *row)
{
    uint64_t *bits = gb_page_bits(gb_bits_of(gc)->allocated, page);
    uint32_t step = page->step / (uint32_t)GB_CELL_BYTES, end = page->cap * step, at = page->bump, taken = 0;
    uint64_t every = cells_every(step);
    while (at < end && taken < most && row->last < GB_ROW_GAPS) {
        uint64_t here = every << at % 64, free = here & ~bits[at / 64];
        if (at / 64 == end / 64)
            free &= ((uint64_t)1 << end % 64) - 1;
        if (!free) {
            at = cells_beyond(at, step);
            continue;
        }
        uint32_t from = at / 64 * 64 + gb_ctz64(free), limit = most - taken < end - from ? from + most - taken : end;
        at = bits_next(bits, from, limit);
        if (from / 64 == at / 64)
            bits[from / 64] |= here & (~(uint64_t)0 << from % 64) & (((uint64_t)1 << at % 64) - 1);
        else
            cells_flip(bits, from, at, step, every);
        taken += at - from;
        uintptr_t start = gb_page_start(page) + from * GB_CELL_BYTES;
        row->gaps[++row->last] = (gb_gap){start, start + (at - from) * GB_CELL_BYTES};
    }
    page->bump = (uint16_t)(at < end ? at : end);
    if (taken == 0)
        return 0;
    collected_born(gc, page);
    gc->taken_bytes += taken * GB_CELL_BYTES;
    gc->stats.allocated_objects += taken / step;
    return taken;
}

bool gb_gaps_next(glebe_gc *gc, size_t bytes, bool plain, size_t most_bytes, gb_cache_row *row)
{
    if (!GB_RUNTIMES || collection_due(gc, 0))
        return false;
    gb_cursor *cursor = &gc->cursors[(plain ? GB_PLAINS : GB_SCANNED) + collected_class(bytes)];
    uint32_t step = row->step = collected_step(cursor->cls);
    uint32_t most = (uint32_t)((most_bytes < step ? step : most_bytes / step * step) / GB_CELL_BYTES);
    if (cursor->at == cursor->end && cursor->rest) {
        cursor_step(cursor, step);
        gb_gap_zero(cursor->at, cursor->end);
    }
    if (cursor->at != cursor->end) {
        gb_gap *gap = &row->gaps[++row->last];
        *gap = (gb_gap){cursor->at, cursor->end};
        if (gap->end - gap->at > most * GB_CELL_BYTES)
            gap->end = gap->at + most * GB_CELL_BYTES;
        cursor->at = gap->end;
        return true;
    }
    for (gb_page *page = gb_page_if(cursor->page);; page = gb_list_next(page)) {
        if (!page && (row->last || (page = collected_fresh_clean(gc, cursor)) == NULL))
            return row->last;
        uint32_t before = row->last, taken = page_gaps(gc, page, most, row);
        if (taken) {
            cursor->page = gb_page_id_of(page);
            most -= taken;
            if (!(page->gc_flags & GB_CLEAN))
                row->dirty |= (uint16_t)((2u << row->last) - (2u << before));
            if (most == 0 || row->last == GB_ROW_GAPS)
                return true;
        }
    }
}

void gb_gap_return(glebe_gc *gc, const gb_gap *gap)
{
    gb_page *page = gb_page_head(gb_page_entry((const void *)gap->at));
    uint32_t from = (uint32_t)((gap->at - gb_page_start(page)) / GB_CELL_BYTES);
    size_t bytes = gap->end - gap->at;
    if (!GB_RUNTIMES || bytes == 0)
        return;
    uint32_t step = page->step / (uint32_t)GB_CELL_BYTES;
    cells_flip(gb_page_bits(gb_bits_of(gc)->allocated, page), from, from + (uint32_t)(bytes / GB_CELL_BYTES), step,
        cells_every(step));
    if (page->bump > from) {
        page->bump = (uint16_t)from;
        page->gc_flags &= (uint8_t)~GB_CLEAN;
    }
    size_t taken = bytes < gc->taken_bytes ? bytes : gc->taken_bytes;
    gc->taken_bytes -= taken;
    gc->cached_bytes -= bytes - taken; /* from before the last collection */
    gc->stats.allocated_objects -= bytes / page->step;
}

void gb_gap_shield(glebe_gc *gc, const gb_gap *gap, uint32_t step)
{
    size_t from = gb_cell(gap->at), page_from = from - from % 64;
    uint32_t cells = step / (uint32_t)GB_CELL_BYTES;
    if (!GB_RUNTIMES)
        return;
    cells_flip(gb_bits_of(gc)->unmarked + from / 64, (uint32_t)(from - page_from),
        (uint32_t)(gb_cell(gap->end) - page_from), cells, cells_every(cells));
    gc->cached_bytes += gap->end - gap->at;
    gc->cached_objects += (gap->end - gap->at) / step;
}

/* Depends on every bit of the layout, because two layouts may differ in one word of many. */
static uint32_t layout_hash(uintptr_t layout, uint32_t cls)
{
    return (uint32_t)(layout * GB_GOLDEN >> (8 * sizeof layout - 8)) + cls * 7;
}

/* Returns the cursor of the layout, or the one of conservative pages if little of the layout was allocated or there are
 * too many layouts. */
static gb_cursor *cursor_of_layout(glebe_gc *gc, uint32_t cls, uintptr_t layout)
{
    uint32_t hash = layout_hash(layout, cls);
    for (uint32_t i = 0; i < PROBES; i++) {
        gb_cursor *cursor = &gc->cursors[GB_PRECISE + (hash + i) % GB_PRECISE_CURSORS];
        if (cursor->layout == 0) {
            cursor->layout = layout;
            cursor->cls = cls;
        }
        if (cursor->layout != layout || cursor->cls != cls)
            continue;
        if (cursor->early >= EARLY_BYTES)
            return cursor;
        cursor->early += collected_step(cls);
        break;
    }
    return &gc->cursors[GB_SCANNED + cls];
}

/* Returns the cursor of the kind; NULL if there are too many kinds. Unlike a layout, a kind is always exact. */
static gb_cursor *cursor_of_kind(glebe_gc *gc, uint32_t cls, uintptr_t layout)
{
    uint32_t hash = layout_hash(layout, cls);
    for (uint32_t i = 0; GB_RUNTIMES && i != GB_KIND_CURSORS; i++) {
        gb_cursor *cursor = &gc->cursors[GB_KINDS + (hash + i) % (GB_KIND_CURSORS + !GB_RUNTIMES)];
        if (cursor->layout == 0) {
            cursor->layout = layout;
            cursor->cls = cls;
        }
        if (cursor->layout == layout && cursor->cls == cls)
            return cursor;
    }
    return NULL;
}

/* ---- large objects ---- */

static void *large_new(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    bool zero;
    uint32_t slices = (uint32_t)(gb_round_up(bytes, GB_SLICE_BYTES) >> GB_SLICE_LOG2);
    bool apart = GB_STACKS && layout == 0 && bytes % GB_SLICE_BYTES == 0; /* it may be a stack: stack.c */
    if (bytes > GB_MAX_BYTES || collection_due(gc, slices + apart))
        return NULL;
    if (bytes > GB_LARGE_MAX)
        return GB_HUGE ? gb_huge_object_new(gc, bytes, layout) : NULL;
    gb_page *page = collected_take(gc, GB_COLLECTED_LARGE, slices + apart, layout, 0, &zero);
    if (!page)
        return NULL;
    page->step = slices << GB_SLICE_LOG2;
    gb_page_bits(gb_bits_of(gc)->allocated, page)[0] = 1;
    collected_born(gc, page);
    gb_list_push_last(&gc->large, page);
    gc->taken_bytes += page->step;
    gc->stats.allocated_objects++;
    void *object = (void *)gb_page_start(page);
    return zero ? object : memset(object, 0, page->step); /* to the page's end, because marking scans up to there */
}

/* Requests of 1 to 8 bytes have one number, of 9 to 16 the next, and so on. Equal numbers imply equal classes. */
static size_t eights_of(size_t bytes) { return (bytes - 1) / 8; }

/* The shortcut for the size and the layout. Its place is made in bytes, not as an index, as each allocation needs it:
 * the bits below an entry's are masked away. */
GB_INLINE gb_recent *recent_of(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    enum { EACH = sizeof(gb_recent) };
    _Static_assert(EACH / 8 * 8 == EACH && (EACH & (EACH - 1)) == 0, "sizes that differ by 8 have neighbours");
    size_t place = (bytes - 1) * (EACH / 8) ^ layout * 0x9d;
    return (gb_recent *)((char *)gc->recent + (place & (GB_RECENTS - 1) * EACH));
}

/* Returns whether the size and the layout are those of `recent`. No request has the eights of an empty one. */
GB_INLINE bool recent_fits(const gb_recent *recent, size_t bytes, uintptr_t layout)
{
    return recent->layout == layout && recent->eights == eights_of(bytes);
}

/* Takes an object of `step` bytes from the cursor, whose gap may have ended. */
static GB_NOINLINE void *cursor_take(glebe_gc *gc, gb_cursor *cursor, uint32_t step)
{
    if (cursor->at == cursor->end && !cursor_refill(gc, cursor, step))
        return NULL;
    uintptr_t at = cursor->at;
    cursor->at = at + step;
    return (void *)at;
}

static GB_NOINLINE void *object_new_slow(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    uintptr_t asked = layout;
    if (GB_RUNTIMES && GB_UNLIKELY(gc->team != NULL))
        gb_team_end(gc); /* a function of the program allocates while marking runs: pages change */
    if (GB_UNLIKELY(gc->every != 0) && !gc->forced && ++gc->until >= gc->every) {
        gc->until = 0;
        gc->due = true;
        return NULL;
    }
    if (layout & 1 && layout >> (1 + GLEBE_GC_LAYOUT_BITS) == 0)
        layout = GB_PLAIN;
    else if (!gb_kind_of(layout) && gb_layout_words(layout) == 0)
        layout = 0; /* an element without words says nothing about references */
    if (bytes > GB_OBJECT_MAX)
        return large_new(gc, bytes, layout);
    uint32_t cls = collected_class(bytes);
    gb_cursor *cursor = layout == 0      ? &gc->cursors[GB_SCANNED + cls]
                      : layout == GB_PLAIN ? &gc->cursors[GB_PLAINS + cls]
                      : gb_kind_of(layout) ? cursor_of_kind(gc, cls, layout)
                                           : cursor_of_layout(gc, cls, layout);
    if (GB_RUNTIMES && !cursor)
        return large_new(gc, bytes ? bytes : 1, layout);
    /* stress mode counts each allocation; no request has the eights of SIZE_MAX */
    if (cursor->layout == layout && bytes && gc->every == 0)
        *recent_of(gc, bytes, asked) = (gb_recent){asked, eights_of(bytes), collected_step(cls), cursor};
    return cursor_take(gc, cursor, collected_step(cls));
}

/* Most objects have a size and a layout that were requested before. Returns NULL if these were not, or if a collection
 * is due or there is no memory. */
GB_INLINE void *gb_object_recent(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    const gb_recent *recent = recent_of(gc, bytes, layout);
    gb_cursor *cursor = recent->cursor;
    if (GB_UNLIKELY(!recent_fits(recent, bytes, layout)))
        return NULL;
    uintptr_t at = cursor->at;
    if (GB_UNLIKELY(at == cursor->end))
        return cursor_take(gc, cursor, recent->step);
    cursor->at = at + recent->step;
    if (at == 0)
        __builtin_unreachable(); /* so callers need not check again */
    return (void *)at;
}

void *gb_object_new(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    void *object = gb_object_recent(gc, bytes, layout);
    return GB_LIKELY(object) ? object : object_new_slow(gc, bytes, layout);
}

void *gb_object_new_growing(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    gc->forced++;
    void *object = object_new_slow(gc, bytes, layout);
    gc->forced--;
    return object;
}

/* ---- around a collection ---- */

/* Returns how many objects the cursor can still hand out. */
static size_t cursor_left(const gb_cursor *cursor)
{
    return (cursor->end - cursor->at) / collected_step(cursor->cls) + gb_popcount64(cursor->rest);
}

uint64_t gb_cursors_left(const glebe_gc *gc)
{
    uint64_t left = 0;
    for (const gb_cursor *cursor = gc->cursors; cursor < gc->cursors + GB_CURSORS; cursor++)
        left += cursor_left(cursor);
    return left;
}

size_t gb_since_bytes(const glebe_gc *gc)
{
    size_t left = 0;
    for (const gb_cursor *cursor = gc->cursors; cursor < gc->cursors + GB_CURSORS; cursor++)
        left += cursor_left(cursor) * collected_step(cursor->cls);
    if (GB_RUNTIMES)
        gb_caches_left(gc, &left);
    return gc->cached_bytes + gc->taken_bytes - left;
}

/* Memory that a cursor did not hand out holds no object, even if a word looks like a reference to it. */
void gb_cursors_drop(glebe_gc *gc)
{
    uint64_t *allocated = gb_bits_of(gc)->allocated;
    for (gb_cursor *cursor = gc->cursors; cursor < gc->cursors + GB_CURSORS; cursor++) {
        size_t left = cursor_left(cursor);
        gc->stats.allocated_objects -= left;
        if (GB_CALLBACKS)
            gc->taken_bytes -= left * collected_step(cursor->cls);
        if (cursor->rest)
            allocated[gb_cell(cursor->end) / 64] ^= cursor->rest;
        cursor->rest = 0;
        for (; cursor->at != cursor->end; cursor->at += collected_step(cursor->cls))
            allocated[gb_cell(cursor->at) / 64] ^= (uint64_t)1 << gb_cell(cursor->at) % 64;
    }
}

void gb_sweep_begin(glebe_gc *gc)
{
    const gb_bits *bits = gb_bits_of(gc);
    gb_cursors_drop(gc);
    if (GB_HUGE)
        gb_huge_sweep_begin(gc);
    for (uint32_t i = 0; i <= GB_CURSORS; i++)
        for (const gb_page *page = gb_list_first(gb_collected_list(gc, i)); page; page = gb_list_next(page))
            memcpy(gb_page_bits(bits->unmarked, page), gb_page_bits(bits->allocated, page), gb_page_words(page) * 8);
}

/* Frees the objects that are not marked. Pages without objects return to the arena. */
static void list_sweep(glebe_gc *gc, gb_list *list)
{
    for (gb_page *page = gb_list_first(list), *next; page; page = next) {
        next = gb_list_next(page);
        uint64_t *allocated = gb_page_bits(gb_bits_of(gc)->allocated, page),
                 *unmarked = gb_page_bits(gb_bits_of(gc)->unmarked, page);
        uint32_t live = 0;
        for (uint32_t i = 0; i < gb_page_words(page); i++) {
            live += gb_popcount64(allocated[i] ^= unmarked[i]);
            unmarked[i] = 0;
        }
        gc->live_bytes += (size_t)live * page->step;
        gc->stats.marked_objects += live;
        page->bump = 0;
        if (GB_CALLBACKS)
            page->gc_flags = 0;
        if (live == 0)
            gb_collected_give(gc, list, page);
    }
}

size_t gb_sweep_finish(glebe_gc *gc)
{
    gc->live_bytes = 0;
    gc->stats.marked_objects = 0;
    for (uint32_t i = 0; i <= GB_CURSORS; i++)
        list_sweep(gc, gb_collected_list(gc, i));
    for (gb_cursor *cursor = gc->cursors; cursor < gc->cursors + GB_CURSORS; cursor++) {
        cursor->page = cursor->pages.first;
        if (cursor->page.n == 0)
            cursor->early = 0;
    }
    if (GB_HUGE)
        gb_huge_sweep_finish(gc);
    if (GB_RUNTIMES) {
        gc->live_bytes -= gc->cached_bytes;
        gc->stats.marked_objects -= gc->cached_objects;
    }
    gc->stats.freed_objects
        = gc->stats.allocated_objects - gc->stats.marked_objects - (GB_RUNTIMES ? gc->cached_objects : 0);
    return gc->live_bytes;
}
GB_SHORT_END
