/* Shared by the models: the fixture, random numbers from a seed, failures that print how to repeat them, numbers from
 * the environment. MODEL_REPEAT is the model's program; `seed`, `chance` and `step` are its state. */
static void model_fail(const char *what);
#define FIXTURE_FAIL() model_fail("the heap is broken")
#include "../unit/fixture.h"

static uint64_t seed, chance;
static int step;
static long steps_wanted;

static void model_fail(const char *what)
{
    fprintf(stderr,
        "seed %llu, step %d: %s\n"
        "repeat: GLEBE_TEST_SEEDS=1 GLEBE_TEST_SEED=%llu GLEBE_TEST_STEPS=%ld GLEBE_TEST_TRACE=1 %s\n",
        (unsigned long long)seed, step, what, (unsigned long long)seed, steps_wanted, MODEL_REPEAT);
    abort();
}

#define REQUIRE(condition) \
    do \
        if (!(condition)) \
            model_fail(#condition); \
    while (0)

static uint64_t random_next(void)
{
    uint64_t z = chance += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t below(size_t n) { return (size_t)(random_next() % n); }
static bool one_in(size_t n) { return below(n) == 0; }

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

/* Runs the seeds that the environment selects, and prints them. */
__attribute__((unused)) static int model_main(void (*run)(void), long steps)
{
    uint64_t first = (uint64_t)number("GLEBE_TEST_SEED", 1), count = (uint64_t)number("GLEBE_TEST_SEEDS", 24);
    steps_wanted = number("GLEBE_TEST_STEPS", steps);
    for (seed = first; seed < first + count; seed++)
        run();
    printf("seeds %llu to %llu, %ld steps each\n", (unsigned long long)first, (unsigned long long)(first + count - 1),
        steps_wanted);
    return 0;
}
