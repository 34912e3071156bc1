/* Collectors against a model of them. The objects form a random graph: their words hold references, addresses inside
 * objects, numbers that look like addresses, addresses of another collector's objects, or nothing. Objects have
 * finalizers and weak references, are freed by hand, and are allocated by finalizers and while marking runs. The model
 * knows from an object's layout which words count, and computes reachability itself. After each collection, whatever
 * started it, exactly the reachable objects exist, with their contents.
 *
 *     seed % 8   0..3, 7 plain   4 collects at every 7th allocation   5 little memory   6 the host sometimes fails
 *
 *     GLEBE_TEST_SEEDS=n   how many seeds (default 24)        GLEBE_TEST_SEED=n   the first of them (default 1)
 *     GLEBE_TEST_STEPS=n   steps of each (default 150) */
#define MODEL_REPEAT "test/model/collect"
#include "model.h"

enum { ROOTS = 16, COLLECTORS = 3, WEAKS = 40 };

typedef struct model_object {
    uintptr_t *at;
    size_t words;
    uintptr_t layout; /* of its page: 0 every word counts, GB_PLAIN, or one of ours */
    int of; /* the collector's number */
    bool reached, final, ready, running, born;
} model_object;

#include "collect.h"

static struct model_side {
    glebe_gc *gc;
    uintptr_t roots[ROOTS]; /* the collector's roots */
    void *weak[WEAKS];
    void *weak_copies[WEAKS];
    bool weak_known[WEAKS];
    uint64_t collections, allocations;
    bool marking;
} sides[COLLECTORS];
static bool finalizing;

/* ---- reachability, by the book ---- */

static int object_of(int of, uintptr_t address)
{
    int i = object_meant(address);
    return i >= 0 && objects[i].of == of ? i : -1;
}

static int object_referred(int from, size_t word)
{
    return layout_counts(objects[from].layout, word) ? object_of(objects[from].of, copies[from][word]) : -1;
}

/* Marks from the roots, from objects whose finalizers have not run yet, and from new objects. */
static void reach_all(int of)
{
    for (int i = 0; i < object_count; i++)
        if (objects[i].of == of)
            objects[i].reached = false;
    for (int r = 0; r < ROOTS; r++)
        reach(object_of(of, sides[of].roots[r]));
    for (int i = 0; i < object_count; i++)
        if (objects[i].of == of && (objects[i].ready || objects[i].running || objects[i].born))
            reach(i);
}

/* Weak references to unreached objects, or into [start, start + bytes), are cleared. */
static void weak_expect(int of, uintptr_t start, size_t bytes)
{
    struct model_side *side = &sides[of];
    for (int w = 0; w < WEAKS; w++) {
        uintptr_t to = (uintptr_t)side->weak_copies[w];
        int i = object_of(of, to);
        if (side->weak_known[w] && to && (start ? to - start < bytes : i < 0 || !objects[i].reached)) {
            side->weak_copies[w] = NULL;
            side->weak_known[w] = false;
        }
        if (side->weak[w] != side->weak_copies[w])
            model_fail(side->weak[w] ? "a weak reference leads to an object that is gone"
                : "a weak reference was lost");
    }
}

static void finals_expect(int of)
{
    static int waiting[OBJECTS];
    int count = 0;
    for (int i = 0; i < object_count; i++)
        if (objects[i].of == of && objects[i].final && !objects[i].reached)
            waiting[count++] = i;
    for (int k = 0; k < count; k++)
        reach_from(waiting[k]);
    for (int k = 0; k < count; k++)
        if (!objects[waiting[k]].reached)
            objects[waiting[k]].ready = true;
    for (int k = 0; k < count; k++)
        if (objects[waiting[k]].ready) {
            objects[waiting[k]].final = false;
            objects[waiting[k]].reached = true;
        }
}

/* Called after a collection: exactly the reachable objects exist. */
static void model_collected(int of)
{
    reach_all(of);
    weak_expect(of, 0, 0);
    finals_expect(of);
    for (int i = 0; i < object_count; i++) {
        bool there = gb_object_marked(sides[objects[i].of].gc, (uintptr_t)objects[i].at);
        if (objects[i].of == of && objects[i].reached != there)
            model_fail(there ? "an unreachable object is alive" : "a reachable object is lost");
        if ((there || objects[i].of != of)
            && memcmp(objects[i].at, copies[i], objects[i].words * sizeof(uintptr_t)) != 0)
            model_fail("an object does not hold what was written to it");
    }
    for (int i = object_count; i-- > 0;)
        if (objects[i].of == of && !objects[i].reached)
            object_forget(i);
}

static uint64_t model_count(int of)
{
    uint64_t count = 0;
    for (int i = 0; i < object_count; i++)
        count += objects[i].of == of;
    return count;
}

