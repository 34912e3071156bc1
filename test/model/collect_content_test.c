/* One collector against a model, with contents that might deceive it; collect_test.c has several collectors. The
 * objects form a random graph: their words hold references, addresses inside objects, numbers that look like addresses,
 * or nothing. The model knows from an object's layout which words count, and computes reachability itself. After each
 * collection, whatever started it, exactly the reachable objects exist, with their contents. Deceptive contents are
 * addresses, the heap's own numbers, and complete copies of a scheduler's record of a stack.
 *
 * With GB_STACKS some large objects are stacks, whose records say which parts count.
 *
 *     seed % 8   0..3, 7 plain   4 collects at every n-th allocation, from 1 on   5 little memory
 *                6 the host sometimes fails
 *
 *     GLEBE_TEST_SEEDS=n   how many seeds (default 24)        GLEBE_TEST_SEED=n   the first of them (default 1)
 *     GLEBE_TEST_STEPS=n   steps of each (default 150) */
#define MODEL_REPEAT "test/model/collect_content"
#include "model.h"

enum { ROOTS = 24 };

typedef struct model_object {
    uintptr_t *at;
    size_t words, usable;
    uintptr_t layout; /* of its page: 0 every word counts, GB_PLAIN, or one of ours */
    uintptr_t holder; /* the object with a stack's record; 0: this is no stack, HOLDER_GONE: the holder was collected */
    gb_stack in_use; /* the values in the record */
    bool record; /* it contains a record, in words that only the scheduler writes */
    bool reached;
} model_object;

enum { HOLDER_GONE = 1, RECORD_AT = 2, RECORD_WORDS = 12 };

#include "collect.h"

static uintptr_t roots[ROOTS]; /* the collector's roots */
static glebe_gc *gc;
static uint64_t collections, allocations;

/* ---- reachability, by the book ---- */

static bool stack_counts(const model_object *object, uintptr_t at)
{
    uintptr_t start = (uintptr_t)object->at;
    if (gc->stack_pointer - start < object->usable)
        return at >= gc->stack_pointer;
    const gb_stack *in_use = &object->in_use;
    return object->holder != HOLDER_GONE &&
        (in_use->low <= start + sizeof start || at < in_use->low || at >= in_use->high);
}

static int object_referred(int from, size_t word)
{
    const model_object *object = &objects[from];
    bool counts = object->holder ? stack_counts(object, (uintptr_t)(object->at + word))
        : layout_counts(object->layout, word);
    return counts ? object_meant(copies[from][word]) : -1;
}

static void reach_all(void)
{
    for (int i = 0; i < object_count; i++)
        objects[i].reached = false;
    for (int r = 0; r < ROOTS; r++)
        reach(object_meant(roots[r]));
}

/* Called after a collection: exactly the reachable objects exist. */
static void model_collected(void)
{
    reach_all();
    for (int i = 0; i < object_count; i++) {
        bool there = gb_object_marked(gc, (uintptr_t)objects[i].at);
        if (objects[i].reached != there)
            model_fail(there ? "an unreachable object is alive" : "a reachable object is lost");
        if (there && memcmp(objects[i].at, copies[i], objects[i].words * sizeof(uintptr_t)) != 0)
            model_fail("an object does not hold what was written to it");
        if (objects[i].holder > HOLDER_GONE && !objects[object_within(objects[i].holder)].reached)
            objects[i].holder = HOLDER_GONE;
    }
    for (int i = object_count; i-- > 0;)
        if (!objects[i].reached)
            object_forget(i);
}

static void model_hears(void *context, glebe_gc_event event, const glebe_gc_stats *stats)
{
    (void)context;
    if (event != GLEBE_GC_ENDED)
        return;
    REQUIRE(stats->collections == ++collections);
    model_collected();
    uint64_t there = stats->allocated_objects - stats->freed_objects;
    if (there != (uint64_t)object_count || stats->allocated_objects != allocations)
        model_fail("objects were not counted right");
    if (stats->allocated_bytes - stats->freed_bytes != stats->live_bytes)
        model_fail("bytes were not counted right");
}

/* ---- steps ---- */

/* A number that the heap itself uses: marks of other schedulers, addresses of its tables, an object's complement, page,
 * entry and bits. */
