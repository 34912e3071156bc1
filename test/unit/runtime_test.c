/* What the collector offers to runtimes of languages: kinds, pins, links, and finalizers in several orders. */
#include "fixture.h"

static glebe_gc *gc;
static void *roots[8];
static void *finalized[16];
static size_t finals;

static int start(void **state)
{
    (void)state;
    fixture_start(1);
    memset(roots, 0, sizeof roots);
    finals = 0;
    gc = glebe_gc_create(0);
    return gc && glebe_gc_root_add(gc, roots, sizeof roots) == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    int printed = 0;
    assert_int_equal(glebe_gc_check(gc, fixture_print, &printed), 0);
    fixture_check();
    glebe_gc_destroy(gc);
    fixture_release();
    return 0;
}

static bool alive(const void *object) { return glebe_gc_base(gc, object) != NULL; }

static void finalize(void *object, void *context)
{
    (void)context;
    assert_true(finals < 16);
    finalized[finals++] = object;
}

static bool was_finalized(const void *object)
{
    for (size_t i = 0; i < finals; i++)
        if (finalized[i] == object)
            return true;
    return false;
}

/* ---- kinds ---- */

static size_t marks;

/* The first word counts the references that follow; they are disguised. */
static void mark_disguised(glebe_gc *collector, void *object, size_t bytes, const glebe_gc_kind *kind)
{
    const uintptr_t *words = object;
    assert_true(kind && bytes >= sizeof *words);
    marks++;
    for (uintptr_t i = 1; i <= words[0]; i++)
        glebe_gc_mark_object(collector, (const void *)~words[i]);
}

static const glebe_gc_kind disguised = {0, mark_disguised};

static void test_a_kind_marks_with_its_function(void **state)
{
    (void)state;
    static const size_t sizes[] = {64, 5000, 3 << 20};
    for (size_t i = 0; i < 3; i++) {
        uintptr_t *object = glebe_gc_alloc_layout(gc, sizes[i], GLEBE_GC_KIND(&disguised));
        roots[0] = object;
        void **kept = glebe_gc_alloc(gc, 40), *lost = glebe_gc_alloc(gc, 40);
        kept[2] = glebe_gc_alloc_plain(gc, 2 << 20); /* further objects behind it, huge ones too */
        object[0] = 1;
        object[1] = ~(uintptr_t)kept;
        object[4] = (uintptr_t)lost;
        marks = 0;
        glebe_gc_collect(gc);
        assert_true(marks > 0 && alive(kept) && alive(kept[2]) && !alive(lost));
        assert_int_equal(glebe_gc_layout_of(gc, object), GLEBE_GC_KIND(&disguised));
    }
}

/* Lists of disguised references, longer than the mark stack, and wide objects. */
static void test_a_kind_fills_the_mark_stack(void **state)
{
    (void)state;
    enum { WIDE = 3000, LONG = 20000 };
    uintptr_t *wide = glebe_gc_alloc_layout(gc, (WIDE + 1) * sizeof *wide, GLEBE_GC_KIND(&disguised));
    roots[0] = wide;
    for (wide[0] = 0; wide[0] < WIDE; wide[0]++)
        wide[wide[0] + 1] = ~(uintptr_t)glebe_gc_alloc_layout(gc, 16, GLEBE_GC_KIND(&disguised));
    for (int i = 0; i < LONG; i++) {
        uintptr_t *next = glebe_gc_alloc_layout(gc, 2 * sizeof *next, GLEBE_GC_KIND(&disguised));
        next[0] = roots[1] != NULL;
        next[1] = ~(uintptr_t)roots[1];
        roots[1] = next;
    }
    glebe_gc_collect(gc);
    glebe_gc_stats stats;
    glebe_gc_stats_read(gc, &stats);
    assert_int_equal(stats.marked_objects, 1 + WIDE + LONG);
}

