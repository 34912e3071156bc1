/* The collector's functions, one by one; test/model/collect_test.c runs them all together. */
#include "fixture.h"

typedef struct node {
    struct node *left, *right;
    uintptr_t value;
} node;

static glebe_gc *gc;
static void *roots[8];

static int start(void **state)
{
    (void)state;
    fixture_start(1);
    memset(roots, 0, sizeof roots);
    gc = glebe_gc_create(0);
    return gc && glebe_gc_root_add(gc, roots, sizeof roots) == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    glebe_gc_destroy(gc);
    fixture_release();
    return 0;
}

static void well(void)
{
    int printed = 0;
    assert_int_equal(glebe_gc_check(gc, fixture_print, &printed), 0);
    fixture_check();
}

static bool alive(const void *object) { return glebe_gc_usable_size(gc, object) != 0; }

static node *node_new(node *left, node *right)
{
    node *n = glebe_gc_alloc_layout(gc, sizeof *n, GLEBE_GC_LAYOUT(3, 3));
    n->left = left;
    n->right = right;
    return n;
}

static void test_what_is_reachable_stays(void **state)
{
    (void)state;
    node *a = node_new(NULL, NULL), *b = node_new(a, NULL), *c = node_new(NULL, NULL);
    roots[0] = b;
    well();
    glebe_gc_collect(gc);
    assert_true(alive(a) && alive(b) && !alive(c));
    roots[0] = NULL;
    roots[1] = (char *)a + 5; /* anywhere inside */
    glebe_gc_collect(gc);
    assert_true(alive(a) && !alive(b));
    well();
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_usable_size(gc, (char *)a + 5), glebe_gc_usable_size(gc, a));
}

/* Words that a layout does not name are no references, nor are words in plain objects or in memory of malloc. */
static void test_layouts(void **state)
{
    (void)state;
    static const struct { uintptr_t words; uint8_t bits[2]; } tenth = {10, {0, 2}};
    void *held[4];
    for (int i = 0; i < 200; i++) /* until the layout has pages of its own */
        roots[0] = glebe_gc_alloc_layout(gc, 30 * sizeof(void *), (uintptr_t)&tenth);
    void **precise = glebe_gc_alloc_layout(gc, 30 * sizeof(void *), (uintptr_t)&tenth);
    void **plain = glebe_gc_alloc_plain(gc, 100), **block = glebe_malloc(100);
    roots[0] = precise;
    roots[1] = plain;
    roots[2] = block;
    for (int i = 0; i < 4; i++)
        held[i] = glebe_gc_alloc(gc, 50);
    precise[19] = held[0]; /* the second element's last word */
    precise[18] = held[1];
    plain[0] = held[2];
    block[0] = held[3];
    glebe_gc_collect(gc);
    assert_true(alive(held[0]) && !alive(held[1]) && !alive(held[2]) && !alive(held[3]));
    glebe_free(block);
    void **nonsense = roots[3] = glebe_gc_alloc_layout(gc, 100, GLEBE_GC_LAYOUT(0, 5));
    nonsense[1] = glebe_gc_alloc(gc, 50);
    glebe_gc_collect(gc);
    assert_true(alive(nonsense[1])); /* here every word counts */
}

/* A list of a million objects would overflow any recursion, arrays of arrays any bounded stack. */
static void test_marking_needs_little_memory(void **state)
{
    (void)state;
    enum { WIDE = 3000 };
    for (int i = 0; i < 200000; i++)
        roots[0] = node_new(roots[0], NULL);
    void **wide = glebe_gc_alloc(gc, WIDE * sizeof(void *));
    roots[1] = wide;
    for (int i = 0; i < WIDE; i++) {
        wide[i] = glebe_gc_alloc(gc, 40 * sizeof(void *));
        for (int k = 0; k < 40; k++)
            ((void **)wide[i])[k] = node_new(NULL, NULL);
    }
    glebe_gc_collect(gc);
    glebe_gc_stats stats;
    glebe_gc_stats_read(gc, &stats);
    assert_int_equal(stats.marked_objects, 200000 + 1 + WIDE + WIDE * 40);
    assert_true(stats.overflows > 0);
    well();
}

