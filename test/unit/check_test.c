/* Positive controls of glebe_check. Each kind of damage is planted in a sound heap. The check must report exactly the
 * invariant that it breaks (src/debug/check.c numbers them), and nothing once the damage is undone. */
#include "fixture.h"

typedef struct found {
    int count;
    uint32_t invariants; /* bits */
} found;

static void find(void *context, int invariant, const void *address, const char *what)
{
    (void)address;
    assert_non_null(what);
    found *f = context;
    f->count++;
    f->invariants |= 1u << invariant;
}

/* A small heap in which every state occurs. */
static struct {
    void *small[1500], *sized[39], *medium[40], *large, *huge;
    glebe_heap *heap;
} world;

static int world_setup(void **state)
{
    fixture_setup(state);
    for (int i = 0; i < 1500; i++)
        world.small[i] = glebe_malloc(100);
    for (int i = 0; i < 1500; i += 3) {
        glebe_free(world.small[i]);
        world.small[i] = NULL;
    }
    for (int i = 0; i < 39; i++)
        world.sized[i] = glebe_malloc(1000);
    for (int i = 0; i < 40; i++)
        world.medium[i] = glebe_malloc(5000);
    for (int i = 0; i < 40; i += 2)
        glebe_free(world.medium[i]);
    world.large = glebe_malloc(200000);
    world.huge = glebe_malloc(3000000);
    world.heap = glebe_heap_create(0);
    for (int i = 0; i < 20; i++)
        assert_non_null(glebe_heap_malloc(world.heap, 64));
    fixture_thread(1); /* frees of another thread, which wait in an inbox */
    assert_non_null(glebe_malloc(1));
    for (int i = 1; i < 300; i += 3)
        glebe_free(world.small[i]);
    gb_remote_flush(gb_self);
    fixture_thread(0);
    fixture_check();
    return 0;
}

/* The heap is damaged: the check reports `invariant`, and if `alone` no other. */
static void expect(int invariant)
{
    found f = {0, 0};
    int broken = glebe_check(NULL, 2, find, &f);
    assert_int_equal(broken, f.count);
    if ((f.invariants >> invariant & 1) == 0)
        fail_msg("invariant %d is broken, and the check found %x", invariant, f.invariants);
    assert_int_equal(glebe_check(NULL, 2, NULL, NULL), broken);
}

/* The damage is undone: the check reports nothing. */
static void well(void)
{
    fixture_check();
}

static gb_page *page_of(const void *block)
{
    return gb_page_head(gb_page_entry(block));
}

#define DAMAGE(invariant, lvalue, value) \
    do { \
        __typeof__(lvalue) before = lvalue; \
        lvalue = (__typeof__(before))(value); \
        assert_true(memcmp(&lvalue, &before, sizeof before) != 0); \
        expect(invariant); \
        lvalue = before; \
        well(); \
    } while (0)

static void test_1_slices(void **state)
{
    (void)state;
    gb_page *large = gb_large_at(world.large), *small = page_of(world.small[1]), *medium = page_of(world.medium[39]);
    gb_page *inside = gb_page_entry(world.large);
    gb_chunk *chunk = gb_chunk_of(gb_large_slice(large));
    DAMAGE(1, medium[1].back_bytes, 0);
    DAMAGE(1, medium[2].back_bytes, 64);
    DAMAGE(1, medium[1].kind, GB_SMALL);
    DAMAGE(1, inside[0].kind, GB_LARGE);
    DAMAGE(1, inside[1].kind, GB_MEDIUM);
    DAMAGE(1, inside[2].back_bytes, 64);
    DAMAGE(1, large->kind, GB_FREE);
    DAMAGE(1, large->cls, (large->cls + 1) % GB_LARGE_LEAST);
    DAMAGE(1, large[1].kind, GB_LARGE);
    DAMAGE(1, large->slices, 200);
    DAMAGE(1, large->slices, 0);
    DAMAGE(1, large->slices, large->slices - 1);
    DAMAGE(1, chunk->free_slices, chunk->free_slices + 1);
    DAMAGE(1, chunk->rows[GB_ROW_FREE].slices, chunk->rows[GB_ROW_FREE].slices - 1);
    DAMAGE(1, chunk->rows[GB_ROW_DIRTY].slices, chunk->rows[GB_ROW_DIRTY].slices + 1);
    uint32_t bit = gb_large_slice(large) % GB_CHUNK_SLICES;
    uint64_t *word = bit < 64 ? &chunk->free.low : &chunk->free.high;
    DAMAGE(1, *word, *word | (uint64_t)1 << bit % 64);
    uintptr_t owner = gb_load(&small->owner);
    gb_store(&small->owner, 0);
    expect(1);
    gb_store(&small->owner, owner);
    well();
    uint32_t last = 0;
    for (uint32_t i = 0; i < GB_CHUNK_SLICES; i++)
        last = gb_set_has(chunk->free, i) ? i : last;
    gb_page *free = gb_entry_at(gb_large_slice(large) - bit + last);
    gb_store(&free->owner, owner);
    expect(1);
    gb_store(&free->owner, 0);
    well();
}