static void model_hears(void *context, glebe_gc_event event, const glebe_gc_stats *stats)
{
    struct model_side *side = context;
    int of = (int)(side - sides);
    if (event != GLEBE_GC_ENDED)
        return;
    REQUIRE(stats->collections == ++side->collections);
    model_collected(of);
    if (stats->allocated_objects - stats->freed_objects != model_count(of)
        || stats->allocated_objects != side->allocations)
        model_fail("objects were not counted right");
    if (stats->allocated_bytes - stats->freed_bytes != stats->live_bytes)
        model_fail("bytes were not counted right");
}

/* ---- steps ---- */

static uintptr_t some_value(void)
{
    if (object_count == 0 || one_in(4))
        return below(3) ? below(5000) : (uintptr_t)random_next();
    int i = (int)below((size_t)object_count);
    return (uintptr_t)objects[i].at + (one_in(4) ? below(objects[i].words * sizeof(uintptr_t) + 1) : 0);
}

static void step_allocate(void);

static void model_final(void *object, void *context)
{
    struct model_side *side = context;
    int of = (int)(side - sides), i = object_within((uintptr_t)object);
    REQUIRE(i >= 0 && objects[i].at == object && objects[i].of == of && objects[i].ready && !finalizing);
    objects[i].ready = false;
    objects[i].running = finalizing = true;
    for (size_t n = below(4); n > 0; n--)
        step_allocate();
    if (one_in(4))
        glebe_gc_collect(side->gc);
    i = object_within((uintptr_t)object);
    REQUIRE(i >= 0 && objects[i].at == object && memcmp(object, copies[i], objects[i].words * sizeof(uintptr_t)) == 0);
    if (one_in(8) && !objects[i].final && glebe_gc_finalizer(side->gc, object, model_final, side) == 0)
        objects[i].final = true;
    objects[i].running = finalizing = false;
}

/* A root or a word that counts refers to the new object, or nothing does. While marking runs nothing refers to it, and
 * it stays. */
static void step_allocate(void)
{
    if (object_count == OBJECTS)
        return;
    int of = (int)below(COLLECTORS);
    glebe_gc *gc = sides[of].gc;
    size_t bytes = one_in(sides[of].marking ? 100 : 1000)
        ? ((size_t)1 << 20) - 8 + below(one_in(2) ? 16 : (size_t)2 << 20)
        : one_in(40) ? 2040 + below(one_in(3) ? 16 : 40000) : one_in(3) ? 1 + below(900) : 8 + below(80);
    int i = object_new(gc, bytes, some_layout());
    sides[of].allocations += i >= 0;
    if (i < 0)
        return;
    void *at = objects[i].at;
    for (int k = 0; k < COLLECTORS; k++)
        REQUIRE(k == of || glebe_gc_usable_size(sides[k].gc, at) == 0);
    objects[i].of = of;
    objects[i].born = sides[of].marking;
    uintptr_t end = (uintptr_t)at + bounds[i];
    REQUIRE(object_within(end) >= 0 || glebe_gc_usable_size(gc, (void *)end) == 0); /* what is next is no object yet */
    for (size_t n = objects[i].words ? below(6) : 0; n > 0; n--)
        word_write(i, below(objects[i].words), some_value());
    if (one_in(8) && glebe_gc_finalizer(gc, at, model_final, &sides[of]) == 0)
        objects[i].final = true;
    int holder = (int)below((size_t)object_count);
    if (sides[of].marking)
        return;
    if (one_in(6) || objects[holder].words == 0 || sides[objects[holder].of].marking)
        sides[of].roots[below(ROOTS)] = (uintptr_t)at;
    else
        word_write(holder, below(objects[holder].words), (uintptr_t)at);
}

static void step_write(void)
{
    int i = object_count ? (int)below((size_t)object_count) : -1;
    if (i < 0 || objects[i].words == 0 || one_in(5))
        sides[below(COLLECTORS)].roots[below(ROOTS)] = one_in(3) ? 0 : some_value();
    else
        word_write(i, below(objects[i].words), some_value());
}

/* Frees an object by hand that nothing refers to, even if it has finalizers or weak references. */
static void step_free(void)
{
    if (object_count == 0)
        return;
    int i = (int)below((size_t)object_count), of = objects[i].of;
    reach_all(of);
    if (objects[i].reached && !objects[i].ready)
        return;
    uintptr_t at = (uintptr_t)objects[i].at;
    size_t bytes = bounds[i];
    glebe_gc_free(sides[of].gc, objects[i].at);
    weak_expect(of, at, bytes);
    object_forget(i);
    REQUIRE(glebe_gc_usable_size(sides[of].gc, (void *)at) == 0);
    REQUIRE(glebe_gc_finalizer(sides[of].gc, (void *)at, model_final, NULL) == EINVAL);
}

static void step_weak(void)
{
    struct model_side *side = &sides[below(COLLECTORS)];
    size_t w = below(WEAKS);
    if (side->weak_known[w]) {
        REQUIRE(glebe_gc_weak_remove(side->gc, &side->weak[w]) == 0);
        side->weak_known[w] = false;
    } else if (glebe_gc_weak_add(side->gc, &side->weak[w]) == 0) {
        side->weak_known[w] = true;
        side->weak[w] = side->weak_copies[w] = (void *)some_value();
    } else
        REQUIRE(failing);
}