static void test_memory_is_used_again(void **state)
{
    (void)state;
    for (int i = 0; i < 300000; i++)
        roots[i % 8] = glebe_gc_alloc(gc, (size_t)(i * 37 % 3000));
    glebe_gc_stats stats;
    glebe_gc_stats_read(gc, &stats);
    assert_true(stats.collections > 50);
    assert_true(stats.heap_bytes < 3 << 20);
    assert_true(stats.freed_bytes + (4 << 20) > stats.allocated_bytes);
    well();
}

/* A cursor takes all free objects of a word of bits at once. Those that it did not hand out are no objects, and free
 * again after a collection. */
static void test_gaps_of_a_word(void **state)
{
    enum { OBJECTS = 24, BYTES = 2 * GB_CELL_BYTES };
    char *objects[OBJECTS], **kept = glebe_gc_alloc(gc, sizeof objects);
    glebe_gc_stats stats;
    (void)state;
    roots[0] = kept;
    for (uint32_t i = 0; i < OBJECTS; i++) {
        objects[i] = glebe_gc_alloc_plain(gc, BYTES);
        memset(objects[i], 1, BYTES);
        kept[i] = i % 3 == 0 ? objects[i] : NULL;
    }
    glebe_gc_collect(gc);
    for (int round = 0; round < 3; round++) {
        uint32_t count = 0;
        assert_ptr_equal(glebe_gc_alloc_plain(gc, BYTES), objects[1]);
        assert_true(alive(objects[1]) && !alive(objects[2]) && !alive(objects[4]) && !alive(objects[OBJECTS - 1]));
        for (uint32_t i = 0; i < OBJECTS; i++)
            count += alive(objects[i]);
        assert_int_equal(count, OBJECTS / 3 + 1);
        glebe_gc_stats_read(gc, &stats);
        assert_int_equal(stats.allocated_objects - stats.freed_objects, count + 1);
        well();
        glebe_gc_collect(gc);
    }
    for (uint32_t i = 0; i < OBJECTS; i++)
        if (i % 3) {
            char *object = glebe_gc_alloc_plain(gc, BYTES);
            assert_ptr_equal(object, objects[i]);
            assert_true(object[0] == 0 && object[BYTES - 1] == 0);
        }
    glebe_gc_free(gc, objects[4]);
    assert_true(glebe_gc_alloc_plain(gc, BYTES) != NULL);
    well();
    glebe_gc_collect(gc);
    glebe_gc_stats_read(gc, &stats);
    assert_int_equal(stats.allocated_objects - stats.freed_objects, 1 + OBJECTS / 3);
}

/* A collection returns the bytes of objects, not the rest of the gaps that they came from. */
static void test_exact_bytes(void **state)
{
    (void)state;
    glebe_gc_stats stats;
    glebe_gc_pace(gc, 100, 64 << 20, 0);
    roots[0] = glebe_gc_alloc(gc, 32);
    glebe_gc_stats_read(gc, &stats);
    assert_int_equal(stats.allocated_bytes, 32);
    assert_int_equal(glebe_gc_collect(gc), 0);
    static const size_t sizes[] = {16, 32, 100, 2048, 2049, 70000, 3 << 20, 32};
    size_t kept = 32, dropped = 0, freed = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *object = glebe_gc_alloc_plain(gc, sizes[i]);
        size_t usable = glebe_gc_usable_size(gc, object);
        if (i % 2)
            roots[i] = object, kept += usable;
        else
            dropped += usable;
        if (i == 4)
            glebe_gc_free(gc, object);
        glebe_gc_stats_read(gc, &stats);
        assert_int_equal(stats.allocated_bytes, kept + dropped);
    }
    for (int round = 0; round < 3; round++, dropped = round * 48) {
        freed += dropped;
        assert_int_equal(glebe_gc_collect(gc), dropped);
        glebe_gc_stats_read(gc, &stats);
        assert_int_equal(stats.live_bytes, kept);
        assert_int_equal(stats.freed_bytes, freed);
        assert_int_equal(stats.allocated_bytes, kept + freed);
        for (int i = 0; i <= round; i++)
            assert_non_null(glebe_gc_alloc(gc, 48));
    }
}