static void test_2_counts(void **state)
{
    (void)state;
    gb_page *small = page_of(world.small[1498]), *medium = page_of(world.medium[1]);
    DAMAGE(2, small->left, small->left + 1);
    DAMAGE(2, small->left, -1);
    DAMAGE(2, small->cap, small->cap - 1);
    DAMAGE(2, small->bump, small->cap + 1);
    DAMAGE(2, small->punched, 1);
    DAMAGE(2, medium->out, medium->out + 1);
    gb_page *mixed = gb_page_at(world.heap->mixed);
    uint8_t *map = (uint8_t *)gb_page_start(mixed);
    DAMAGE(2, mixed->left, mixed->left + 1);
    DAMAGE(2, mixed->bump, mixed->cap + 1);
    DAMAGE(2, map[1], 255);
    DAMAGE(2, map[mixed->bump - 1], 0);
    uint32_t bits = gb_load(&medium->bits);
    gb_store(&medium->bits, bits & (bits - 1)); /* lose a free block */
    expect(2);
    gb_store(&medium->bits, bits | (uint32_t)1 << medium->cap);
    expect(2);
    gb_store(&medium->bits, bits);
    well();
}

static gb_page *page_with_free_blocks(void)
{
    for (int i = 1; i < 1500; i++)
        if (world.small[i] && gb_page_list(page_of(world.small[i])) && gb_link_get(page_of(world.small[i])->free))
            return page_of(world.small[i]);
    fail();
    return NULL;
}

static void test_3_links(void **state)
{
    (void)state;
    gb_page *page = page_with_free_blocks();
    gb_block *first = page->free, *second = gb_link_get(first);
    page->free = (gb_block *)((uintptr_t)first + 16); /* the middle of a block */
    expect(3);
    page->free = (gb_block *)world.sized[0]; /* another page */
    expect(3);
    page->free = first;
    well();
    gb_link_set(first, first); /* a circle */
    expect(3);
    gb_link_set(first, (gb_block *)world.large);
    expect(3);
    gb_link_set(first, second);
    well();
    uint32_t cls = gb_class_of(1000);
    gb_block *front = gb_self->front[cls];
    assert_non_null(front);
    gb_self->front[cls] = (gb_block *)((uintptr_t)front + 16);
    expect(3);
    gb_self->front[cls] = world.large;
    expect(3);
    gb_self->front[cls] = (gb_block *)&world;
    expect(3);
    gb_self->front[cls] = front;
    well();
    uintptr_t cell = gb_page_start(gb_page_at(world.heap->mixed)) + 64; /* of 64 bytes */
    DAMAGE(3, world.heap->front[gb_class_of(64)], cell + 32);
    DAMAGE(3, world.heap->front[gb_class_of(80)], cell);
}

static void test_4_lists(void **state)
{
    (void)state;
    gb_page *small = page_of(world.small[1]), *large = gb_large_at(world.large);
    assert_int_equal(small->state, GB_AVAIL);
    gb_list *avail = &gb_self->avail[small->cls];
    DAMAGE(4, small->state, GB_FULL);
    DAMAGE(4, large->state, GB_SPARE);
    DAMAGE(4, gb_page_at(world.heap->mixed)->state, GB_SPARE);
    DAMAGE(4, avail->last.n, 0);
    assert_true(avail->first.n != avail->last.n);
    gb_page *second = gb_list_next(gb_list_first(avail));
    DAMAGE(4, second->prev.n, gb_page_id_of(large).n);
    uint32_t cls = small->cls;
    gb_list list = gb_self->avail[cls];
    gb_self->avail[cls + 1] = list; /* on another class's list */
    gb_self->avail[cls] = (gb_list){0};
    expect(4);
    gb_self->avail[cls] = list;
    gb_self->avail[cls + 1] = (gb_list){0};
    well();
    DAMAGE(4, gb_self->current[0].n, gb_page_id_of(small).n);
    gb_extent *extent = gb_huge_find(world.huge);
    DAMAGE(4, extent->heap.n, 2);
    uint32_t number = gb_load(&small->heap);
    gb_store(&small->heap, world.heap->number.n);
    expect(4);
    gb_store(&small->heap, number);
    well();
    DAMAGE(4, gb_page_at(avail->last)->next.n, avail->first.n); /* a list without end */
}

static void test_5_inbox(void **state)
{
    (void)state;
    gb_page_id id = {gb_load(&gb_self->inbox)};
    assert_true(id.n != 0);
    gb_page *page = gb_page_at(id);
    uint64_t xfree = gb_load(&page->xfree);
    gb_store(&page->xfree, xfree & ~GB_XFREE_QUEUED);
    expect(5);
    gb_store(&page->xfree, xfree + ((uint64_t)1 << GB_XFREE_COUNT_SHIFT));
    expect(5);
    gb_store(&page->xfree, xfree ^ (uint64_t)gb_classes[page->cls].bytes << GB_XFREE_LAST_SHIFT);
    expect(5);
    gb_store(&page->xfree, xfree);
    well();
    gb_store(&gb_self->inbox, gb_page_id_of(page_of(world.sized[0])).n);
    expect(5);
    gb_store(&gb_self->inbox, id.n);
    well();
    DAMAGE(5, page->inbox_next.n, id.n); /* an inbox without end */
    gb_store(&world.heap->inbox, id.n); /* another's inbox */
    expect(5);
    gb_store(&world.heap->inbox, 0);
    well();
}

