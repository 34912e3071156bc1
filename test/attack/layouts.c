/* Attacks that know glebe's layout: free blocks of a page are linked through their first or second word, and nothing is
 * between blocks. OPEN: malloc handed out the target, the same block twice, or memory of a live block. */
#include "attack.h"

enum { BLOCKS = 256, LATER = 1024, TARGET = 512 };
static _Alignas(64) uintptr_t target[TARGET];
static char *blocks[BLOCKS]; /* the live ones */

static int by_address(const void *a, const void *b)
{
    uintptr_t p = *(const uintptr_t *)a, q = *(const uintptr_t *)b;
    return (p > q) - (p < q);
}

static void fill(size_t size)
{
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(size);
}

/* Allocates blocks. They and the live ones must be disjoint, and none may be the target. */
static void harvest(size_t size)
{
    static char *all[BLOCKS + LATER];
    int n = 0;
    for (; n < LATER; n++) {
        all[n] = malloc(size);
        HIDE(all[n]);
        if ((uintptr_t)all[n] >= (uintptr_t)target && (uintptr_t)all[n] < (uintptr_t)(target + TARGET))
            open_();
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i])
            all[n++] = blocks[i];
    qsort(all, (size_t)n, sizeof all[0], by_address);
    for (int i = 1; i < n; i++)
        if ((uintptr_t)all[i] - (uintptr_t)all[i - 1] < size)
            open_();
}

/* Frees block i, which is live no more. Returns its address. */
static char *drop_at(int i)
{
    char *block = blocks[i];
    blocks[i] = NULL;
    drop(block);
    HIDE(block);
    return block;
}

/* Writes both words where a link may be. */
static void forge(char *block)
{
    uintptr_t *words = wrong(block);
    words[0] = words[1] = (uintptr_t)target;
    HIDE(words);
}

/* Frees more blocks, so that their pages serve requests again. */
static void wake(void)
{
    for (int i = 1; i < BLOCKS; i += 4)
        (void)drop_at(i);
}

/* The link of a block that was just freed. */
static void link_last(size_t size)
{
    fill(size);
    wake();
    forge(drop_at(100));
    harvest(size);
}

/* The link of a block in the middle of a list. */
static void link_middle(size_t size)
{
    char *middle = NULL;
    fill(size);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 16) {
            char *block = drop_at(i);
            middle = i == 99 ? block : middle;
        }
    forge(middle);
    harvest(size);
}

/* `bytes` past the ends of live blocks, into free ones. */
static void spill(size_t size, size_t bytes, uintptr_t value)
{
    uintptr_t values[] = {value, value};
    static char *freed[BLOCKS];
    fill(size);
    for (int i = 1; i < BLOCKS; i += 2)
        freed[i] = drop_at(i);
    for (int i = 0; i < BLOCKS; i += 2) {
        char *end = blocks[i] + malloc_usable_size(blocks[i]);
        for (int j = 1; j < BLOCKS; j += 2)
            if (freed[j] == end) {
                memcpy(end, values, bytes);
                HIDE(end);
            }
    }
    harvest(size);
}

static void spill_8(size_t size) { spill(size, 8, (uintptr_t)target); }
static void spill_16(size_t size) { spill(size, 16, (uintptr_t)target); }
static void spill_9(size_t size) { spill(size, 9, 0x4141414141414141 & UINTPTR_MAX); }
static void spill_1(size_t size) { spill(size, 1, 8); }
static void spill_2(size_t size) { spill(size, 2, 0x1238); }

static void twice(size_t size)
{
    char *a = take(size);
    drop(a);
    drop(wrong(a));
    harvest(size);
}

static void twice_between(size_t size)
{
    char *a = take(size), *b = take(size);
    drop(a);
    drop(b);
    drop(wrong(a));
    harvest(size);
}

/* After so many other frees and requests that the first free is forgotten. */
static void twice_delayed(size_t size)
{
    char *freed[46];
    fill(size);
    for (int i = 0; i < 46; i++)
        freed[i] = drop_at(i);
    for (int i = 0; i < 8; i++)
        (void)take(size);
    drop(wrong(freed[40]));
    drop(wrong(freed[20]));
    drop(wrong(freed[40]));
    harvest(size);
}

/* The program wrote to the block in between, over what the allocator had left there. */
static void twice_written(size_t size)
{
    char *a = take(size), *b = take(size);
    drop(a);
    drop(b);
    HIDE(a);
    memset(a, 0, 16);
    drop(wrong(a));
    harvest(size);
}

/* Free a block, let its next owner have it, free it again: then the owner and a third share it. No allocator can know
 * whose free it was; the block is not free. */
static void twice_owned(size_t size)
{
    char *a = take(size);
    drop(a);
    char *owner = take(size), *third;
    drop(a);
    third = take(size);
    HIDE(owner);
    if (owner == third)
        open_();
}

static void inside(size_t size, size_t by)
{
    fill(size);
    wake();
    drop(wrong(blocks[100] + by));
    harvest(size);
}

static void inside_8(size_t size) { inside(size, 8); }
static void inside_16(size_t size) { inside(size, 16); }
static void inside_half(size_t size) { inside(size, size / 2 / 16 * 16); }

/* An address where a block may start, which malloc never handed out. */
static void never_taken(size_t size)
{
    char *block = take(size);
    size_t step = malloc_usable_size(block);
    char *beyond = block + step * 40;
    drop(wrong(beyond));
    harvest(size);
}

const attack attack_layouts[] = {{"link-last", link_last}, {"link-middle", link_middle}, {"spill-8", spill_8},
    {"spill-16", spill_16}, {"spill-9", spill_9}, {"spill-1", spill_1}, {"spill-2", spill_2}, {"a-a", twice},
    {"a-b-a", twice_between}, {"delayed", twice_delayed}, {"a-b-written-a", twice_written}, {"owned", twice_owned},
    {"inside-8", inside_8}, {"inside-16", inside_16}, {"inside-half", inside_half}, {"never-taken", never_taken},
    {NULL, NULL}};