static void test_limit(void **state)
{
    (void)state;
    glebe_gc *small = glebe_gc_create(400000);
    void *held[100] = {0};
    glebe_gc_root_add(small, held, sizeof held);
    int n = 0;
    while (n < 100 && (held[n] = glebe_gc_alloc_plain(small, 10000)) != NULL)
        n++;
    assert_in_range(n, 8, 39);
    assert_null(glebe_gc_alloc(small, 500000));
    held[0] = held[1] = NULL;
    assert_non_null(held[0] = glebe_gc_alloc_plain(small, 10000));

    /* a collection for each refusal would take all of the time */
    glebe_gc_stats before, after;
    glebe_gc_stats_read(small, &before);
    for (int i = 0; i < 1000; i++)
        assert_null(glebe_gc_alloc(small, 500000));
    glebe_gc_stats_read(small, &after);
    assert_in_range(after.collections - before.collections, 8, GB_RUNTIMES ? 16 : 1000);
    glebe_gc_destroy(small);
}

static int finals_run;
static void *finals_last;

static void final_note(void *object, void *context)
{
    finals_run++;
    finals_last = object;
    assert_ptr_equal(context, &finals_run);
    assert_int_equal(((node *)object)->value, 77);
}

static void test_finalizers(void **state)
{
    (void)state;
    finals_run = 0;
    node *inner = node_new(NULL, NULL), *outer = node_new(inner, NULL);
    inner->value = outer->value = 77;
    assert_int_equal(glebe_gc_finalizer(gc, inner, final_note, &finals_run), 0);
    assert_int_equal(glebe_gc_finalizer(gc, outer, final_note, &finals_run), 0);
    assert_int_equal(glebe_gc_finalizer(gc, (char *)outer + 8, final_note, &finals_run), EINVAL);
    roots[0] = outer;
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalize(gc), 0);
    roots[0] = NULL;
    glebe_gc_collect(gc);
    assert_int_equal(finals_run, 0); /* never inside a collection */
    glebe_gc_collect(gc); /* a ready finalizer stays until it has run */
    assert_int_equal(glebe_gc_finalize(gc), 1);
    assert_ptr_equal(finals_last, outer);
    glebe_gc_collect(gc);
    assert_true(!alive(outer) && alive(inner));
    assert_int_equal(glebe_gc_finalize(gc), 1);
    assert_ptr_equal(finals_last, inner);
    glebe_gc_collect(gc);
    assert_true(!alive(inner));
    assert_int_equal(glebe_gc_finalize(gc), 0);

    node *dropped = node_new(NULL, NULL), *a = node_new(NULL, NULL), *b = node_new(a, NULL);
    a->left = b; /* a circle */
    a->value = b->value = 77;
    glebe_gc_finalizer(gc, dropped, final_note, &finals_run);
    glebe_gc_finalizer(gc, dropped, NULL, NULL);
    glebe_gc_finalizer(gc, a, final_note, &finals_run);
    glebe_gc_finalizer(gc, b, final_note, &finals_run);
    glebe_gc_collect(gc);
    assert_true(!alive(dropped) && alive(a) && alive(b));
    assert_int_equal(glebe_gc_finalize(gc), 0);
    well();
}

enum { MANY = 100000 };
static void *many[MANY];
static uint8_t many_ran[MANY];

static void many_final(void *object, void *context)
{
    many_ran[((node *)object)->value] += (uint8_t)(uintptr_t)context;
}

static void many_root(void)
{
    assert_int_equal(glebe_gc_root_add(gc, many, sizeof many), 0);
    memset(many, 0, sizeof many);
    memset(many_ran, 0, sizeof many_ran);
    for (size_t i = 0; i < MANY; i++) {
        node *n = node_new(NULL, NULL);
        n->value = i;
        many[i] = n;
    }
}