static void test_6_zero(void **state)
{
    (void)state;
    gb_chunk *chunk = gb_chunk_at(0);
    uint32_t clean = 0;
    for (uint32_t i = 0; i < GB_CHUNK_SLICES; i++)
        if (gb_set_has(chunk->free, i) && !gb_set_has(chunk->dirty, i))
            clean = i;
    assert_true(clean != 0);
    unsigned char *memory = (unsigned char *)gb_slice_start(clean);
    DAMAGE(6, memory[GB_SLICE_BYTES - 1], 1);
    assert_int_equal(glebe_check(NULL, 1, NULL, NULL), 0);
    gb_page *medium = page_of(world.medium[39]);
    uint32_t bits = gb_load(&medium->bits), dirty = gb_load(&medium->dirty), idle = gb_load(&medium->idle);
    uint32_t fresh = bits & ~dirty;
    assert_true(fresh != 0);
    unsigned char *block = (unsigned char *)gb_page_start(medium) + gb_ctz32(fresh) * gb_classes[medium->cls].bytes;
    DAMAGE(6, block[100], 1);
    gb_store(&medium->idle, idle | fresh);
    expect(6);
    gb_store(&medium->idle, idle);
    well();
}

static void test_7_sums(void **state)
{
    (void)state;
    DAMAGE(7, glebe_live.stats.used_bytes, 1);
    DAMAGE(7, glebe_live.stats.medium_bytes, 1);
    DAMAGE(7, gb_self->avail_bytes, 1);
    DAMAGE(7, world.heap->mixed.n, 0);
    DAMAGE(7, gb_self->spare_bytes, 1);
    size_t bytes = gb_load(&gb_self->bytes);
    gb_store(&gb_self->bytes, bytes + GB_SLICE_BYTES);
    expect(7);
    gb_store(&gb_self->bytes, bytes);
    well();
}

static void test_9_heaps(void **state)
{
    (void)state;
    gb_page *large = gb_large_at(world.large);
    uint32_t number = gb_load(&large->heap);
    gb_store(&large->heap, 0);
    expect(9);
    gb_store(&large->heap, gb_the.records.made + 1);
    expect(9);
    gb_store(&large->heap, number);
    well();
    DAMAGE(9, world.heap->kind, GB_HEAP_UNUSED);
}

static void test_one_heap_alone(void **state)
{
    (void)state;
    DAMAGE(7, gb_self->spare_bytes, 1);
    gb_self->spare_bytes++;
    assert_int_equal(glebe_check(world.heap, 2, NULL, NULL), 0);
    assert_int_equal(glebe_check(gb_self, 1, NULL, NULL), 1);
    gb_self->spare_bytes--;
    assert_int_equal(glebe_check(gb_self, 2, NULL, NULL), 0);
}

/* A thread free list that a whole page filled is long and sound, also after many sized frees. */
static void test_a_long_front(void **state)
{
    (void)state;
    enum { N = 20000, SIZED = 4000 };
    static void *blocks[N];
    for (int i = 0; i < N; i++)
        blocks[i] = glebe_malloc(16);
    const gb_page *page = gb_page_head(gb_page_entry(blocks[N / 2])), *last;
    assert_int_equal(page->cap, GB_BIG_PAGE_SLICES * GB_SLICE_BYTES / 16);
    for (int i = 0; i < N; i++)
        if (gb_page_head(gb_page_entry(blocks[i])) == page) {
            glebe_free(blocks[i]);
            blocks[i] = NULL;
        }
    glebe_heap_free_sized(NULL, glebe_malloc(16), 16);
    do
        last = gb_page_head(gb_page_entry(glebe_malloc(16)));
    while (last != page);
    for (int i = 0, sized = 0; sized < SIZED; i++)
        if (blocks[i]) {
            glebe_heap_free_sized(NULL, blocks[i], 16);
            sized++;
        }
    fixture_check();
}

static void test_nothing_before_the_first_malloc(void **state)
{
    (void)state;
    assert_int_equal(glebe_check(NULL, 2, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_1_slices, world_setup),
        cmocka_unit_test_setup(test_2_counts, world_setup),
        cmocka_unit_test_setup(test_3_links, world_setup),
        cmocka_unit_test_setup(test_4_lists, world_setup),
        cmocka_unit_test_setup(test_5_inbox, world_setup),
        cmocka_unit_test_setup(test_6_zero, world_setup),
        cmocka_unit_test_setup(test_7_sums, world_setup),
        cmocka_unit_test_setup(test_9_heaps, world_setup),
        cmocka_unit_test_setup(test_one_heap_alone, world_setup),
        FIXTURE_TEST(test_a_long_front),
        FIXTURE_TEST(test_nothing_before_the_first_malloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
