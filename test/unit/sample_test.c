/* The sampler: its sums are estimates of exact counts, without bias; it knows which sampled blocks are live, whichever
 * way they are freed; and the heaps stay sound. The fake host's random numbers make each run equal. */
#include "fixture.h"

#if GB_SAMPLES

enum { KIB = 1 << 10, MEAN = 4 * KIB, MOST = 40000 };
static void *blocks[MOST];
static const uintptr_t here[] = {0x2001, 0x2002, 0x2003}, there[] = {0x3001, 0x2002, 0x2003};

static double root(double x)
{
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 60; i++)
        r = (r + x / r) / 2;
    return r;
}

static void callers(const uintptr_t *stack)
{
    fake.stack = stack;
    fake.stack_length = 3;
}

static int setup(void **state)
{
    (void)state;
    memset(blocks, 0, sizeof blocks);
    fixture_start(3);
    return 0;
}

static void start(size_t mean)
{
    callers(here);
    assert_int_equal(glebe_profile_start(mean), 0);
}

/* Sums over all sites whose innermost caller is `leaf`; 0: all. */
typedef struct sums {
    double allocated, live, peak, allocated_blocks, live_blocks;
} sums;

static sums sum(uintptr_t leaf)
{
    sums all = {0, 0, 0, 0, 0};
    for (uint32_t i = 1; i < gb_the.sampler.sites.count; i++) {
        const gb_site *site = gb_site_at(i);
        if (leaf && gb_frame_at(site->frame)->address != leaf)
            continue;
        all.allocated += (double)site->allocated.bytes;
        all.live += (double)site->live.bytes;
        all.peak += (double)gb_site_peak(site).bytes;
        all.allocated_blocks += (double)site->allocated.objects / 65536;
        all.live_blocks += (double)site->live.objects / 65536;
    }
    return all;
}

/* Fails unless the estimate of `count` blocks of `bytes` is within three standard errors. The variance of a block's
 * weight is bytes^2 (1 - p) / p, and below bytes * (bytes + mean). */
static void near(double estimate, double count, double bytes, double mean)
{
    double error = root(count * bytes * (bytes + mean)), exact = count * bytes;
    double off = estimate > exact ? estimate - exact : exact - estimate;
    if (off > 3 * error)
        fail_msg("estimated %.0f for %.0f: more than three times %.0f off", estimate, exact, error);
}

static double usable(const void *block) { return (double)glebe_usable_size(block); }

static void test_estimates_by_class(void **state)
{
    (void)state;
    start(MEAN);
    for (uint32_t cls = 0; cls < GB_CLASSES; cls++) {
        size_t bytes = gb_classes[cls].bytes;
        uintptr_t stack[] = {0x10000 + cls, 0x2002, 0x2003};
        callers(stack);
        int count = bytes > 8 * KIB ? 60 : bytes > 512 ? 1000 : 20000;
        for (int i = 0; i < count; i++)
            blocks[i] = glebe_malloc(bytes);
        bytes = glebe_usable_size(blocks[0]); /* malloc does not use the classes of 24, 40 and 56 bytes */
        sums after = sum(0x10000 + cls);
        near(after.allocated, count, (double)bytes, MEAN);
        near(after.live_blocks * (double)bytes, count, (double)bytes, MEAN);
        if (cls % 8 == 0)
            fixture_check();
        for (int i = 0; i < count; i += 2)
            glebe_free(blocks[i]);
        near(sum(0x10000 + cls).live, count / 2, (double)bytes, MEAN);
        for (int i = 1; i < count; i += 2)
            glebe_free(blocks[i]);
        assert_int_equal((long long)sum(0x10000 + cls).live, 0);
        assert_true(sum(0x10000 + cls).allocated == after.allocated);
    }
    fixture_check();
}

/* The mean over many seeds is closer to the exact count than any single estimate; and the spread is that of a Poisson
 * process: a weight of b / p for a block of b bytes has the variance b^2 (1 - p) / p. */
