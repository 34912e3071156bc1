/* A pool against a model of it: a list of the objects in use, each filled with a pattern of its own. Random steps take,
 * free, reset and look up; the pool is checked after each.
 *
 *     seed % 4   0 plain                                                 1 little address space, none of it reserved
 *                2 the heap has a limit that requests reach              3 the host sometimes fails
 *
 *     GLEBE_TEST_SEEDS=n   how many seeds (default 24)        GLEBE_TEST_SEED=n   the first of them (default 1)
 *     GLEBE_TEST_STEPS=n   steps of each (default 400) */
#define MODEL_REPEAT "test/model/pool"
#include "model.h"

enum { OBJECTS = 6000 };

typedef struct model_object {
    void *at;
    size_t units;
    uint64_t tag;
    uint32_t index;
} model_object;

static model_object objects[OBJECTS];
static size_t object_count, unit, most, limit;
static glebe_pool *pool;
static uint64_t tags;

static size_t used_units(void)
{
    size_t units = 0;
    for (size_t i = 0; i < object_count; i++)
        units += objects[i].units;
    return units;
}

/* Whether the pool has an object of `units`: a free one, a part of a longer one, or one that was never used. */
static bool available(size_t units)
{
    const gb_pool *whole = (const gb_pool *)((uintptr_t)pool - offsetof(gb_pool, open));
    size_t bytes = units * unit, carved = 0, held = 0;
    for (size_t longer = units; longer <= most; longer++)
        if (whole->lists[longer])
            return true;
    for (const gb_segment *segment = whole->segments; segment; segment = gb_pool_next(whole, segment)) {
        carved += gb_pool_carved(whole, segment) - segment->start;
        held += segment->end - segment->start;
    }
    return held - carved >= bytes || limit >= (GB_POOL_SEGMENTS ? held : carved) + bytes;
}

static void model_take(void)
{
    size_t units = one_in(3) ? 1 + below(most) : 1 + below(most < 3 ? most : 3);
    errno = 0;
    void *at = glebe_pool_alloc(pool, units);
    if (!at) {
        REQUIRE(errno == ENOMEM);
        REQUIRE(seed % 4 >= 2 || !available(units));
        return;
    }
    size_t bytes = units * unit;
    for (size_t i = 0; i < object_count; i++)
        REQUIRE((uintptr_t)at >= (uintptr_t)objects[i].at + objects[i].units * unit
            || (uintptr_t)at + bytes <= (uintptr_t)objects[i].at);
    model_object *object = &objects[object_count++];
    *object = (model_object){at, units, ++tags, glebe_pool_index(pool, at)};
    REQUIRE(object->index != 0 && (GB_POOL_SEGMENTS || object->index + units - 1 <= limit / unit));
    fixture_fill(at, bytes, object->tag);
}

static void model_drop(size_t i)
{
    REQUIRE(glebe_pool_at(pool, objects[i].index) == objects[i].at);
    REQUIRE(fixture_filled(objects[i].at, objects[i].units * unit, objects[i].tag));
    glebe_pool_free(pool, objects[i].at, objects[i].units);
    objects[i] = objects[--object_count];
}

static void model_run(void)
{
    fixture_start(seed);
    chance = seed * 1000003;
    object_count = 0;
    if (seed % 4 == 1)
        fake.address_bytes = (size_t)1 << 27;
    unit = sizeof(void *) * (1 + below(6));
    most = one_in(3) ? 1 : 1 + below(20);
    limit = unit * most + below((size_t)400 << 10);
    glebe_heap *heap = seed % 4 == 2 ? glebe_heap_create((size_t)200 << 10) : NULL;
    pool = glebe_pool_create(heap, unit, most, limit, one_in(2) ? 0 : below(20000));
    REQUIRE(pool || heap); /* the pool's first memory may exceed the heap's limit */
    for (step = 0; pool && step < steps_wanted; step++) {
        if (seed % 4 == 3 && one_in(8))
            gb_fake_fail(1u << GB_FAKE_COMMIT | 1u << GB_FAKE_GROW | 1u << GB_FAKE_PURGE, 1 + below(2), 1 + below(3));
        bool grows = one_in(2);
        for (size_t n = below(60); n > 0; n--)
            if (object_count < OBJECTS && (object_count == 0 || below(10) < (grows ? 8u : 2u)))
                model_take();
            else
                model_drop(below(object_count));
        if (one_in(60)) {
            glebe_pool_reset(pool, one_in(2));
            object_count = 0;
        }
        glebe_pool_stats s;
        glebe_pool_stats_read(pool, &s);
        REQUIRE(s.used_bytes == used_units() * unit && s.used_bytes + s.free_bytes <= s.held_bytes);
        REQUIRE(glebe_pool_check(pool, fixture_print, &(int){0}) == 0);
        fixture_check();
        REQUIRE(glebe_live.stats.errors == 0);
    }
    gb_fake_fail(0, 0, 0);
    while (object_count > 0)
        model_drop(object_count - 1);
    glebe_pool_destroy(pool);
    glebe_heap_destroy(heap);
    fixture_release();
}

int main(void)
{
    return model_main(model_run, 400);
}