static void step_finalizer(void)
{
    int i = object_count ? (int)below((size_t)object_count) : -1;
    if (i < 0)
        return;
    glebe_gc *gc = sides[objects[i].of].gc;
    if (one_in(3)) {
        REQUIRE(glebe_gc_finalizer(gc, objects[i].at, NULL, NULL) == 0);
        objects[i].final = objects[i].ready = false;
    } else if (glebe_gc_finalizer(gc, objects[i].at, model_final, &sides[objects[i].of]) == 0) {
        objects[i].final = true;
        objects[i].ready = false;
    } else
        REQUIRE(failing);
}

/* Collections in parts, of one collector or of all at once, while the program allocates. */
static void step_parts(void)
{
    for (int k = 0; k < COLLECTORS; k++)
        if (k == 0 || one_in(2)) {
            glebe_gc_begin(sides[k].gc);
            sides[k].marking = true;
        }
    for (size_t n = below(40); n > 0; n--) {
        int k = (int)below(COLLECTORS);
        step_allocate();
        if (one_in(8) && sides[k].marking) {
            uintptr_t values[] = {some_value(), some_value()};
            int to[] = {object_of(k, values[0]), object_of(k, values[1])};
            glebe_gc_mark(sides[k].gc, values, values + 2);
            for (int v = 0; v < 2; v++)
                if (to[v] >= 0)
                    objects[to[v]].born = true; /* it stays like a new one */
        }
        if (one_in(8))
            glebe_gc_begin(sides[k].gc), sides[k].marking = true;
        if (one_in(8) && sides[k].marking)
            REQUIRE(glebe_gc_collect(sides[k].gc) == 0 && glebe_gc_finalize(sides[k].gc) == 0);
        REQUIRE(glebe_gc_check(sides[k].gc, NULL, NULL) == 0);
    }
    for (int k = COLLECTORS; k-- > 0;) {
        if (!sides[k].marking)
            continue;
        sides[k].marking = false;
        glebe_gc_finish(sides[k].gc);
        REQUIRE(glebe_gc_finish(sides[k].gc) == 0);
        for (int i = 0; i < object_count; i++)
            objects[i].born = objects[i].born && objects[i].of != k;
    }
}

static void finals_drop(void)
{
    for (int i = 0; i < object_count; i++) {
        REQUIRE(glebe_gc_finalizer(sides[objects[i].of].gc, objects[i].at, NULL, NULL) == 0);
        objects[i].final = objects[i].ready = false;
    }
}

/* Drops roots when there are too many objects. */
static void step_drop(void)
{
    finals_drop();
    while (object_count > OBJECTS / 2)
        for (int k = 0; k < COLLECTORS; k++) {
            sides[k].roots[below(ROOTS)] = 0;
            glebe_gc_collect(sides[k].gc);
        }
}

static void model_well(void)
{
    fixture_check();
    for (int k = 0; k < COLLECTORS; k++)
        if (glebe_gc_check(sides[k].gc, NULL, NULL) != 0)
            model_fail("the collector is broken");
    REQUIRE(glebe_live.stats.errors == 0);
}

static void model_run(void)
{
    fixture_start(seed);
    chance = seed * 1000003;
    object_count = 0;
    memset(sides, 0, sizeof sides);
    layouts_make();
    for (int k = 0; k < COLLECTORS; k++) {
        glebe_gc *gc = sides[k].gc = glebe_gc_create(0);
        REQUIRE(gc && glebe_gc_root_add(gc, sides[k].roots, sizeof sides[k].roots) == 0);
        glebe_gc_on_event(gc, model_hears, &sides[k]);
        glebe_gc_pace(gc, 50, 16 << 10, seed % 8 == 4 ? 7 : 0);
    }
    for (step = 0; step < steps_wanted; step++) {
        model_host();
        for (size_t n = below(20); n > 0; n--)
            step_allocate();
        for (size_t n = below(20); n > 0; n--)
            step_write();
        for (size_t n = below(3); n > 0; n--)
            step_weak();
        for (size_t n = below(3); n > 0; n--)
            step_finalizer();
        if (one_in(3))
            step_free();
        if (one_in(12))
            glebe_gc_collect(sides[below(COLLECTORS)].gc);
        if (one_in(12))
            step_parts();
        if (one_in(6))
            glebe_gc_finalize(sides[below(COLLECTORS)].gc);
        if (object_count > OBJECTS * 3 / 4)
            step_drop();
        model_well();
    }
    gb_fake_fail(0, 0, 0);
    finals_drop();
    for (int k = 0; k < COLLECTORS; k++) {
        memset(sides[k].roots, 0, sizeof sides[k].roots);
        glebe_gc_collect(sides[k].gc);
        REQUIRE(model_count(k) == 0 && sides[k].gc->heap->collected_bytes == 0 && sides[k].gc->huge_bytes == 0);
    }
    for (int k = 0; k < COLLECTORS; k++)
        glebe_gc_destroy(sides[k].gc);
    fixture_release();
}

int main(void)
{
    return model_main(model_run, 150);
}