static void test_no_bias(void **state)
{
    (void)state;
    enum { BYTES = 960, COUNT = 1000, SEEDS = 600 };
    const double odds = 3.7854, variance = (double)COUNT * BYTES * BYTES * odds; /* 1 / (e^(960 / 4096) - 1) */
    double off = 0, squares = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fixture_start(seed * 7919);
        start(MEAN);
        for (int i = 0; i < COUNT; i++)
            blocks[i] = glebe_malloc(BYTES);
        double each = sum(0).allocated - (double)COUNT * BYTES;
        off += each;
        squares += each * each;
    }
    off = off < 0 ? -off : off;
    assert_true(off / SEEDS < 3 * root(variance / SEEDS));
    assert_true(squares / SEEDS > 0.8 * variance && squares / SEEDS < 1.2 * variance);
}

/* The list of a class is used up again and again, so every way to refill it counts. */
static void test_estimates_of_churn(void **state)
{
    (void)state;
    enum { LIVE = 700, ROUNDS = 60000 };
    start(MEAN);
    double total = 0;
    uint32_t chance = 7;
    for (int i = 0; i < ROUNDS; i++) {
        chance = chance * 1664525 + 1013904223;
        int k = (int)(chance >> 8) % LIVE;
        glebe_free(blocks[k]);
        blocks[k] = glebe_malloc((chance >> 20) % 1500);
        total += usable(blocks[k]);
        if (i % 7000 == 0)
            fixture_check();
    }
    double live = 0;
    for (int i = 0; i < LIVE; i++)
        live += blocks[i] ? usable(blocks[i]) : 0;
    near(sum(0).allocated, total / 1000, 1000, MEAN);
    near(sum(0).live, live / 1000, 1000, MEAN);
    for (int i = 0; i < LIVE; i++)
        glebe_free(blocks[i]);
    assert_int_equal((long long)sum(0).live, 0);
}

static void test_large_and_huge(void **state)
{
    (void)state;
    static const size_t sizes[] = {70 * KIB, 300 * KIB, 1 << 20, 3 << 20};
    start(512 * KIB);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        enum { EACH = 300 };
        double before = sum(0).allocated;
        for (int i = 0; i < EACH; i++) {
            void *block = i % 3 ? glebe_malloc(sizes[s]) : glebe_calloc(1, sizes[s]);
            assert_non_null(block);
            if (i % 3 == 0)
                assert_int_equal(((char *)block)[sizes[s] - 1], 0);
            ((char *)block)[sizes[s] - 1] = 'x';
            glebe_free(block);
        }
        near(sum(0).allocated - before, EACH, (double)sizes[s], 512 * KIB);
        assert_int_equal((long long)sum(0).live, 0);
    }
    fixture_check();
}

static void test_resized(void **state)
{
    (void)state;
    start(64 * KIB);
    callers(there);
    char *block = glebe_malloc(8 << 20); /* sampled for sure */
    assert_true(sum(0x3001).live == 8 << 20);
    block = glebe_realloc(block, 6 << 20);
    assert_true(sum(0).live == 6 << 20);
    block = glebe_realloc(block, 20 << 20);
    assert_true(sum(0).live == 20 << 20);
    block = glebe_realloc(block, 300);
    assert_true(sum(0).live < 1 << 20);
    glebe_free(block);
    assert_int_equal((long long)sum(0).live, 0);
    double grown = 0;
    for (int i = 0; i < 100; i++) { /* from a block that is none, in steps that are some */
        blocks[i] = NULL;
        for (size_t bytes = 40 * KIB; bytes <= 600 * KIB; bytes += 40 * KIB)
            assert_non_null(blocks[i] = glebe_realloc(blocks[i], bytes));
        grown += 600 * KIB;
    }
    near(sum(0).live, 100, 600 * KIB, 64 * KIB);
    assert_true(sum(0).live > grown * 0.9);
    fixture_check();
    for (int i = 0; i < 100; i++)
        glebe_free(blocks[i]);
    assert_int_equal((long long)sum(0).live, 0);
}

static void test_aligned(void **state)
{
    (void)state;
    start(MEAN);
    for (size_t alignment = 32; alignment <= 64 * KIB; alignment *= 2) {
        double before = sum(0).allocated, exact = 0;
        for (int i = 0; i < 200; i++) {
            blocks[i] = glebe_aligned_alloc(alignment, 3000);
            assert_int_equal((uintptr_t)blocks[i] % alignment, 0);
            exact += usable(blocks[i]);
        }
        near(sum(0).allocated - before, 200, exact / 200, MEAN);
        for (int i = 0; i < 200; i++)
            glebe_free(blocks[i]);
        assert_int_equal((long long)sum(0).live, 0);
    }
    fixture_check();
}

