/* The collector against a model of it. A random graph of objects: each has words that hold references, addresses inside objects, numbers
 * that look like such, or nothing. The model knows which words count, by the object's layout, and finds what is reachable by
 * itself. After each collection, whoever began it, exactly that is there, with its contents; all else is gone.
 *
 *     seed % 8   0..3 plain   4 collects at every 7th allocation   5 little memory   6 the host fails now and then
 *                7 next to nothing on the mark stack
 *
 *     GLEBE_TEST_SEEDS=n   how many seeds (default 24)        GLEBE_TEST_SEED=n   the first of them (default 1)
 *     GLEBE_TEST_STEPS=n   steps of each (default 150) */
#define MODEL_REPEAT "test/model/collect"
#include "model.h"

enum { OBJECTS = 3000, ROOTS = 24, LAYOUTS = 100 };

typedef struct model_object {
    uintptr_t *at;
    size_t words;
    uintptr_t layout; /* of its page: 0 scanned, GB_PLAIN, or one of ours */
    bool reached;
} model_object;

static model_object objects[OBJECTS];
static int object_count;
static uintptr_t roots[ROOTS]; /* what the collector looks at */
static uintptr_t *copies[OBJECTS]; /* of each object's words */
static glebe_gc *gc;
static uint64_t collections, allocations;
static bool failing;

/* ---- layouts ---- */

static struct {
    uintptr_t words;
    uint8_t bits[16];
} outside[LAYOUTS / 2];

/* Half of them are inline, half descriptors; more of them than there are cursors. */
static uintptr_t layout_of(size_t i)
{
    if (i % 2)
        return (uintptr_t)&outside[i / 2];
    return GLEBE_GC_LAYOUT(1 + i % 9, (i * 37 + 1) & (((uintptr_t)1 << (1 + i % 9)) - 1));
}

static bool counts(const model_object *object, size_t word)
{
    uintptr_t layout = object->layout;
    if (layout == 0)
        return true;
    if (layout & 1) {
        size_t words = layout >> 1 & (((uintptr_t)1 << GLEBE_GC_LAYOUT_BITS) - 1);
        return layout >> (1 + GLEBE_GC_LAYOUT_BITS) >> word % words & 1;
    }
    const glebe_gc_layout *out = (const glebe_gc_layout *)layout;
    return out->bits[word % out->words / 8] >> word % out->words % 8 & 1;
}

/* ---- reachability, by the book ---- */

/* By address: the model's own bounds, for the collector may have forgotten objects by now. */
static size_t bounds[OBJECTS];

static int object_within(uintptr_t address)
{
    for (int i = 0; i < object_count; i++)
        if (address - (uintptr_t)objects[i].at < bounds[i])
            return i;
    return -1;
}

static void reach(int i)
{
    static int stack[OBJECTS];
    int count = 0;
    if (i < 0 || objects[i].reached)
        return;
    objects[i].reached = true;
    stack[count++] = i;
    while (count) {
        int at = stack[--count];
        for (size_t w = 0; w < objects[at].words; w++) {
            int to = counts(&objects[at], w) && copies[at][w] > 4096 ? object_within(copies[at][w]) : -1;
            if (to >= 0 && !objects[to].reached) {
                objects[to].reached = true;
                stack[count++] = to;
            }
        }
    }
}

static void object_forget(int i)
{
    free(copies[i]);
    objects[i] = objects[--object_count];
    copies[i] = copies[object_count];
    bounds[i] = bounds[object_count];
}