/* Unlike a layout, a kind holds from the first object on, and however many kinds there are. */
static void test_kinds_are_exact(void **state)
{
    (void)state;
    enum { MANY = 400 };
    static glebe_gc_kind kinds[MANY];
    void *lost[MANY], *kept[MANY];
    glebe_gc_pace(gc, 100, 64 << 20, 0); /* no address is used twice */
    void **all = roots[0] = glebe_gc_alloc(gc, MANY * sizeof *all);
    for (int i = 0; i < MANY; i++) {
        kinds[i].layout = GLEBE_GC_LAYOUT(2, 2);
        void **object = all[i] = glebe_gc_alloc_layout(gc, 4 * sizeof *object, GLEBE_GC_KIND(&kinds[i]));
        object[2] = lost[i] = glebe_gc_alloc(gc, 24);
        object[3] = kept[i] = glebe_gc_alloc(gc, 24);
    }
    glebe_gc_collect(gc);
    for (int i = 0; i < MANY; i++) {
        assert_true(!alive(lost[i]) && alive(kept[i]));
        assert_int_equal(glebe_gc_layout_of(gc, all[i]), GLEBE_GC_KIND(&kinds[i]));
    }
}

static void count_object(void *context, void *object, size_t bytes)
{
    assert_true(object && bytes >= 8);
    ++*(size_t *)context;
}

static void test_addresses(void **state)
{
    (void)state;
    char *object = roots[0] = glebe_gc_alloc_plain(gc, 100);
    roots[1] = glebe_gc_alloc(gc, 100);
    roots[2] = glebe_gc_alloc(gc, 3 << 20);
    assert_ptr_equal(glebe_gc_base(gc, object + 99), object);
    assert_null(glebe_gc_base(gc, &object));
    assert_null(glebe_gc_base(gc, NULL));
    assert_int_equal(glebe_gc_layout_of(gc, object), GLEBE_GC_LAYOUT(1, 0));
    assert_int_equal(glebe_gc_layout_of(gc, roots[1]), 0);
    assert_int_equal(glebe_gc_layout_of(gc, &object), 0);
    size_t seen = 0;
    glebe_gc_each(gc, count_object, &seen);
    assert_int_equal(seen, 3);
    assert_int_equal(glebe_gc_limit(gc, 64 << 10), EBUSY);
    assert_int_equal(glebe_gc_limit(gc, 8 << 20), 0);
    assert_null(glebe_gc_alloc(gc, 16 << 20));
    assert_int_equal(glebe_gc_limit(gc, 0), 0);
    assert_non_null(glebe_gc_alloc(gc, 16 << 20));
}

static void test_pins(void **state)
{
    (void)state;
    void **pinned = glebe_gc_alloc(gc, 40), *held = pinned[1] = glebe_gc_alloc(gc, 40);
    assert_int_equal(glebe_gc_pin(gc, pinned), 0);
    assert_int_equal(glebe_gc_pin(gc, pinned), 0);
    assert_int_equal(glebe_gc_pin(gc, (char *)pinned + 8), EINVAL);
    assert_int_equal(glebe_gc_pin(gc, &held), EINVAL);
    glebe_gc_collect(gc);
    assert_true(alive(pinned) && alive(held) && glebe_gc_pinned(gc, pinned));
    assert_int_equal(glebe_gc_unpin(gc, pinned), 0);
    glebe_gc_collect(gc);
    assert_true(alive(pinned) && alive(held));
    assert_int_equal(glebe_gc_unpin(gc, pinned), 0);
    assert_int_equal(glebe_gc_unpin(gc, pinned), ENOENT);
    glebe_gc_collect(gc);
    assert_true(!alive(pinned) && !alive(held));
    pinned = glebe_gc_alloc(gc, 40);
    assert_int_equal(glebe_gc_pin(gc, pinned), 0);
    glebe_gc_free(gc, pinned);
    assert_false(glebe_gc_pinned(gc, pinned));
}

/* ---- links ---- */