static uintptr_t some_constant(int i)
{
    uintptr_t at = (uintptr_t)objects[i].at, slice = at & ~(uintptr_t)(GB_SLICE_BYTES - 1);
    const uintptr_t constants[] = {(uintptr_t)UINT64_C(0x670c1333b83bf575), 0xb83bf575, 1, UINTPTR_MAX, GB_PLAIN, ~at,
        at - gb_the.base, at >> GB_SLICE_LOG2, slice, slice + GB_SLICE_BYTES, at + bounds[i], gb_the.base,
        (uintptr_t)&gb_the, (uintptr_t)gc, (uintptr_t)gc->stack, (uintptr_t)gb_bits_of(gc)->allocated,
        (uintptr_t)gb_bits_of(gc)->unmarked, (uintptr_t)gb_page_entry(objects[i].at), objects[i].layout,
        gc->stack_pointer};
    return constants[below(sizeof constants / sizeof *constants)];
}

static uintptr_t some_value(void)
{
    if (object_count == 0 || one_in(4))
        return below(3) ? below(5000) : (uintptr_t)random_next();
    int i = (int)below((size_t)object_count);
    if (one_in(4))
        return some_constant(i);
    return (uintptr_t)objects[i].at + (one_in(4) ? below(objects[i].words * sizeof(uintptr_t) + 1) : 0);
}

/* Writes to a word, unless a scheduler's record is there. */
static void word_scribble(int i, size_t w, uintptr_t value)
{
    if (!objects[i].record || w - RECORD_AT >= sizeof(gb_stack) / sizeof(uintptr_t))
        word_write(i, w, value);
}

/* Makes a large object begin like a stack, or any object look like a record: of the object itself, or of another. */
static void object_forge(int i)
{
    int of = one_in(2) ? i : (int)below((size_t)object_count);
    uintptr_t start = (uintptr_t)objects[of].at, end = start + bounds[of], low = start + sizeof start * (1 + below(4));
    const uintptr_t forged[] = {one_in(2) ? 0xb83bf575 : start, 0xb83bf575, low, one_in(2) ? end : low, start, end};
    size_t at = one_in(2) ? 0 : below(objects[i].words);
    for (size_t w = 0; w < sizeof forged / sizeof *forged && at + w < objects[i].words; w++)
        word_scribble(i, at + w, forged[w]);
}

/* As object_new; -1 if there is no memory. */
static int object_made(size_t bytes, uintptr_t layout)
{
    int i = object_new(gc, bytes, layout);
    allocations += i >= 0;
    if (i < 0)
        return -1;
    objects[i].usable = bounds[i];
    if (GB_STACKS && objects[i].layout == 0 && bytes > GB_OBJECT_MAX && bytes % GB_SLICE_BYTES == 0)
        bounds[i] += GB_SLICE_BYTES; /* a gap to the next object */
    return i;
}

/* A root or a word that counts refers to the new object, or nothing does. */
static void step_allocate(void)
{
    size_t bytes = one_in(1000) ? ((size_t)1 << 20) + below((size_t)2 << 20)
        : one_in(40) ? 2000 + below(40000) : one_in(3) ? 1 + below(900) : 8 + below(80);
    int i = object_made(bytes, some_layout());
    if (i < 0)
        return;
    for (size_t n = objects[i].words ? below(6) : 0; n > 0; n--)
        word_write(i, below(objects[i].words), some_value());
    if (objects[i].words && one_in(bytes > GB_OBJECT_MAX ? 2 : 20))
        object_forge(i);
    int holder = (int)below((size_t)object_count);
    if (one_in(6) || objects[holder].words == 0)
        roots[below(ROOTS)] = (uintptr_t)objects[i].at;
    else
        word_scribble(holder, below(objects[holder].words), (uintptr_t)objects[i].at);
    if (object_count == OBJECTS) {
        glebe_gc_collect(gc);
        while (object_count > OBJECTS / 2) {
            roots[below(ROOTS)] = 0;
            glebe_gc_collect(gc);
        }
    }
}

static void step_write(void)
{
    int i = object_count ? (int)below((size_t)object_count) : -1;
    if (i < 0 || objects[i].words == 0 || one_in(5))
        roots[below(ROOTS)] = one_in(3) ? 0 : some_value();
    else
        word_scribble(i, below(objects[i].words), some_value());
}