/* Sampled blocks are freed by other threads, by threads without a heap, and after their thread has ended. */
static void test_threads(void **state)
{
    (void)state;
    start(MEAN);
    for (int thread = 1; thread <= 12; thread++) {
        fixture_thread(thread);
        for (int i = 0; i < 2000; i++)
            blocks[(thread - 1) * 2000 + i] = glebe_malloc(200);
    }
    near(sum(0).live, 12 * 2000, usable(blocks[0]), MEAN);
    fixture_check();
    for (int thread = 1; thread <= 6; thread++)
        fixture_thread_end(thread);
    for (int i = 0; i < 12 * 2000; i++) {
        fixture_thread(i % 15);
        glebe_free(blocks[i]);
    }
    assert_int_equal((long long)sum(0).live, 0);
    fixture_check();
    double before = sum(0).allocated, exact = 0;
    for (int i = 0; i < 20000; i++) { /* reclaimed heaps are sampled too, and those with mixed pages */
        fixture_thread(i / 1000 % 14);
        blocks[i] = glebe_malloc((size_t)(i * 37 % 900));
        exact += usable(blocks[i]);
    }
    near(sum(0).allocated - before, 20000, exact / 20000, MEAN);
    for (int i = 0; i < 20000; i++) {
        fixture_thread(i / 1000 % 14);
        glebe_free(blocks[i]);
    }
    assert_int_equal((long long)sum(0).live, 0);
    fixture_check();
}

static void test_peak(void **state)
{
    (void)state;
    start(1);
    callers(here);
    for (int i = 0; i < 10; i++)
        blocks[i] = glebe_malloc(100 * KIB);
    callers(there);
    void *other = glebe_malloc(1 << 20);
    for (int i = 0; i < 10; i++)
        glebe_free(blocks[i]);
    glebe_free(glebe_malloc(100 * KIB));
    assert_true(sum(0x2001).peak == 10 * 100 * KIB);
    assert_true(sum(0x3001).peak == 1 << 20);
    assert_int_equal(gb_the.sampler.peak_bytes, 10 * 100 * KIB + (1 << 20));
    glebe_free(other);
    assert_true(sum(0x3001).peak == 1 << 20);
    assert_int_equal((long long)sum(0).live, 0);
}

/* Each seed replaces blocks at random for a while, and as much is live all the time. So the mean of the peaks is what
 * is live: a peak that the estimates chose would be two standard errors above it. */
static void test_peak_of_churn_has_no_bias(void **state)
{
    (void)state;
    enum { BYTES = 512, LIVE = 4000, ROUNDS = 40000, SEEDS = 40, SPARSE = 32 * KIB };
    double off = 0, exact = (double)LIVE * BYTES;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint32_t chance = (uint32_t)seed;
        fixture_start(seed * 7919);
        start(SPARSE);
        for (int i = 0; i < LIVE; i++)
            blocks[i] = glebe_malloc(BYTES);
        for (int i = 0; i < ROUNDS; i++) {
            chance = chance * 1664525 + 1013904223;
            int k = (int)((chance >> 8) % LIVE);
            glebe_free(blocks[k]);
            blocks[k] = glebe_malloc(BYTES);
        }
        off += sum(0).peak - exact;
    }
    off = off < 0 ? -off : off;
    if (off / SEEDS > 3 * root(exact * SPARSE / SEEDS))
        fail_msg("the mean of peaks is %.0f off, of %.0f", off / SEEDS, exact);
}

/* Nothing is sampled before the start and after the stop, and what began before is freed as ever. */
static void test_start_and_stop(void **state)
{
    (void)state;
    assert_int_equal(glebe_profile_write("/fake/profile"), ENOENT);
    for (int i = 0; i < 3000; i++)
        blocks[i] = glebe_malloc((size_t)i);
    start(MEAN);
    assert_int_equal(glebe_profile_start(MEAN), EBUSY);
    for (int i = 3000; i < 6000; i++)
        blocks[i] = glebe_malloc((size_t)i);
    glebe_profile_stop();
    double seen = sum(0).allocated;
    assert_true(seen > 0);
    for (int i = 6000; i < 9000; i++)
        blocks[i] = glebe_malloc((size_t)i);
    assert_true(sum(0).allocated == seen);
    for (int i = 0; i < 9000; i++)
        glebe_free(blocks[i]);
    assert_int_equal((long long)sum(0).live, 0);
    assert_int_equal(glebe_profile_start(MEAN), 0);
    for (int i = 0; i < 3000; i++)
        blocks[i] = glebe_malloc(1000);
    assert_true(sum(0).allocated > seen);
    fixture_check();
}

