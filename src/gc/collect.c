/* The collector's public functions, its roots, and when it collects.
 *
 *     begin      clears marks, drops cursors; marks from registered roots, and calls the program's marker
 *     mark       glebe_gc_mark: further roots, by a program that collects in parts
 *     finish     weak references and finalizers; then frees all unmarked objects
 *
 * From begin to finish `forced` is set: no other collection begins, and memory grows for objects that callbacks, or the
 * program between the parts, allocate. Such objects are marked from birth on (their bit in `unmarked` is never set),
 * and scanned when the collection ends. A collection needs no memory: finalizers that are ready stay in their table.
 *
 * One thread collects, and several mark where there are helpers (team.c), while the program's threads that hold
 * references wait. The next collection is due when the program was handed `percent` of the bytes that this one found
 * live, roots included: so the work of marking is proportional to the bytes that the program allocates. Objects that
 * only wait for their finalizers do not count: they are garbage of the next collection. Objects that wait for another
 * object's finalizer do not count either, up to half of the rest. The bound is for cycles: their objects are never
 * freed, but marked in every collection. In linear memory the default percentage falls where more than a few MiB are
 * live. */

#include "../serve/alloc.h"
#include "../serve/slow.h"
#include "gc.h"

/* The default pace: see glebe_gc_pace. docs/decisions/0043 */
enum { PACE_PERCENT = 90, PACE_LEAST_BYTES = GB_PURGES ? 1 << 20 : 128 << 10, PACE_EVEN_BYTES = 4 << 20 };

/* ---- a collector ---- */

/* Returns `bytes` up to PACE_EVEN_BYTES. Beyond, the result grows as the square root: it doubles where `bytes`
 * quadruples, and is linear in between. */
static size_t pace_root(size_t bytes)
{
    size_t from = PACE_EVEN_BYTES;
    unsigned doubled = 0;
    if (bytes <= from)
        return bytes;
    for (; bytes / 4 > from; from *= 4)
        doubled++;
    return (from + (bytes - from) / 3) >> doubled;
}

static GB_NOINLINE void pace_next(glebe_gc *gc)
{
    size_t found = gc->live_bytes + gc->roots_bytes;
    if (GB_RUNTIMES) {
        found -= gc->ready_bytes < found ? gc->ready_bytes : found;
        found -= gc->behind_bytes < found / 2 ? gc->behind_bytes : found / 2;
    }
    uint32_t percent = gc->percent;
    if (percent == GLEBE_GC_PERCENT_DEFAULT) {
        percent = PACE_PERCENT;
        found = GB_PURGES ? found : pace_root(found);
    }
    uint64_t grow = sizeof found == 4 ? (uint64_t)found * percent / 100
                                      : (uint64_t)(found / 100) * percent + (uint64_t)(found % 100) * percent / 100;
    gc->trigger_bytes = grow > GB_MAX_BYTES ? GB_MAX_BYTES : grow < gc->least_bytes ? gc->least_bytes : (size_t)grow;
    gc->taken_bytes = 0;
    memset(gc->recent, -1, sizeof gc->recent); /* empty: they lead to pages without a look at `early`, or at `every` */
}

bool gb_collector_begin(glebe_gc *gc, glebe_heap *heap)
{
    if (!gb_bits_start(gc))
        return false;
    gc->heap = heap;
    for (uint32_t i = 0; i < GB_COLLECTED_CLASSES; i++) {
        gc->cursors[GB_SCANNED + i].cls = gc->cursors[GB_PLAINS + i].cls = i;
        gc->cursors[GB_PLAINS + i].layout = GB_PLAIN;
    }
    gc->percent = GLEBE_GC_PERCENT_DEFAULT;
    gc->least_bytes = PACE_LEAST_BYTES;
    pace_next(gc);
    return true;
}

/* Returns whether the limit leaves room for a page of objects and the collector's own tables. A collector without that
 * room would be useless. */
static bool limit_serves(glebe_heap *heap)
{
    gb_lock_take(&gb_the.lock);
    bool serves = gb_account_allows(heap, GB_BIG_PAGE_SLICES * GB_SLICE_BYTES);
    gb_lock_drop(&gb_the.lock);
    return serves;
}