/* A collection was. What had to be there then is there, and nothing else. */
static void model_collected(void)
{
    for (int i = 0; i < object_count; i++)
        objects[i].reached = false;
    for (int r = 0; r < ROOTS; r++)
        reach(roots[r] > 4096 ? object_within(roots[r]) : -1);
    for (int i = 0; i < object_count; i++) {
        bool there = gb_object_marked(gc, (uintptr_t)objects[i].at);
        if (objects[i].reached != there)
            model_fail(there ? "an unreachable object is alive" : "a reachable object is lost");
        if (there && memcmp(objects[i].at, copies[i], objects[i].words * sizeof(uintptr_t)) != 0)
            model_fail("an object does not hold what was written to it");
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
    if (stats->allocated_objects - stats->freed_objects != (uint64_t)object_count || stats->allocated_objects != allocations)
        model_fail("objects were not counted right");
}

/* ---- steps ---- */

static void word_write(int i, size_t w, uintptr_t value)
{
    objects[i].at[w] = copies[i][w] = value;
}

static uintptr_t some_value(void)
{
    if (object_count == 0 || one_in(4))
        return below(3) ? below(5000) : (uintptr_t)random_next();
    int i = (int)below((size_t)object_count);
    return (uintptr_t)objects[i].at + (one_in(4) ? below(objects[i].words * sizeof(uintptr_t) + 1) : 0);
}

/* A new object hangs on a root or a word that counts, else on nothing. */
static void step_allocate(void)
{
    size_t bytes = one_in(1000) ? ((size_t)1 << 20) + below((size_t)2 << 20) : one_in(40) ? 2000 + below(40000) : one_in(3) ? 1 + below(900) : 8 + below(80);
    size_t kind = below(8);
    uintptr_t layout = kind < 3 ? 0 : kind < 5 ? GB_PLAIN : layout_of(below(one_in(2) ? 4 : LAYOUTS));
    void *at = layout == 0 ? glebe_gc_alloc(gc, bytes) : layout == GB_PLAIN ? glebe_gc_alloc_plain(gc, bytes) : glebe_gc_alloc_layout(gc, bytes, layout);
    allocations += at != NULL;
    if (!at) {
        REQUIRE(failing);
        return;
    }
    REQUIRE((uintptr_t)at % (bytes % 16 ? GB_CELL_BYTES : 16) == 0 && glebe_gc_usable_size(gc, at) >= bytes);
    REQUIRE(fixture_zero(at, glebe_gc_usable_size(gc, at)));
    REQUIRE(object_within((uintptr_t)at) == -1);
    int i = object_count++;
    uintptr_t start;
    const gb_page *page = gb_object_at(gc, (uintptr_t)at, &start);
    REQUIRE((page == NULL) == (!GB_LINEAR && bytes > GB_LARGE_MAX));
    uintptr_t taken = page ? page->layout : gb_huge_object_at(gc, (uintptr_t)at)->layout;
    REQUIRE(taken == layout || (taken == 0 && layout != GB_PLAIN)); /* few of a layout lie where every word counts */
    objects[i] = (model_object){at, bytes / sizeof(uintptr_t), taken, false};
    bounds[i] = glebe_gc_usable_size(gc, at);
    copies[i] = calloc(objects[i].words + 1, sizeof(uintptr_t));
    for (size_t n = objects[i].words ? below(6) : 0; n > 0; n--)
        word_write(i, below(objects[i].words), some_value());
    int holder = (int)below((size_t)object_count);
    if (one_in(6) || objects[holder].words == 0)
        roots[below(ROOTS)] = (uintptr_t)at;
    else
        word_write(holder, below(objects[holder].words), (uintptr_t)at);
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
        word_write(i, below(objects[i].words), some_value());
}

/* An object that nothing refers to is given back by hand. */
static void step_free(void)
{
    if (object_count == 0)
        return;
    for (int i = 0; i < object_count; i++)
        objects[i].reached = false;
    for (int r = 0; r < ROOTS; r++)
        reach(roots[r] > 4096 ? object_within(roots[r]) : -1);
    int i = (int)below((size_t)object_count);
    if (objects[i].reached)
        return;
    glebe_gc_free(gc, objects[i].at);
    object_forget(i);
}

static void model_host(void)
{
    failing = seed % 8 == 5 || seed % 8 == 6;
    if (seed % 8 == 5)
        fake.memory_bytes = (size_t)3 << 20;
    if (seed % 8 == 6 && one_in(8))
        gb_fake_fail(1u << GB_FAKE_COMMIT | 1u << GB_FAKE_GROW, 1 + below(3), 1 + below(3));
}

static void model_run(void)
{
    fixture_start(seed);
    chance = seed * 1000003;
    object_count = 0;
    collections = allocations = 0;
    memset(roots, 0, sizeof roots);
    for (size_t i = 0; i < LAYOUTS / 2; i++) {
        outside[i].words = 1 + below(120);
        for (size_t k = 0; k < sizeof outside[i].bits; k++)
            outside[i].bits[k] = (uint8_t)random_next();
    }
    gc = glebe_gc_create(0);
    REQUIRE(gc && glebe_gc_root_add(gc, roots, sizeof roots) == 0);
    glebe_gc_on_event(gc, model_hears, NULL);
    glebe_gc_pace(gc, 50, 16 << 10, seed % 8 == 4 ? 7 : 0);
    for (step = 0; step < steps_wanted; step++) {
        model_host();
        if (seed % 8 == 7)
            gc->live_bytes = 0;
        for (size_t n = below(20); n > 0; n--)
            step_allocate();
        for (size_t n = below(20); n > 0; n--)
            step_write();
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