/* The program's own heaps have their own blocks, and can be destroyed. */
static void test_heaps_are_not_sampled(void **state)
{
    (void)state;
    start(1);
    glebe_heap *heap = glebe_heap_create(0);
    for (int i = 0; i < 1000; i++)
        assert_non_null(glebe_heap_malloc(heap, (size_t)i * 100));
    assert_int_equal((long long)sum(0).allocated, 0);
    glebe_heap_destroy(heap);
    fixture_check();
}

static void test_without_memory(void **state)
{
    (void)state;
    start(1);
    blocks[0] = glebe_malloc(100);
    fake.memory_bytes = fake.committed_bytes;
    int served = 1;
    while (served < MOST && (blocks[served] = glebe_malloc(60 * KIB)) != NULL)
        served++;
    assert_true(served < MOST);
    fixture_check();
    for (int i = 0; i < served; i++)
        glebe_free(blocks[i]);
    assert_int_equal((long long)sum(0).live, 0);
    assert_int_equal(fake.sampled, 0); /* a probe of a free for each of an allocation */
    fixture_check();
}

/* A tracer sees each sample, and its weight. */
static void test_probes(void **state)
{
    (void)state;
    start(1);
    blocks[0] = glebe_malloc(100 * KIB);
    assert_int_equal(fake.sampled, 1);
    assert_int_equal(fake.sampled_bytes, fake.sampled_weight); /* of a block that is far larger than the mean */
    assert_true(fake.sampled_bytes >= 100 * KIB);
    blocks[0] = glebe_realloc(blocks[0], 3000 * KIB);
    assert_int_equal(fake.sampled, 1);
    glebe_free(blocks[0]);
    assert_int_equal(fake.sampled, 0);
}

static void test_text(void **state)
{
    (void)state;
    static char text[1 << 16];
    start(1);
    callers(there);
    blocks[0] = glebe_malloc(1 << 20);
    fake.profile = text;
    fake.profile_room = sizeof text;
    fake.program = "pro gram";
    assert_int_equal(glebe_profile_write("/fake/profile"), 0);
    assert_int_equal(fake.profiles, 1);
    assert_memory_equal(text, "glebe-profile 1\nprocess ", 24);
    assert_non_null(strstr(text, " pro gram\n"));
    assert_non_null(strstr(text, "\nmodule 1000 9000 800 ab0c /fake/program\n"));
    assert_non_null(strstr(text, "\nmodule a000 b000 0 - /fake/lib rary\n"));
    assert_non_null(strstr(text, "\nmean 1\nsamples 1 lost 0\npeak 1048576\n"));
    assert_non_null(strstr(text, "\nsite 65536 1048576 65536 1048576 65536 1048576 3001 2002 2003\nend\n"));
    fake.profile_error = ENOSPC;
    assert_int_equal(glebe_profile_write("/fake/profile"), ENOSPC);
    assert_int_equal(glebe_profile_write(""), EINVAL);
}

static void test_lifetimes(void **state)
{
    (void)state;
    static char text[1 << 16];
    start(1);
    for (int i = 0; i < 4; i++)
        blocks[i] = glebe_malloc((i == 1 ? 3 : 1) << 20);
    blocks[4] = glebe_malloc(100);
    glebe_free(blocks[0]); /* in no time */
    fake.now_ms += 1;
    blocks[1] = glebe_realloc(blocks[1], 2 << 20); /* where it is: it lives on */
    fake.now_ms += 1;
    glebe_free(blocks[1]);
    fake.now_ms += 1000000; /* 1000 s */
    glebe_free(blocks[2]);
    const gb_lifetimes *freed = &gb_site_at(1)->freed;
    assert_int_equal(freed->bytes[0], 1 << 20); /* below 10 us */
    assert_int_equal(freed->bytes[5], 2 << 20); /* from 1 to 3 ms */
    assert_int_equal(freed->bytes[GB_LIFETIMES - 1], 1 << 20);
    fake.profile = text;
    fake.profile_room = sizeof text;
    assert_int_equal(glebe_profile_write("/fake/profile"), 0);
    assert_non_null(strstr(text, "\nlived 1048576 0 0 0 0 2097152 0 0 0 0 0 0 0 0 0 0 0 1048576\nsite "));
    glebe_free(blocks[3]);
    glebe_free(blocks[4]);
    assert_int_equal(gb_site_at(1)->live.bytes, 0);
    uint64_t lived = 0;
    for (int i = 0; i < GB_LIFETIMES; i++)
        lived += freed->bytes[i];
    assert_int_equal(lived, gb_site_at(1)->allocated.bytes);
}