/* Each operation on them takes a few steps. A search through all would take thousands of millions. */
static void test_many_finalizers(void **state)
{
    (void)state;
    many_root();
    fixture_probes = 0;
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(glebe_gc_finalizer(gc, many[i], many_final, (void *)1), 0);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(glebe_gc_finalizer(gc, many[i], many_final, (void *)2), 0);
    assert_int_equal(gc->finals.count, MANY);
    well();
    for (size_t i = 0; i < MANY; i += 3)
        assert_int_equal(glebe_gc_finalizer(gc, many[i], NULL, NULL), 0);
    well();
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalize(gc), 0);
    for (size_t i = 0; i < MANY; i++)
        many[i] = i % 3 == 1 ? many[i] : NULL;
    glebe_gc_collect(gc);
    well();
    assert_int_equal(glebe_gc_finalize(gc), MANY / 3);
    memset(many, 0, sizeof many);
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalize(gc), MANY / 3);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(many_ran[i], i % 3 ? 2 : 0);
    assert_true(fixture_probes > MANY / 10 && fixture_probes < 2ul * MANY);
    void *one = roots[0] = node_new(NULL, NULL);
    assert_int_equal(glebe_gc_finalizer(gc, one, many_final, NULL), 0);
    assert_true(gc->finals.count == 1 && gc->finals.room <= 128); /* the table is short again */
    glebe_gc_finalizer(gc, one, NULL, NULL);
    assert_int_equal(glebe_gc_root_remove(gc, many), 0);
    well();
}

/* Without memory for a longer table the registered finalizers stay, and the new one is refused. Without memory for
 * ready ones none is lost. */
static void test_finalizers_without_memory(void **state)
{
    (void)state;
    many_root();
    size_t registered = 0;
    int error = 0;
    gb_fake_fail(1u << GB_FAKE_COMMIT | 1u << GB_FAKE_GROW, 1, UINT64_MAX);
    while (registered < MANY && (error = glebe_gc_finalizer(gc, many[registered], many_final, (void *)1)) == 0)
        registered++;
    assert_true(registered > 0 && registered < MANY);
    assert_int_equal(error, ENOMEM);
    assert_int_equal(glebe_gc_finalizer(gc, many[0], many_final, (void *)3), 0); /* an existing one needs no memory */
    well();
    memset(many, 0, sizeof many);
    glebe_gc_collect(gc);
    size_t ran = glebe_gc_finalize(gc);
    well();
    gb_fake_fail(0, 0, 0);
    glebe_gc_collect(gc);
    assert_int_equal(ran + glebe_gc_finalize(gc), registered);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(many_ran[i], i == 0 ? 3 : i < registered);
    assert_int_equal(glebe_gc_root_remove(gc, many), 0);
    well();
}

