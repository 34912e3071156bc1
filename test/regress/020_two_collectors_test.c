/* A number in an object of one collector equals an address in another's. All collectors shared one table of marks, and
 * marking set the bit that the number led to. With two threads updates were lost and rooted objects freed. With one
 * thread the other collector took an object that it had not scanned for marked, and freed its huge child. */
#define GB_MARK_STACK 8
#include "../../src/glebe.c"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#ifdef __SANITIZE_THREAD__ /* it sees two threads at one bit, also where no update is lost */
enum { ROUNDS = 200 };
#else
enum { ROUNDS = 3000 };
#endif
enum { COLLECTORS = 3, OBJECTS = 400, WORDS = 6 };

static struct side {
    glebe_gc *gc;
    uintptr_t *objects[OBJECTS];
    struct side *other;
    uint64_t freed;
} sides[COLLECTORS];
static pthread_barrier_t barrier;

static int side_broken(const struct side *side)
{
    int broken = 0;
    for (int i = 0; i < OBJECTS; i++)
        broken += glebe_gc_usable_size(side->gc, side->objects[i]) == 0
            || side->objects[i][0] != (uintptr_t)side->objects[(i + 1) % OBJECTS];
    return broken;
}

/* Each object refers to the next one, and holds numbers that are addresses of the other collector's objects: of their
 * starts and interiors. */
static void side_write(struct side *side)
{
    for (int i = 0; i < OBJECTS; i++) {
        side->objects[i][0] = (uintptr_t)side->objects[(i + 1) % OBJECTS];
        for (int w = 1; w < WORDS; w++)
            side->objects[i][w] = (uintptr_t)side->other->objects[(i * 7 + w) % OBJECTS] + (w % 2 ? 0 : 8);
    }
}

static void *side_run(void *context)
{
    struct side *side = context;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 500 && round % 16 == 0; i++) /* pages come and go */
            ((void **)glebe_gc_alloc(side->gc, (size_t)(16 + i * 4)))[0] = side->other->objects[i % OBJECTS];
        glebe_gc_collect(side->gc);
        side->freed += (uint64_t)side_broken(side);
    }
    return NULL;
}

static void side_start(struct side *side)
{
    side->gc = glebe_gc_create(0);
    assert_non_null(side->gc);
    for (int i = 0; i < OBJECTS; i++)
        side->objects[i] = glebe_gc_alloc(side->gc, WORDS * sizeof(uintptr_t));
    assert_int_equal(glebe_gc_root_add(side->gc, side->objects, sizeof(void *)), 0); /* the first object reaches all */
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[COLLECTORS];
    for (int k = 0; k < COLLECTORS; k++) {
        sides[k].other = &sides[(k + 1) % COLLECTORS];
        side_start(&sides[k]);
        glebe_gc_pace(sides[k].gc, 100, (size_t)1 << 30, 0);
    }
    for (int k = 0; k < COLLECTORS; k++)
        side_write(&sides[k]);
    for (int k = 0; k < COLLECTORS; k++)
        assert_int_equal(pthread_create(&threads[k], NULL, side_run, &sides[k]), 0);
    for (int k = 0; k < COLLECTORS; k++)
        pthread_join(threads[k], NULL);
    for (int k = 0; k < COLLECTORS; k++) {
        assert_int_equal(sides[k].freed, 0);
        assert_int_equal(glebe_gc_check(sides[k].gc, NULL, NULL), 0);
    }
    for (int k = 0; k < COLLECTORS; k++)
        glebe_gc_destroy(sides[k].gc);
}

/* Collectors are made and destroyed while another one marks. */
static void *others_run(void *context)
{
    struct side *side = context;
    pthread_barrier_wait(&barrier);
    for (int round = 0; round < ROUNDS; round++) {
        glebe_gc *gc = glebe_gc_create(0);
        void *root = NULL;
        glebe_gc_root_add(gc, &root, sizeof root);
        for (int i = 0; i < 300; i++) {
            void **object = glebe_gc_alloc(gc, 48);
            object[0] = root;
            object[1] = side->objects[i];
            root = object;
        }
        glebe_gc_collect(gc);
        int length = 0;
        for (void **object = root; object; object = *object)
            length += glebe_gc_usable_size(gc, object) != 0;
        side->freed += length != 300;
        glebe_gc_destroy(gc);
    }
    return NULL;
}

static void test_made_meanwhile(void **state)
{
    (void)state;
    pthread_t thread;
    memset(sides, 0, sizeof sides);
    side_start(&sides[0]);
    sides[0].other = &sides[0];
    side_write(&sides[0]);
    sides[1].other = &sides[0];
    memcpy(sides[1].objects, sides[0].objects, sizeof sides[0].objects);
    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, others_run, &sides[1]), 0);
    pthread_barrier_wait(&barrier);
    uintptr_t numbers[64]; /* addresses that the other's pages may get */
    for (int round = 0; round < ROUNDS * 10; round++) {
        for (int i = 0; i < 64; i++)
            numbers[i] = (uintptr_t)sides[0].objects[0] + (uintptr_t)(round * 64 + i) * 48;
        glebe_gc_begin(sides[0].gc);
        glebe_gc_mark(sides[0].gc, numbers, numbers + 64);
        glebe_gc_finish(sides[0].gc);
    }
    pthread_join(thread, NULL);
    assert_int_equal(sides[1].freed, 0);
    assert_int_equal(side_broken(&sides[0]), 0);
    glebe_gc_destroy(sides[0].gc);
}

/* One thread collects in parts, with both at once. */
static void one_thread(bool first)
{
    glebe_gc *gcs[2] = {glebe_gc_create(0), glebe_gc_create(0)};
    glebe_gc *theirs = gcs[first], *ours = gcs[!first];
    void **holder = glebe_gc_alloc(theirs, 64), *number, *root;
    number = root = holder;
    holder[3] = glebe_gc_alloc_plain(theirs, (size_t)2 << 20);
    glebe_gc_begin(theirs);
    glebe_gc_begin(ours);
    glebe_gc_mark(ours, &number, &number + 1); /* no object of ours */
    glebe_gc_mark(theirs, &root, &root + 1);
    glebe_gc_finish(ours);
    glebe_gc_finish(theirs);
    assert_true(glebe_gc_usable_size(theirs, holder) > 0);
    assert_true(glebe_gc_usable_size(theirs, holder[3]) > 0);
    assert_int_equal(glebe_gc_usable_size(ours, holder), 0);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(glebe_gc_check(gcs[k], NULL, NULL), 0);
        glebe_gc_destroy(gcs[k]);
    }
}

static void test_one_thread(void **state)
{
    (void)state;
    one_thread(false);
    one_thread(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_thread), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_made_meanwhile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