/* A profile that another process asks for has nothing of the one before, but a profile of the process's own stays. */
static void test_asked_again(void **state)
{
    (void)state;
    callers(here);
    assert_int_equal(gb_sampler_start(1, true), 0);
    blocks[0] = glebe_malloc(3 << 20);
    blocks[1] = glebe_malloc(100);
    gb_sampler_stop();
    assert_int_equal(gb_sampler_start(1, true), 0);
    callers(there);
    blocks[2] = glebe_malloc(1 << 20);
    assert_true(sum(here[0]).live == 0 && sum(here[0]).peak == 0);
    assert_true(sum(there[0]).live == 1 << 20 && sum(there[0]).peak == 1 << 20);
    assert_int_equal(gb_the.sampler.peak_bytes, 1 << 20);
    glebe_free(blocks[0]);
    blocks[1] = glebe_realloc(blocks[1], 5000);
    glebe_free(blocks[1]);
    for (int i = 0; i < GB_LIFETIMES; i++)
        assert_int_equal(gb_site_at(1)->freed.bytes[i], 0);
    glebe_free(blocks[2]);
    assert_true(sum(0).live == 0);
    gb_sampler_stop();

    start(1);
    blocks[0] = glebe_malloc(3 << 20);
    glebe_profile_stop();
    assert_int_equal(gb_sampler_start(1, true), 0);
    assert_true(sum(here[0]).live == 3 << 20);
    glebe_free(blocks[0]);
    assert_int_equal(gb_site_at(1)->freed.bytes[0], 3 << 20);
    fixture_check();
}

static void test_labels(void **state)
{
    (void)state;
    static char text[1 << 16], key[] = "0", longest[256];
    assert_int_equal(glebe_profile_label("tenant", NULL), 0);
    assert_int_equal(glebe_profile_label("tenant", "early bird"), 0);
    assert_int_equal(glebe_profile_write("/fake/profile"), ENOENT); /* labels are no profile */
    start(1);
    blocks[0] = glebe_malloc(1 << 20);
    assert_int_equal(glebe_profile_label("route", "/x"), 0);
    blocks[1] = glebe_malloc(1 << 20);
    assert_int_equal(glebe_profile_label("tenant", "other"), 0);
    blocks[2] = glebe_malloc(2 << 20);
    assert_int_equal(glebe_profile_label("tenant", "early bird"), 0);
    blocks[3] = glebe_malloc(1 << 20); /* as blocks[1] */
    assert_int_equal(glebe_profile_label("tenant", NULL), 0);
    assert_int_equal(glebe_profile_label("route", NULL), 0);
    blocks[4] = glebe_malloc(1 << 20);
    fake.profile = text;
    fake.profile_room = sizeof text;
    assert_int_equal(glebe_profile_write("/fake/profile"), 0);
    assert_non_null(strstr(text, "\nlabel 1 tenant early bird\nlabel 2 route /x\nlabel 3 tenant other\n"));
    assert_non_null(strstr(text, "\nlabels 1\nsite 65536 1048576 "));
    assert_non_null(strstr(text, "\nlabels 2 1\nsite 131072 2097152 "));
    assert_non_null(strstr(text, "\nlabels 2 3\nsite 65536 2097152 "));
    assert_non_null(strstr(text, "2003\nsite 65536 1048576 65536 1048576 65536 1048576 2001 2002 2003\nend\n"));
    for (key[0] = 'a'; key[0] < 'a' + GB_LABELS_MOST; key[0]++)
        assert_int_equal(glebe_profile_label(key, "v"), 0);
    assert_int_equal(glebe_profile_label(key, "v"), E2BIG);
    assert_int_equal(glebe_profile_label("a", "w"), 0);
    memset(longest, 'x', sizeof longest - 1);
    const char *wrong[] = {NULL, "", "two words", "\n", longest};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(glebe_profile_label(wrong[i], "v"), EINVAL);
    assert_int_equal(glebe_profile_label("k", ""), EINVAL);
    assert_int_equal(glebe_profile_label("k", "a\tb"), EINVAL);
    assert_int_equal(glebe_profile_label("k", longest), EINVAL);
    for (key[0] = 'a'; key[0] < 'a' + GB_LABELS_MOST; key[0]++)
        assert_int_equal(glebe_profile_label(key, NULL), 0);
    assert_int_equal(glebe_profile_label("k", "v"), 0);
    int error = 0;
    for (int i = 0; error == 0 && i < 1 << 17; i++) {
        snprintf(longest, sizeof longest, "%d", i);
        error = glebe_profile_label("k", longest);
    }
    assert_int_equal(error, ENOMEM);
    assert_int_equal(*gb_sample_labels(), 0); /* none, rather than the last one that there was room for */
    for (int i = 0; i < 5; i++)
        glebe_free(blocks[i]);
}