static void test_links(void **state)
{
    (void)state;
    void *slots[3] = {(void *)5, (void *)5, (void *)5};
    void *object = glebe_gc_alloc(gc, 40), *other = glebe_gc_alloc(gc, 40);
    assert_int_equal(glebe_gc_link_add(gc, &slots[0], object, false), 0);
    assert_int_equal(glebe_gc_link_add(gc, &slots[0], other, false), EEXIST); /* from here on it is other's */
    assert_int_equal(glebe_gc_link_add(gc, &slots[0], other, true), 0);
    assert_int_equal(glebe_gc_link_add(gc, &slots[1], (char *)object + 8, false), EINVAL);
    assert_int_equal(glebe_gc_link_add(gc, (void **)((char *)slots + 1), object, false), EINVAL);
    assert_int_equal(glebe_gc_link_move(gc, &slots[0], &slots[1], true), 0);
    assert_int_equal(glebe_gc_link_move(gc, &slots[0], &slots[1], true), ENOENT);
    assert_int_equal(glebe_gc_link_add(gc, &slots[2], other, true), 0);
    assert_int_equal(glebe_gc_link_move(gc, &slots[2], &slots[1], true), EEXIST);
    assert_int_equal(glebe_gc_link_remove(gc, &slots[2], true), 0);
    assert_int_equal(glebe_gc_link_remove(gc, &slots[2], true), ENOENT);
    assert_int_equal(glebe_gc_finalizer(gc, other, finalize, NULL), 0);
    glebe_gc_collect(gc);
    assert_true(!alive(object) && alive(other));
    assert_true(slots[0] == NULL && slots[1] == (void *)5 && slots[2] == (void *)5);
    assert_int_equal(glebe_gc_finalize(gc), 1);
    glebe_gc_collect(gc);
    assert_true(!alive(other) && slots[1] == NULL && slots[2] == (void *)5);
    assert_int_equal(glebe_gc_link_remove(gc, &slots[1], true), ENOENT);
}

/* A slot in a plain object: its link ends with the object, and nothing is written there later. */
static void test_links_in_objects(void **state)
{
    (void)state;
    void **holder = glebe_gc_alloc_plain(gc, 40);
    roots[0] = holder;
    roots[1] = glebe_gc_alloc(gc, 40);
    holder[1] = roots[1];
    assert_int_equal(glebe_gc_link_add(gc, &holder[1], roots[1], false), 0);
    glebe_gc_collect(gc);
    assert_ptr_equal(holder[1], roots[1]);
    roots[0] = NULL;
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_link_remove(gc, &holder[1], false), ENOENT);
    holder = roots[0] = glebe_gc_alloc_plain(gc, 40);
    holder[1] = roots[1];
    assert_int_equal(glebe_gc_link_add(gc, &holder[1], roots[1], false), 0);
    roots[1] = NULL;
    glebe_gc_collect(gc);
    assert_null(holder[1]);
}

/* ---- finalizers ---- */

static void **final_new(unsigned order)
{
    void **object = glebe_gc_alloc(gc, 64);
    assert_int_equal(glebe_gc_finalizer_order(gc, object, finalize, NULL, order, NULL, NULL), 0);
    return object;
}

static void test_orders(void **state)
{
    (void)state;
    /* each refers to itself, then pairs that refer to each other */
    void **self[3];
    for (unsigned order = 0; order < 3; order++) {
        self[order] = final_new(order);
        self[order][0] = self[order];
    }
    void **a = final_new(GLEBE_GC_UNORDERED), **b = final_new(GLEBE_GC_UNORDERED);
    a[0] = b;
    b[0] = a;
    void **c = final_new(GLEBE_GC_IGNORES_SELF), **d = final_new(GLEBE_GC_IGNORES_SELF);
    c[0] = d;
    d[0] = c;
    void **first = final_new(GLEBE_GC_UNORDERED), **last = final_new(GLEBE_GC_LAST);
    void **held = first[0] = glebe_gc_alloc(gc, 64);
    held[0] = last;
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_ready(gc), 5);
    glebe_gc_collect(gc); /* what is ready stays so */
    assert_int_equal(glebe_gc_ready(gc), 5);
    assert_int_equal(glebe_gc_finalize(gc), 5);
    assert_true(!was_finalized(self[0]) && was_finalized(self[1]) && was_finalized(self[2]));
    assert_true(was_finalized(a) && was_finalized(b) && !was_finalized(c) && !was_finalized(d));
    assert_true(was_finalized(first) && !was_finalized(last) && alive(held));
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_ready(gc), 1);
    glebe_gc_collect(gc);
    assert_int_equal(glebe_gc_finalize(gc), 1);
    assert_true(was_finalized(last) && !alive(held) && alive(c) && alive(d) && alive(self[0]));
}