/* ---- a scheduler's stacks ---- */

static void record_write(int stack, uintptr_t low, uintptr_t high)
{
    int holder = object_within(objects[stack].holder);
    objects[stack].in_use = (gb_stack){low, high, (uintptr_t)objects[stack].at};
    const uintptr_t words[] = {low, high, (uintptr_t)objects[stack].at};
    for (size_t w = 0; w < 3; w++)
        word_write(holder, RECORD_AT + w, words[w]);
}

/* Makes a record and then its stack; mostly the scheduler also starts it. */
static void stack_start(void)
{
    int holder = object_made(RECORD_WORDS * sizeof(uintptr_t), one_in(2) ? 0 : some_layout());
    if (holder < 0)
        return;
    uintptr_t record = (uintptr_t)objects[holder].at;
    roots[below(ROOTS)] = record;
    int stack = object_made(one_in(2) ? GB_SLICE_BYTES * (1 + below(6))
        : GB_OBJECT_MAX + sizeof(uintptr_t) * (1 + below(3000)), 0);
    if (stack < 0)
        return;
    word_write(stack, 0, 0xb83bf575);
    roots[below(ROOTS)] = (uintptr_t)objects[stack].at + sizeof(uintptr_t);
    holder = object_within(record);
    if (holder < 0 || one_in(8))
        return;
    objects[holder].record = true;
    objects[stack].holder = record;
    uintptr_t start = (uintptr_t)objects[stack].at;
    record_write(stack, start + sizeof start, start + objects[stack].words * sizeof start);
    gb_stack_runs(gc, (const gb_stack *)(objects[holder].at + RECORD_AT));
}

/* A stack now waits at another place, or runs. */
static void stack_switch(void)
{
    int i = object_count ? (int)below((size_t)object_count) : -1;
    while (i >= 0 && objects[i].holder <= HOLDER_GONE)
        i--;
    if (i < 0)
        return;
    uintptr_t start = (uintptr_t)objects[i].at, end = objects[i].words;
    uintptr_t low = 1 + below(end), high = low + below(end - low + 1);
    record_write(i, start + low * sizeof start, start + high * sizeof start);
    gc->stack_pointer = one_in(3) ? start + high * sizeof start : 0;
}

static void step_stacks(void)
{
    if (one_in(2))
        stack_start();
    for (size_t n = below(4); n > 0; n--)
        stack_switch();
}

/* Frees an object by hand that nothing refers to. */
static void step_free(void)
{
    if (object_count == 0)
        return;
    reach_all();
    int i = (int)below((size_t)object_count);
    if (objects[i].reached || objects[i].record)
        return;
    glebe_gc_free(gc, objects[i].at);
    object_forget(i);
}

static void model_run(void)
{
    fixture_start(seed);
    chance = seed * 1000003;
    object_count = 0;
    collections = allocations = 0;
    memset(roots, 0, sizeof roots);
    layouts_make();
    gc = glebe_gc_create(0);
    REQUIRE(gc && glebe_gc_root_add(gc, roots, sizeof roots) == 0);
    glebe_gc_on_event(gc, model_hears, NULL);
    glebe_gc_pace(gc, 50, 16 << 10, seed % 8 == 4 ? 1 + (unsigned)(seed / 8) * 3 : 0);
    for (step = 0; step < steps_wanted; step++) {
        model_host();
        for (size_t n = below(20); n > 0; n--)
            step_allocate();
        for (size_t n = below(20); n > 0; n--)
            step_write();
        if (GB_STACKS)
            step_stacks();
        if (one_in(3))
            step_free();
        if (one_in(12))
            glebe_gc_collect(gc);
        fixture_check();
        if (glebe_gc_check(gc, NULL, NULL) != 0)
            model_fail("the collector is broken");
        REQUIRE(glebe_live.stats.errors == 0);
    }
    gb_fake_fail(0, 0, 0);
    memset(roots, 0, sizeof roots);
    glebe_gc_collect(gc);
    REQUIRE(object_count == 0 && gc->heap->collected_bytes == 0 && gc->huge_bytes == 0);
    glebe_gc_destroy(gc);
    fixture_release();
}

int main(void)
{
    return model_main(model_run, 150);
}