/* However many sets of labels there are, one is found by few looks. */
static void test_many_labels(void **state)
{
    (void)state;
    enum { VALUES = 320, LONGEST = 20 };
    char value[16];
    const gb_sampler *sampler = &gb_the.sampler;
    assert_int_equal(glebe_profile_label("inner", "x"), 0);
    for (int i = 0; i < VALUES * VALUES; i++) {
        snprintf(value, sizeof value, "%d", i % VALUES);
        assert_int_equal(glebe_profile_label("route", value), 0);
        if (i % VALUES == 0) {
            snprintf(value, sizeof value, "%d", i / VALUES);
            assert_int_equal(glebe_profile_label("inner", value), 0);
        }
    }
    uint32_t count = sampler->frames.count, frame = *gb_sample_labels(), found = 0;
    assert_true(count > VALUES * VALUES);
    for (uint32_t i = 0; i < 1u << sampler->frames_log2; i++) {
        uint32_t length = 0;
        for (uint32_t number = sampler->frame_heads[i]; number; number = gb_frame_at(number)->next)
            length++;
        assert_true(length <= LONGEST);
        found += length;
    }
    assert_int_equal(found, count - 1);
    assert_int_equal(glebe_profile_label("route", value), 0);
    snprintf(value, sizeof value, "%d", VALUES - 1);
    assert_int_equal(glebe_profile_label("route", value), 0);
    assert_int_equal(*gb_sample_labels(), frame);
    assert_int_equal(sampler->frames.count, count); /* both sets were there */
}

#else

static void test_no_profiles(void **state)
{
    (void)state;
    assert_int_equal(glebe_profile_start(0), ENOSYS);
    assert_int_equal(glebe_profile_write("x"), ENOSYS);
    assert_int_equal(glebe_profile_label("k", "v"), ENOSYS);
    glebe_profile_stop();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if GB_SAMPLES
        cmocka_unit_test_setup(test_estimates_by_class, setup),
        cmocka_unit_test_setup(test_no_bias, setup),
        cmocka_unit_test_setup(test_estimates_of_churn, setup),
        cmocka_unit_test_setup(test_large_and_huge, setup),
        cmocka_unit_test_setup(test_resized, setup),
        cmocka_unit_test_setup(test_aligned, setup),
        cmocka_unit_test_setup(test_threads, setup),
        cmocka_unit_test_setup(test_peak, setup),
        cmocka_unit_test_setup(test_peak_of_churn_has_no_bias, setup),
        cmocka_unit_test_setup(test_start_and_stop, setup),
        cmocka_unit_test_setup(test_heaps_are_not_sampled, setup),
        cmocka_unit_test_setup(test_without_memory, setup),
        cmocka_unit_test_setup(test_probes, setup),
        cmocka_unit_test_setup(test_text, setup),
        cmocka_unit_test_setup(test_lifetimes, setup),
        cmocka_unit_test_setup(test_asked_again, setup),
        cmocka_unit_test_setup(test_labels, setup),
        cmocka_unit_test_setup(test_many_labels, setup),
#else
        cmocka_unit_test(test_no_profiles),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