static void test_a_finalizer_returns_the_old_one(void **state)
{
    (void)state;
    void **object = roots[0] = glebe_gc_alloc(gc, 64), *context = glebe_gc_alloc(gc, 40), *old_context = &old_context;
    glebe_gc_final *old = finalize;
    unsigned order = GLEBE_GC_UNORDERED | GLEBE_GC_ROOTS_CONTEXT;
    assert_int_equal(glebe_gc_finalizer_order(gc, object, finalize, context, order, &old, &old_context), 0);
    assert_true(old == NULL && old_context == NULL);
    glebe_gc_collect(gc);
    assert_true(alive(context));
    assert_int_equal(glebe_gc_finalizer_order(gc, object, NULL, NULL, 0, &old, &old_context), 0);
    assert_true(old == finalize && old_context == context);
    glebe_gc_collect(gc);
    assert_true(!alive(context));
    assert_int_equal(glebe_gc_finalizer_order(gc, &object, finalize, NULL, 0, &old, &old_context), EINVAL);
    assert_int_equal(glebe_gc_finalizer_order(gc, object, finalize, NULL, 8, &old, &old_context), EINVAL);
    assert_true(old == finalize && old_context == context);
}

/* Garbage that waits for finalizers does not put the next collection off: not the first of a list, and not those
 * behind it, up to half of all. Plain objects of the same size do. */
static void test_waiting_objects_do_not_count(void **state)
{
    (void)state;
    enum { COUNT = 4000, BYTES = 1024 };
    size_t triggers[3];
    for (unsigned i = 0; i < 3; i++) {
        void **head = NULL;
        glebe_gc_pace(gc, 90, (size_t)1 << 30, 0);
        for (unsigned j = 0; j < COUNT; j++) {
            void **object = glebe_gc_alloc(gc, BYTES);
            *object = head;
            head = object;
            roots[0] = i == 0 ? head : NULL;
            if (i > 0)
                assert_int_equal(glebe_gc_finalizer_order(gc, object, finalize, NULL,
                                     i == 1 ? GLEBE_GC_ORDERED : GLEBE_GC_UNORDERED, NULL, NULL),
                    0);
        }
        glebe_gc_pace(gc, 90, 0, 0);
        glebe_gc_collect(gc);
        assert_true(gc->live_bytes >= COUNT * BYTES);
        triggers[i] = gc->trigger_bytes;
        assert_int_equal(glebe_gc_ready(gc), i == 0 ? 0 : i == 1 ? 1 : COUNT);
        glebe_gc_destroy(gc);
        gc = glebe_gc_create(0);
        assert_true(gc && glebe_gc_root_add(gc, roots, sizeof roots) == 0);
    }
    assert_true(triggers[0] >= COUNT / 100 * BYTES * 90 && triggers[2] < triggers[0] / 2);
    assert_true(triggers[1] > triggers[0] * 45 / 100 && triggers[1] < triggers[0] * 55 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_kind_marks_with_its_function, start, end),
        cmocka_unit_test_setup_teardown(test_a_kind_fills_the_mark_stack, start, end),
        cmocka_unit_test_setup_teardown(test_kinds_are_exact, start, end),
        cmocka_unit_test_setup_teardown(test_addresses, start, end),
        cmocka_unit_test_setup_teardown(test_pins, start, end),
        cmocka_unit_test_setup_teardown(test_links, start, end),
        cmocka_unit_test_setup_teardown(test_links_in_objects, start, end),
        cmocka_unit_test_setup_teardown(test_orders, start, end),
        cmocka_unit_test_setup_teardown(test_a_finalizer_returns_the_old_one, start, end),
        cmocka_unit_test_setup_teardown(test_waiting_objects_do_not_count, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