glebe_gc *glebe_gc_create(size_t limit_bytes)
{
    GB_ENTRY;
    glebe_heap *heap = glebe_heap_create(limit_bytes);
    glebe_gc *gc = heap ? gb_calloc(heap, 1, sizeof *gc) : NULL;
    if (gc && limit_serves(heap) && gb_collector_begin(gc, heap))
        return gc;
    glebe_heap_destroy(heap);
    return gb_out_of_memory();
}

void glebe_gc_pace(glebe_gc *gc, unsigned percent, size_t least_bytes, unsigned every)
{
    GB_ENTRY;
    size_t taken = gc->taken_bytes;
    gc->percent = percent;
    gc->least_bytes = least_bytes;
    gc->every = every;
    pace_next(gc);
    gc->taken_bytes = taken;
}

/* Sweeps without marking, which returns every page. */
void glebe_gc_destroy(glebe_gc *gc)
{
    GB_ENTRY;
    if (!gc)
        return;
    /* the memory of a destroyed collector shows that until it is reused */
    if (!gc->heap || gc->heap->kind != GB_HEAP_OWNED) {
        gb_report("glebe_gc_destroy", gc, "not a collector, or destroyed already");
        return;
    }
    if (gc->calling) {
        gb_report("glebe_gc_destroy", gc, "called by a marker or listener of this collector");
        return;
    }
    if (GB_RUNTIMES)
        gb_team_forget(gc);
    gc->caches = NULL;
    gc->cached_bytes = gc->cached_objects = 0;
    gb_sweep_begin(gc);
    gb_sweep_finish(gc);
    gb_bits_end(gc);
    glebe_heap_destroy(gc->heap);
}

/* ---- allocation ---- */

typedef struct object_request {
    gb_request request;
    glebe_gc *gc;
    uintptr_t layout;
    bool collected; /* a collection was tried already */
} object_request;

/* A program that goes on asking a full heap may have dropped objects. But a collection for each refusal would take all
 * of its time: so after some there is one at the 8th, 16th, 32nd and so on, and once much was allocated since. */
static bool collection_may_help(const glebe_gc *gc)
{
    enum { ALWAYS = 8 };
    return !GB_RUNTIMES || gc->refused < ALWAYS || gb_is_pow2((size_t)gc->refused + 1)
        || gc->taken_bytes > gc->live_bytes / 64;
}

/* Lets memory grow; if it cannot, tries a collection. */
static void *object_source(glebe_heap *heap, gb_request *request)
{
    object_request *of = (object_request *)request;
    void *object = gb_object_new_growing(of->gc, request->bytes, of->layout);
    (void)heap;
    if (!object && !of->collected && collection_may_help(of->gc)) {
        of->collected = true;
        glebe_gc_collect(of->gc);
        object = gb_object_new_growing(of->gc, request->bytes, of->layout);
    }
    return object;
}

/* Called when a collection is due, or there is no memory. */
static GB_NOINLINE void *collect_and_take(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    object_request request = {.request = {.bytes = bytes}, .gc = gc, .layout = layout, .collected = gc->due};
    if (gc->due)
        glebe_gc_collect(gc);
    void *object = gb_serve_quietly(gc->heap, object_source, &request.request);
    if (GB_RUNTIMES)
        gc->refused = object ? 0 : gc->refused + 1;
    return object ? object : gb_out_of_memory();
}

static void *collected_alloc(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    void *object = gb_object_new(gc, bytes, layout);
    return GB_LIKELY(object) ? object : collect_and_take(gc, bytes, layout);
}

void *glebe_gc_alloc(glebe_gc *gc, size_t bytes)
{
    GB_ENTRY;
    return collected_alloc(gc, bytes, 0);
}

void *glebe_gc_alloc_plain(glebe_gc *gc, size_t bytes)
{
    GB_ENTRY;
    return collected_alloc(gc, bytes, GB_PLAIN);
}

void *glebe_gc_alloc_layout(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    GB_ENTRY;
    return collected_alloc(gc, bytes, layout);
}

