/* Linear memory that threads share: the lock at the public functions, entered again, slept for and woken. Then real
 * threads in one heap, for the race sanitizer to watch. */
#define GB_LINEAR 1
#define GB_SHARED 1
#include "fixture.h"

#include <pthread.h>
#include <time.h>

static uint32_t word_now(void) { return gb_load(&gb_the.entry.lock.word); }
static uint32_t me(void) { return (uint32_t)(uintptr_t)&gb_me; }

static void test_entered_again(void **state)
{
    (void)state;
    {
        GB_ENTRY;
        assert_int_equal(word_now(), me());
        glebe_free(glebe_malloc(100)); /* enters again */
        assert_int_equal(word_now(), me());
        assert_int_equal(gb_the.entry.again, 0);
    }
    assert_int_equal(word_now(), 0);
    assert_true(fake.waits == 0 && fake.wakes == 0);
    assert_null(glebe_malloc(PTRDIFF_MAX)); /* released also if the call fails */
    assert_int_equal(word_now(), 0);
}

static uintptr_t heap_end(void) { return gb_the.base + (gb_the.slices << GB_SLICE_LOG2); }

static void test_told_how_far_memory_reaches(void **state)
{
    (void)state;
    void *small = glebe_malloc(100);
    uintptr_t before = heap_end();
    void *large = glebe_malloc(4 << 20);
    assert_true(heap_end() >= before + (4 << 20)); /* as if another thread had let it grow */
    assert_true(fake.told_end < heap_end());
    {
        GB_ENTRY;
        assert_int_equal(fake.told_end, heap_end());
    }
    glebe_free(large);
    glebe_free(small);
}

static void others_leave(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    assert_ptr_equal(word, &gb_the.entry.lock.word);
    assert_int_equal(expected, 4711 * 2 + 1); /* bit 0 tells other threads that this one sleeps */
    assert_int_equal(ms, UINT32_MAX);
    if (fake.waits == 3) /* the first wake-ups had no effect */
        gb_store(word, 0);
}

static void test_sleep(void **state)
{
    (void)state;
    glebe_thread_wait(true);
    gb_store(&gb_the.entry.lock.word, 4711 * 2);
    fake.on_wait = others_leave;
    {
        GB_ENTRY;
        assert_int_equal(fake.waits, 3);
        assert_int_equal(word_now(), me() | 1); /* others may sleep too */
    }
    assert_int_equal(word_now(), 0);
    assert_int_equal(fake.wakes, 1);
}

/* ---- threads ---- */

enum { THREADS = 4, STEPS = 6000, SLOTS = 64 };
static _Atomic(unsigned char *) slots[SLOTS];
static _Atomic int wrong;

static void a_nap(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    (void)word;
    (void)expected;
    (void)ms;
    struct timespec t = {0, 1000};
    nanosleep(&t, NULL);
}

/* The first two words of a block hold its length and its filling. */
static unsigned char *block_made(unsigned char *block, size_t bytes)
{
    if (!block)
        return NULL;
    uint32_t head[2] = {(uint32_t)bytes, (uint32_t)((uintptr_t)block >> 4 ^ bytes)};
    memcpy(block, head, sizeof head);
    fixture_fill(block + sizeof head, bytes - sizeof head, head[1]);
    return block;
}

static void block_dropped(unsigned char *block)
{
    uint32_t head[2];
    if (!block)
        return;
    memcpy(head, block, sizeof head);
    wrong += !fixture_filled(block + sizeof head, head[0] - sizeof head, head[1]);
    glebe_free(block);
}

static void *wander(void *argument)
{
    uint64_t chance = (uintptr_t)argument;
    glebe_thread_wait(chance % 2); /* some sleep, some do not */
    for (int i = 0; i < STEPS; i++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        size_t bytes = 8 + (size_t)(chance >> 33) % (i % 50 == 0 ? 50000 : 600);
        unsigned char *block = block_made(glebe_malloc(bytes), bytes);
        wrong += !block;
        block_dropped(atomic_exchange(&slots[chance >> 20 & (SLOTS - 1)], block));
        if (i % 100 == 0) {
            glebe_heap *heap = glebe_heap_create(0);
            wrong += !heap || !glebe_heap_malloc(heap, 3000);
            glebe_heap_destroy(heap);
            glebe_trim(NULL);
        }
    }
    return NULL;
}

/* One thread owns a collector, beside others that malloc: these wait while it collects. */
static void *collect(void *unused)
{
    (void)unused;
    static void *root;
    glebe_thread_wait(true);
    glebe_gc *gc = glebe_gc_create(0);
    wrong += !gc || glebe_gc_root_add(gc, &root, sizeof root) != 0;
    glebe_gc_pace(gc, 50, 1 << 14, 0);
    for (int i = 0; i < STEPS; i++) {
        void **object = glebe_gc_alloc(gc, 64 + (size_t)i % 3000);
        if (!object)
            wrong++;
        else if (i % 100)
            *object = root;
        root = object;
    }
    wrong += glebe_gc_check(gc, NULL, NULL);
    glebe_gc_destroy(gc);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS + 1];
    fake.on_wait = a_nap;
    for (uintptr_t k = 0; k < THREADS; k++)
        assert_int_equal(pthread_create(&threads[k], NULL, wander, (void *)(k + 1)), 0);
    assert_int_equal(pthread_create(&threads[THREADS], NULL, collect, NULL), 0);
    for (int k = 0; k <= THREADS; k++)
        pthread_join(threads[k], NULL);
    for (int i = 0; i < SLOTS; i++)
        block_dropped(atomic_exchange(&slots[i], NULL));
    assert_int_equal(wrong, 0);
    assert_int_equal(word_now(), 0);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_entered_again),
        FIXTURE_TEST(test_told_how_far_memory_reaches),
        FIXTURE_TEST(test_sleep),
        FIXTURE_TEST(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