static void test_weak_references(void **state)
{
    (void)state;
    void *weak[3];
    roots[0] = weak[0] = node_new(NULL, NULL);
    weak[1] = node_new(NULL, NULL);
    weak[2] = node_new(NULL, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(glebe_gc_weak_add(gc, &weak[i]), 0);
    assert_int_equal(glebe_gc_weak_remove(gc, &weak[2]), 0);
    assert_int_equal(glebe_gc_weak_remove(gc, &weak[2]), ENOENT);
    glebe_gc_collect(gc);
    assert_ptr_equal(weak[0], roots[0]);
    assert_null(weak[1]);
    assert_non_null(weak[2]);
    assert_int_equal(glebe_gc_weak_remove(gc, &weak[1]), ENOENT); /* forgotten with its object */
}

static void *marked[2];
static void marker(void *context, glebe_gc *collector) { glebe_gc_mark(collector, context, (void **)context + 1); }

static int events[2];
static void listener(void *context, glebe_gc_event event, const glebe_gc_stats *stats)
{
    assert_ptr_equal(context, events);
    /* of the collections that began, all but this one have ended; or all */
    assert_int_equal(stats->collections, events[0]);
    events[event]++;
}

static void test_callbacks(void **state)
{
    (void)state;
    memset(events, 0, sizeof events);
    glebe_gc_on_mark(gc, marker, marked);
    glebe_gc_on_event(gc, listener, events);
    marked[0] = node_new(NULL, NULL);
    marked[1] = node_new(NULL, NULL);
    glebe_gc_collect(gc);
    assert_true(alive(marked[0]) && !alive(marked[1]));
    glebe_gc_collect(gc);
    assert_true(events[0] == 2 && events[1] == 2);
    assert_int_equal(glebe_gc_root_remove(gc, roots), 0);
    assert_int_equal(glebe_gc_root_remove(gc, roots), ENOENT);
}

static void test_in_parts(void **state)
{
    (void)state;
    node *a = node_new(NULL, NULL), *b = node_new(NULL, NULL);
    glebe_gc_begin(gc);
    void *stack[] = {a};
    glebe_gc_mark(gc, stack, stack + 1);
    glebe_gc_finish(gc);
    assert_true(alive(a) && !alive(b));
    glebe_gc_mark(gc, stack, stack + 1); /* has no effect outside a collection */
    glebe_gc_collect(gc);
    assert_false(alive(a));
}

static void test_freed_by_hand(void **state)
{
    (void)state;
    node *a = node_new(NULL, NULL), *b = node_new(NULL, NULL);
    void *large = glebe_gc_alloc(gc, 50000);
    glebe_gc_free(gc, a);
    glebe_gc_free(gc, NULL);
    glebe_gc_free(gc, large);
    assert_true(!alive(a) && alive(b) && !alive(large));
    assert_int_equal(glebe_live.stats.errors, 0);
    glebe_gc_free(gc, (char *)b + 8);
    glebe_free(b);
    assert_int_equal(glebe_live.stats.errors, 2);
    assert_non_null(strstr(fake.printed, "): not the start of an object of this collector\n"));
    assert_non_null(strstr(fake.printed,
        "): address is in the pages of a collector, whose objects only glebe_gc_free takes\n"));
    assert_true(alive(b));
    well();
}

/* ---- objects of more than 1 MiB ---- */

enum { MIB = 1 << 20 };

static int start_patient(void **state) /* collections run only when the test calls for one */
{
    int failed = start(state);
    glebe_gc_pace(gc, 100, 512 * MIB, 0);
    return failed;
}

static void test_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {MIB - 1, MIB, MIB + 1, 2 * MIB, 4 * MIB, 4 * MIB + 1, 20 * MIB, 64 * MIB};
    glebe_gc_stats stats;
    for (int round = 0; round < 2; round++) /* the second finds the memory that the first left */
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            uintptr_t *object = glebe_gc_alloc(gc, sizes[i]);
            size_t usable = glebe_gc_usable_size(gc, object), words = usable / sizeof(uintptr_t);
            assert_non_null(object);
            assert_true(usable >= sizes[i] && usable < sizes[i] + GB_SLICE_BYTES);
            for (size_t w = 0; w < words; w++)
                assert_int_equal(object[w], 0);
            memset(object, 0xaa, usable);
            void *first = node_new(NULL, NULL), *last = node_new(NULL, NULL);
            object[0] = (uintptr_t)first;
            object[words - 1] = (uintptr_t)last;
            roots[0] = (char *)object + sizes[i] - 1; /* anywhere inside */
            glebe_gc_collect(gc);
            assert_true(alive(object) && alive(first) && alive(last));
            assert_int_equal(glebe_gc_usable_size(gc, (char *)object + sizes[i] / 2), usable);
            roots[0] = (char *)object + usable; /* behind it */
            glebe_gc_collect(gc);
            assert_true(!alive(object) && !alive(last));
            well();
        }
    roots[0] = NULL;
    glebe_gc_collect(gc);
    glebe_gc_stats_read(gc, &stats);
    assert_int_equal(stats.heap_bytes, 0);
    assert_int_equal(stats.allocated_objects, stats.freed_objects);
}