/* Cursors find the gap that the object leaves after the next sweep, or earlier if it is ahead of them. */
void glebe_gc_free(glebe_gc *gc, void *object)
{
    GB_ENTRY;
    size_t bytes;
    if (!object)
        return;
    if (gb_object_bounds(gc, (uintptr_t)object, &bytes) != (uintptr_t)object) {
        gb_report("glebe_gc_free", object, "not the start of an object of this collector");
        return;
    }
    gb_object_forget(gc, (uintptr_t)object, bytes);
    gc->stats.freed_objects++;
    uintptr_t start;
    gb_page *page = gb_object_at(gc, (uintptr_t)object, &start);
    if (GB_HUGE && !page) {
        gb_huge_object_free(gc, gb_huge_object_at(gc, (uintptr_t)object));
        return;
    }
    size_t cell = gb_cell(start), first = (size_t)gb_slice_of(page) * GB_SLICE_BITS;
    gb_bits_of(gc)->allocated[cell / 64] &= ~((uint64_t)1 << cell % 64);
    gb_bits_of(gc)->unmarked[cell / 64] &= ~((uint64_t)1 << cell % 64);
    if (page->kind == GB_COLLECTED_LARGE)
        gb_collected_give(gc, &gc->large, page);
    else if (page->bump > cell - first) {
        page->bump = (uint16_t)(cell - first);
        if (GB_RUNTIMES)
            page->gc_flags &= (uint8_t)~GB_CLEAN;
    }
}

size_t glebe_gc_usable_size(const glebe_gc *gc, const void *object)
{
    GB_ENTRY;
    size_t bytes;
    gb_object_bounds(gc, (uintptr_t)object, &bytes);
    return bytes;
}

/* ---- roots ---- */

int glebe_gc_root_add(glebe_gc *gc, const void *start, size_t bytes)
{
    GB_ENTRY;
    uintptr_t from = (uintptr_t)start, to = from + bytes;
    if (from >= UINTPTR_MAX - bytes)
        return EINVAL;
    gb_rooted *root = gb_table_add(gc, &gc->roots, sizeof *root, from);
    if (!root)
        return ENOMEM;
    root->times++;
    root->end = root->end > to ? root->end : to;
    if (gc->marking) /* the roots known at the start were marked already */
        gb_mark_range(gc, from, to);
    return 0;
}

int glebe_gc_root_remove(glebe_gc *gc, const void *start)
{
    GB_ENTRY;
    gb_rooted *root = gb_table_find(&gc->roots, sizeof *root, (uintptr_t)start);
    if (!root)
        return ENOENT;
    if (--root->times == 0) {
        gb_table_remove(&gc->roots, sizeof *root, root);
        gb_table_fit(gc, &gc->roots, sizeof *root);
    }
    return 0;
}

void glebe_gc_on_mark(glebe_gc *gc, glebe_gc_marker *marker, void *context)
{
    GB_ENTRY;
    gc->marker = marker;
    gc->marker_context = context;
}

void glebe_gc_mark(glebe_gc *gc, const void *start, const void *end)
{
    GB_ENTRY;
    if (gc->marking)
        gb_mark_range(gc, (uintptr_t)start, (uintptr_t)end);
}

typedef const volatile uintptr_t __attribute__((may_alias)) stack_word;

/* Marks the stack from this function's frame up to `base`. Returns false if `base` is not above the frame. Stacks grow
 * downwards on every host. Copies the words first: AddressSanitizer lets instrumented code read the copy, but not the
 * stack between variables. */
static GB_NOINLINE __attribute__((no_sanitize_address)) bool stack_mark(glebe_gc *gc, uintptr_t base)
{
    uintptr_t at = gb_round_up((uintptr_t)__builtin_frame_address(0), sizeof at), copy[64];
    base = gb_round_down(base, sizeof base);
    if (at >= base)
        return false;
    while (at < base) {
        size_t n = 0;
        for (; n < sizeof copy / sizeof *copy && at < base; at += sizeof at)
            copy[n++] = *(stack_word *)at;
        gb_mark_range(gc, (uintptr_t)copy, (uintptr_t)(copy + n));
    }
    return true;
}