/* Freed memory is purged at the next collection after purge_ms. */
static void test_memory_goes_back(void **state)
{
    (void)state;
    if (GB_LINEAR)
        return;
    roots[0] = glebe_gc_alloc(gc, 30 * MIB);
    roots[1] = glebe_gc_alloc(gc, 5 * MIB);
    roots[2] = glebe_gc_alloc(gc, 500000);
    memset(roots[0], 1, 30 * MIB);
    memset(roots[1], 1, 5 * MIB);
    memset(roots[2], 1, 500000);
    roots[0] = roots[1] = roots[2] = NULL;
    glebe_gc_collect(gc);
    uint64_t before = fake.purged_bytes;
    fake.now_ms += 1000;
    glebe_gc_collect(gc);
    glebe_stats s;
    glebe_stats_read(&s);
    assert_int_equal(s.huge_retained_bytes, 0);
    /* of the other memory more was retained than the bounds allow */
    assert_true(fake.purged_bytes >= before + 5 * MIB + 500000 / GB_SLICE_BYTES * GB_SLICE_BYTES);
    assert_true(s.purged_bytes >= 35 * MIB);
}

/* Layouts of huge objects, and chains of huge objects against the order of their addresses. */
static void test_huge_chains(void **state)
{
    (void)state;
    enum { CHAIN = 6, WORDS = MIB / 4 };
    static const struct { uintptr_t words; uint8_t bits[2]; } tenth = {10, {0, 2}};
    const uintptr_t layouts[] = {0, GLEBE_GC_LAYOUT(3, 4), (uintptr_t)&tenth, GB_PLAIN};
    static const size_t counted[] = {WORDS - 2, 3 * 70000 + 2, 10 * 20000 + 9},
        uncounted[] = {0, 3 * 70000, 10 * 20000 + 8};
    for (int k = 0; k < 4; k++) {
        void **chain[CHAIN], *small, *other[CHAIN];
        for (int i = 0; i < CHAIN; i++) {
            chain[i] = glebe_gc_alloc_layout(gc, WORDS * sizeof(void *), layouts[k]);
            other[i] = node_new(NULL, NULL);
        }
        small = node_new(NULL, NULL);
        size_t at = k < 3 ? counted[k] : 0, not_at = k < 3 ? uncounted[k] : 0;
        for (int i = 0; i < CHAIN; i++) { /* from the first to the last and back, and so through all */
            chain[i][at] = chain[i ? i - 1 : CHAIN - 1];
            if (k > 0)
                chain[i][not_at] = other[i];
        }
        chain[1][at] = small;
        roots[0] = chain[0];
        glebe_gc_collect(gc);
        for (int i = 0; i < CHAIN; i++) {
            assert_int_equal(alive(chain[i]), k < 3 || i == 0);
            assert_false(alive(other[i]));
        }
        assert_int_equal(alive(small), k < 3);
        well();
        roots[0] = NULL;
        glebe_gc_collect(gc);
        for (int i = 0; i < CHAIN; i++)
            assert_false(alive(chain[i]));
        well();
    }
}

static int huge_finals;
static void huge_final(void *object, void *context)
{
    assert_int_equal(((int *)object)[MIB], 5);
    *(int *)context += 1;
}

static void test_huge_finalizers(void **state)
{
    (void)state;
    huge_finals = 0;
    int *object = glebe_gc_alloc(gc, 5 * MIB);
    void *weak = object, **holder = glebe_gc_alloc(gc, 3 * MIB), *held = node_new(NULL, NULL);
    object[MIB] = 5;
    holder[MIB / 8] = object;
    holder[1] = held;
    assert_int_equal(glebe_gc_finalizer(gc, (char *)object + 16, huge_final, &huge_finals), EINVAL);
    assert_int_equal(glebe_gc_finalizer(gc, object, huge_final, &huge_finals), 0);
    assert_int_equal(glebe_gc_weak_add(gc, &weak), 0);
    roots[0] = holder;
    glebe_gc_collect(gc);
    assert_true(weak == object && alive(held));
    assert_int_equal(glebe_gc_finalize(gc), 0);
    roots[0] = NULL;
    glebe_gc_collect(gc);
    assert_null(weak);
    assert_true(alive(object) && !alive(holder));
    assert_int_equal(glebe_gc_finalize(gc), 1);
    assert_int_equal(huge_finals, 1);
    glebe_gc_collect(gc);
    assert_false(alive(object));
    well();
}

static void test_huge_by_hand(void **state)
{
    (void)state;
    char *a = glebe_gc_alloc(gc, 3 * MIB), *b = glebe_gc_alloc(gc, 3 * MIB), *c = glebe_gc_alloc_plain(gc, 3 * MIB);
    glebe_gc_free(gc, b);
    assert_true(alive(a) && !alive(b) && alive(c));
    assert_int_equal(glebe_live.stats.errors, 0);
    glebe_gc_free(gc, a + 4096);
    glebe_free(c);
    assert_int_equal(glebe_usable_size(c), 0);
    assert_null(glebe_realloc(c, 100));
    assert_true(alive(a) && alive(c));
    assert_int_equal(glebe_live.stats.errors, 4);
    assert_non_null(strstr(fake.printed, "): not the start of an object of this collector\n"));
    assert_non_null(strstr(fake.printed,
        "): address is in the pages of a collector, whose objects only glebe_gc_free takes\n"));
    well();
}

/* Memory is short, and the host fails at each step. */
static void test_huge_without_memory(void **state)
{
    (void)state;
    assert_null(glebe_gc_alloc(gc, PTRDIFF_MAX));
    assert_int_equal(errno, ENOMEM);
    for (uint64_t at = 1; at < 8; at++) {
        gb_fake_fail(1u << GB_FAKE_COMMIT | 1u << GB_FAKE_GROW, at, UINT64_MAX);
        int served = 0;
        while (served < 8 && (roots[served] = glebe_gc_alloc(gc, 3 * MIB)) != NULL)
            memset(roots[served++], 1, 3 * MIB);
        assert_true(served < 8 || at > 4);
        well();
        gb_fake_fail(0, 0, 0);
        memset(roots, 0, sizeof roots);
        glebe_gc_collect(gc);
        well();
        roots[0] = glebe_gc_alloc(gc, 3 * MIB);
        assert_non_null(roots[0]);
    }
    glebe_gc *little = glebe_gc_create(10 * MIB);
    void *held = NULL;
    glebe_gc_root_add(little, &held, sizeof held);
    for (int i = 0; i < 20; i++) { /* within its limit a collection makes room for the next */
        held = NULL;
        held = glebe_gc_alloc(little, 6 * MIB);
        assert_non_null(held);
    }
    assert_null(glebe_gc_alloc(little, 6 * MIB));
    assert_true(glebe_gc_usable_size(little, held) >= 6 * MIB);
    glebe_gc_destroy(little);
}

/* Two collectors share the tables and nothing else. */
static void test_two_collectors(void **state)
{
    (void)state;
    glebe_gc *other = glebe_gc_create(0);
    void *held = NULL, *theirs = glebe_gc_alloc(other, 100), *ours = glebe_gc_alloc(gc, 100);
    glebe_gc_root_add(other, &held, sizeof held);
    held = theirs;
    roots[0] = theirs; /* not our reference */
    glebe_gc_collect(gc);
    assert_true(!alive(ours) && glebe_gc_usable_size(other, theirs));
    held = NULL;
    glebe_gc_collect(other);
    assert_false(glebe_gc_usable_size(other, theirs));
    glebe_gc_destroy(other);
}

/* Wherever the host fails, a collection ends, and reachable objects stay. */
static void test_host_fails(void **state)
{
    (void)state;
    for (uint64_t at = 1; at < 40; at++) {
        gb_fake_fail(1u << GB_FAKE_COMMIT | 1u << GB_FAKE_GROW, at, UINT64_MAX);
        for (int i = 0; i < 20000; i++) {
            node *n = glebe_gc_alloc_layout(gc, sizeof *n, GLEBE_GC_LAYOUT(3, 3));
            if (!n)
                break;
            n->left = i % 100 ? roots[0] : NULL;
            roots[0] = n;
        }
        glebe_gc_collect(gc);
        int length = 0;
        for (node *n = roots[0]; n; n = n->left, length++)
            assert_true(alive(n));
        assert_true(length <= 100);
        gb_fake_fail(0, 0, 0);
        well();
    }
}