/* This frame, which is above stack_mark's, holds the registers that calls preserve. So it must not be inlined. */
GB_NOINLINE void glebe_gc_mark_stack(glebe_gc *gc, const void *base)
{
    GB_ENTRY;
    if (!GB_LINEAR)
        __builtin_unwind_init();
    if (gc->marking && !stack_mark(gc, (uintptr_t)base))
        gb_report("glebe_gc_mark_stack", base, "not above the caller's frame");
}

/* ---- a collection ---- */

static void collect_tell(glebe_gc *gc, glebe_gc_event event)
{
    if (!GB_CALLBACKS || !gc->listener)
        return;
    glebe_gc_stats stats;
    glebe_gc_stats_read(gc, &stats);
    gc->calling = true;
    gc->listener(gc->listener_context, event, &stats);
    gc->calling = false;
}

void glebe_gc_begin(glebe_gc *gc)
{
    GB_ENTRY;
    if (GB_CALLBACKS && gc->forced)
        return;
    gc->forced += GB_CALLBACKS;
    gb_sweep_begin(gc);
    gb_mark_begin(gc);
    if (GB_RUNTIMES)
        gb_team_prepare(gc);
    collect_tell(gc, GLEBE_GC_BEGINS); /* objects that the listener allocates count as reached, like a marker's */
    if (GB_RUNTIMES) {
        gb_caches_shield(gc); /* the listener has stopped the threads */
        gb_team_begin(gc);
    }
    gb_ready_mark(gc);
    if (GB_RUNTIMES)
        gb_pins_mark(gc);
    const gb_rooted *roots = gc->roots.items;
    for (uint32_t i = 0; GB_CALLBACKS && i < gc->roots.room; i++)
        if (roots[i].start)
            gb_mark_range(gc, ~roots[i].start, roots[i].end);
    if (GB_CALLBACKS && gc->marker) {
        gc->calling = true;
        gc->marker(gc->marker_context, gc);
        gc->calling = false;
    }
}

size_t glebe_gc_finish(glebe_gc *gc)
{
    GB_ENTRY;
    if (GB_CALLBACKS && (!gc->marking || gc->calling))
        return 0;
    if (GB_RUNTIMES)
        gb_team_end(gc);
    if (GB_CALLBACKS)
        gb_mark_born(gc);
    if (GB_RUNTIMES && gc->hooks)
        gc->hooks->traced(gc);
    gb_finalize_finish(gc);
    if (GB_RUNTIMES && gc->hooks) {
        gc->hooks->marked(gc);
        gb_mark_born(gc);
    }
    gc->marking = false;
    size_t before = gc->live_bytes + gc->taken_bytes;
    size_t live = gb_sweep_finish(gc);
    if (GB_STACKS)
        gb_stacks_swept(gc);
    size_t freed = before > live ? before - live : 0;
    gc->stats.collections++;
    gc->stats.allocated_bytes += gc->taken_bytes;
    gc->stats.freed_bytes += freed;
    pace_next(gc);
    gc->due = false;
    if (GB_PURGES)
        gb_retain_collected();
    collect_tell(gc, GLEBE_GC_ENDED);
    gc->forced -= GB_CALLBACKS;
    return freed;
}

size_t glebe_gc_collect(glebe_gc *gc)
{
    GB_ENTRY;
    if (gc->forced)
        return 0;
    glebe_gc_begin(gc);
    return glebe_gc_finish(gc);
}

/* ---- statistics ---- */

void glebe_gc_stats_read(const glebe_gc *gc, glebe_gc_stats *out)
{
    GB_ENTRY;
    *out = gc->stats;
    out->allocated_bytes += GB_CALLBACKS ? gb_since_bytes(gc) : gc->taken_bytes;
    out->live_bytes = gc->live_bytes;
    out->heap_bytes = gc->heap->collected_bytes + gc->huge_bytes;
    out->allocated_objects -= gb_cursors_left(gc);
    if (GB_RUNTIMES)
        out->allocated_objects -= gb_caches_left(gc, &(size_t){0});
}

void glebe_gc_on_event(glebe_gc *gc, glebe_gc_listener *listener, void *context)
{
    GB_ENTRY;
    gc->listener = listener;
    gc->listener_context = context;
}