/* Returns how many percent of `live` bytes may be allocated before the next collection. */
static size_t pace_of(unsigned percent, size_t live)
{
    gc->live_bytes = live;
    gc->roots_bytes = 0;
    glebe_gc_pace(gc, percent, 0, 0);
    return (uint64_t)gc->trigger_bytes * 100 / live;
}

/* In linear memory the default percentage halves from 4 MiB on where the live bytes quadruple. Others are exact. */
static void test_pace(void **state)
{
    (void)state;
    static const size_t linear[] = {89, 89, 89, 59, 44, 29, 22, 14, 11};
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++) {
        assert_int_equal(pace_of(GLEBE_GC_PERCENT_DEFAULT, (size_t)MIB << i), GB_LINEAR ? linear[i] : 89);
        assert_int_equal(pace_of(90, (size_t)MIB << i), 89);
        assert_int_equal(pace_of(300, (size_t)MIB << i), 300);
    }
    if (sizeof(size_t) > 4) {
        pace_of(GLEBE_GC_PERCENT_DEFAULT - 1, (size_t)((uint64_t)5 << 32)); /* the product has over 64 bits */
        assert_true(gc->trigger_bytes > (uint64_t)1 << 59);
    }
    gc->live_bytes = 0;
}

static uint64_t grown_to(void)
{
    glebe_stats all;
    for (int i = 0; i < 40000; i++)
        roots[1] = glebe_gc_alloc(gc, 48);
    glebe_stats_read(&all);
    return all.committed_bytes;
}

/* In linear memory a small heap collects before it grows. */
static void test_small_heaps_grow_last(void **state)
{
    (void)state;
    if (!GB_LINEAR)
        skip();
    for (size_t bytes = 0; bytes < 300 << 10; bytes += sizeof(node))
        roots[0] = node_new(roots[0], NULL);
    glebe_gc_collect(gc);
    uint64_t first = grown_to();
    assert_int_equal(grown_to(), first);
    glebe_gc_pace(gc, 90, 385 << 10, 0); /* as if the heap were larger */
    assert_true(grown_to() > first);
    well();
}

#define COLLECT_TEST(f) cmocka_unit_test_setup_teardown(f, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        COLLECT_TEST(test_what_is_reachable_stays),
        COLLECT_TEST(test_layouts),
        COLLECT_TEST(test_marking_needs_little_memory),
        COLLECT_TEST(test_gaps_of_a_word),
        COLLECT_TEST(test_memory_is_used_again),
        COLLECT_TEST(test_exact_bytes),
        COLLECT_TEST(test_limit),
        COLLECT_TEST(test_finalizers),
        COLLECT_TEST(test_many_finalizers),
        COLLECT_TEST(test_finalizers_without_memory),
        COLLECT_TEST(test_weak_references),
        COLLECT_TEST(test_callbacks),
        COLLECT_TEST(test_in_parts),
        COLLECT_TEST(test_freed_by_hand),
        cmocka_unit_test_setup_teardown(test_sizes, start_patient, end),
        cmocka_unit_test_setup_teardown(test_memory_goes_back, start_patient, end),
        cmocka_unit_test_setup_teardown(test_huge_chains, start_patient, end),
        cmocka_unit_test_setup_teardown(test_huge_finalizers, start_patient, end),
        cmocka_unit_test_setup_teardown(test_huge_by_hand, start_patient, end),
        cmocka_unit_test_setup_teardown(test_huge_without_memory, start_patient, end),
        COLLECT_TEST(test_pace),
        COLLECT_TEST(test_small_heaps_grow_last),
        COLLECT_TEST(test_two_collectors),
        COLLECT_TEST(test_host_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
