/* Mistakes that an attacker turns into more: writes past either end, frees of wrong addresses, frees that come twice,
 * writes after a free, and whether memory comes back at once or with its old bytes. The kinds are those of two public
 * suites: mimalloc-bench's security programs (37 kinds in three sizes, and five of C++), and the 30 programs of
 * hardened_malloc's tests that its allocator ends. Each is written anew here. */
#include "attack.h"

#define MB ((size_t)1 << 20)

/* The program in error goes on, and allocates: often the first request after the mistake meets it. The public programs
 * do so too, since their output needs a buffer. */
static void goes_on(void)
{
    (void)take(4096);
    open_();
}

/* ---- writes past the ends ---- */

static void flip(size_t size, ptrdiff_t at)
{
    char *block = take(size);
    block[at] ^= 'A'; /* a plain store could write what was there */
    drop(block);
    goes_on();
}

static void over_1(size_t size) { flip(size, (ptrdiff_t)size); }
static void over_32(size_t size) { flip(size, (ptrdiff_t)size + 31); }
static void over_mb(size_t size) { flip(size, (ptrdiff_t)(size + MB - 1)); }
static void under_1(size_t size) { flip(size, -1); }
static void under_32(size_t size) { flip(size, -32); }
static void under_mb(size_t size) { flip(size, -(ptrdiff_t)MB); }

/* Copies zeros to `at` bytes from the block's start. */
static void copy(size_t size, ptrdiff_t at, size_t bytes)
{
    static const char zeros[2 << 20];
    char *block = take(size);
    block += at;
    HIDE(block);
    memcpy(block, zeros, bytes);
    HIDE(block);
    goes_on();
}

static void copy_over_1(size_t size) { copy(size, 0, size + 1); }
static void copy_over_32(size_t size) { copy(size, 0, size + 32); }
static void copy_over_mb(size_t size) { copy(size, 0, size + MB); }
static void copy_under_1(size_t size) { copy(size, -1, size); }
static void copy_under_32(size_t size) { copy(size, -32, size); }
static void copy_under_mb(size_t size) { copy(size, -(ptrdiff_t)MB, size); }

/* ---- blocks of no bytes ---- */

static void zero_size(bool writes, bool frees)
{
    char *block = malloc(0);
    HIDE(block);
    if (!block)
        _exit(1);
    if (writes)
        *(volatile char *)block = 'A';
    else
        (void)*(volatile char *)block;
    if (frees)
        drop(block);
    goes_on();
}

static void zero_read(size_t size) { (void)size, zero_size(false, false); }
static void zero_read_free(size_t size) { (void)size, zero_size(false, true); }
static void zero_write(size_t size) { (void)size, zero_size(true, false); }
static void zero_write_free(size_t size) { (void)size, zero_size(true, true); }

/* ---- frees that come twice ---- */

static void twice(size_t size)
{
    char *block = take(size);
    drop(block);
    drop(wrong(block));
    goes_on();
}

static void twice_delayed(size_t size)
{
    char *block = take(size);
    drop(block);
    for (int i = 0; i < 1024; i++)
        drop(take(size));
    drop(wrong(block));
    goes_on();
}

static void twice_between(size_t size)
{
    char *a = take(size), *b = take(size);
    drop(a);
    drop(b);
    drop(wrong(a));
    goes_on();
}

static void twice_reused(size_t size)
{
    char *block = take(size);
    drop(block);
    drop(wrong(block));
    for (int i = 0; i < 1 << 18; i++)
        drop(take(size));
    goes_on();
}

/* The second free ends the life of another's block; the third is the one that nobody expects. */
static void twice_single(size_t size)
{
    char *block = take(size);
    drop(block);
    char *other = take(size);
    drop(block);
    drop(wrong(other));
    goes_on();
}

/* ---- frees of other addresses ---- */

static void free_number(size_t size) { (void)size, drop(wrong((void *)1)), goes_on(); }
static void free_inside_1(size_t size) { drop(wrong(take(size) + 1)), goes_on(); }
static void free_inside_8(size_t size) { drop(wrong(take(size) + 8)), goes_on(); }
static void free_close(size_t size) { drop(wrong(take(size) + 4096)), goes_on(); }
static void free_far(size_t size) { drop(wrong(take(size) + ((size_t)1 << 30))), goes_on(); }
static void free_region(size_t size) { drop(wrong(take(size) + (4 << 12))), goes_on(); }

static void free_alloca(size_t size) { drop(wrong(alloca(size))), goes_on(); }

static void free_stack(size_t size)
{
    char local[(size_t)256 << 10];
    char *start = local + sizeof local - size;
    HIDE(start);
    drop(wrong(start));
    goes_on();
}

static void free_mapped(int protection)
{
    drop(take(16));
    char *map = mmap(NULL, 16 << 12, protection, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    if (map == MAP_FAILED)
        _exit(2);
    drop(wrong(map + (8 << 12)));
    goes_on();
}

static void free_protected(size_t size) { (void)size, free_mapped(PROT_NONE); }
static void free_unprotected(size_t size) { (void)size, free_mapped(PROT_READ | PROT_WRITE); }

/* ---- C++: what delete is told ---- */

static void cxx_size_wrong(size_t size)
{
    cxx_delete_sized(wrong(cxx_new(1)), size);
    goes_on();
}

static void cxx_array_of_one(size_t size) { cxx_delete_array(wrong(cxx_new(size))), goes_on(); }
static void cxx_one_of_array(size_t size) { cxx_delete(wrong(cxx_new_array(size))), goes_on(); }

/* Strings of 32 bytes: a pointer, a length, and room for short ones. An array of them begins with its length. */
typedef struct string {
    char *text;
    size_t length;
    char brief[16];
} string;

static void cxx_array_of_string(size_t size)
{
    (void)size;
    string *one = cxx_new(sizeof *one);
    one->text = one->brief;
    HIDE(one);
    size_t count = ((size_t *)(void *)one)[-1];
    for (size_t i = count; i-- > 0;)
        if (one[i].text != one[i].brief)
            cxx_delete(one[i].text);
    cxx_delete_array(wrong((size_t *)(void *)one - 1));
    goes_on();
}

static void cxx_string_of_array(size_t size)
{
    size_t *array = cxx_new_array(8 + size * sizeof(string));
    array[0] = size;
    cxx_delete_sized(wrong(array + 1), sizeof(string));
    goes_on();
}

static void cxx_aligned(size_t alignment, size_t bytes, size_t stated)
{
    cxx_delete_sized_aligned(wrong(cxx_new_aligned(bytes, alignment)), stated, alignment);
    goes_on();
}

static void cxx_aligned_small(size_t size) { (void)size, cxx_aligned(64, 64, 128); }
static void cxx_aligned_large(size_t size) { (void)size, cxx_aligned(8192, 16384, 16384 - 10); }

/* ---- writes and reads after a free ---- */

static void write_freed(size_t size)
{
    char *block = take(size);
    drop(block);
    HIDE(block);
    memset(block, 'A', size);
    HIDE(block);
    goes_on();
}

static void write_freed_reused(size_t size)
{
    char *block = take(size);
    drop(block);
    HIDE(block);
    memset(block, 'A', size);
    HIDE(block);
    for (int i = 0; i < 1 << 18; i++)
        drop(take(size));
    goes_on();
}

/* One byte at `at`; `first` takes another block in between. */
static void write_byte(size_t size, size_t at, bool first)
{
    char *block = wrong(take(size));
    drop(block);
    if (first)
        (void)take(size);
    HIDE(block);
    block[at] = 'a';
    HIDE(block);
    if (size < MB / 8)
        for (int i = 0; i < 100000; i++)
            drop(take(size));
    goes_on();
}

static void write_byte_small(size_t size) { (void)size, write_byte(128, 65, false); }
static void write_byte_small_reused(size_t size) { (void)size, write_byte(128, 65, true); }
static void write_byte_large(size_t size) { (void)size, write_byte(MB / 4, MB / 16 + 1, false); }
static void write_byte_large_reused(size_t size) { (void)size, write_byte(MB / 4, MB / 16 + 1, true); }

static void read_freed_large(size_t size)
{
    char *block = take(size);
    memset(block, 'a', 16);
    drop(block);
    HIDE(block);
    for (size_t i = 0; i < size; i++)
        if (((volatile char *)block)[i] != 0)
            goes_on();
}

/* Are the bytes of a freed block still there? */
static void bytes_after_free(size_t size)
{
    char *block = take(size);
    memset(block, 'A', size);
    drop(block);
    HIDE(block);
    for (size_t i = 0; i < size; i++)
        if (block[i] != 0)
            goes_on();
}

/* Does a new block have bytes of an old one? */
static void bytes_at_malloc(size_t size)
{
    enum { BLOCKS = 4096 };
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = take(size);
        memset(blocks[i], 'A', size);
    }
    for (int i = 0; i < BLOCKS; i++)
        drop(blocks[i]);
    char *block = take(size);
    for (size_t i = 0; i < size; i++)
        if (block[i] != 0)
            goes_on();
}

/* ---- is a freed block the next one? ---- */

static void same(char *old, char *next)
{
    HIDE(old);
    if (old == next)
        goes_on();
}

static void reuse(size_t size)
{
    char *block = take(size);
    drop(block);
    same(block, take(size));
}

static void reuse_downsize(size_t size)
{
    char *block = take(size);
    drop(block);
    same(block, take(size / 2));
}

/* Compares the pointer with its own copy, as the public program does: no allocator passes. */
static void reuse_realloc(size_t size)
{
    (void)size;
    char *block = take(8), *copy_of = block;
    HIDE(copy_of);
    char *moved = realloc(block, 1024);
    HIDE(moved);
    same(copy_of, block);
}

/* ---- others ---- */

static void executable(size_t size)
{
    char *block = take(size);
#if defined(__x86_64__) || defined(__i386__)
    static const char code[] = "\x90\x90\x90\x90\xc3";
#else
    static const char code[] = "\xc0\x03\x5f\xd6";
#endif
    memcpy(block, code, sizeof code);
    __builtin___clear_cache(block, block + sizeof code);
    void (*run)(void);
    memcpy(&run, &block, sizeof run);
    run();
    goes_on();
}

static void enormous(size_t size)
{
    (void)size;
    volatile size_t bytes = (size_t)-2;
    char *block = malloc(bytes);
    HIDE(block);
    if (block)
        goes_on();
    drop(block);
}

static void usable(void *address)
{
    (void)malloc_usable_size(wrong(address));
    goes_on();
}

static void usable_number(size_t size) { (void)size, usable((void *)1); }
static void usable_inside(size_t size) { usable(take(size) + 1); }
static void usable_region(size_t size) { usable(take(size) + (4 << 12)); }

static void usable_freed(size_t size)
{
    char *block = take(size);
    drop(block);
    usable(block);
}

static void realloc_number(size_t size)
{
    if (realloc(wrong((void *)1), size))
        goes_on();
    _exit(1);
}

/* One or eight bytes past the usable end. */
static void past_usable(size_t size, size_t at)
{
    char *block = take(size);
    block[malloc_usable_size(block) + at] ^= 1;
    drop(block);
    goes_on();
}

static void past_usable_1(size_t size) { past_usable(size, 0); }
static void past_usable_8(size_t size) { past_usable(size, 7); }

const attack attack_misuses[] = {
    {"over-1", over_1}, {"over-32", over_32}, {"over-mb", over_mb}, {"under-1", under_1}, {"under-32", under_32},
    {"under-mb", under_mb}, {"copy-over-1", copy_over_1}, {"copy-over-32", copy_over_32},
    {"copy-over-mb", copy_over_mb}, {"copy-under-1", copy_under_1}, {"copy-under-32", copy_under_32},
    {"copy-under-mb", copy_under_mb}, {"zero-read", zero_read}, {"zero-read-free", zero_read_free},
    {"zero-write", zero_write}, {"zero-write-free", zero_write_free}, {"twice", twice},
    {"twice-delayed", twice_delayed}, {"twice-between", twice_between}, {"twice-reused", twice_reused},
    {"twice-single", twice_single}, {"free-number", free_number}, {"free-inside-1", free_inside_1},
    {"free-inside-8", free_inside_8}, {"free-close", free_close}, {"free-far", free_far},
    {"free-region", free_region}, {"free-alloca", free_alloca}, {"free-stack", free_stack},
    {"free-protected", free_protected}, {"free-unprotected", free_unprotected}, {"cxx-size-wrong", cxx_size_wrong},
    {"cxx-array-of-one", cxx_array_of_one}, {"cxx-one-of-array", cxx_one_of_array},
    {"cxx-array-of-string", cxx_array_of_string}, {"cxx-string-of-array", cxx_string_of_array},
    {"cxx-aligned-small", cxx_aligned_small}, {"cxx-aligned-large", cxx_aligned_large},
    {"write-freed", write_freed}, {"write-freed-reused", write_freed_reused},
    {"write-byte-small", write_byte_small}, {"write-byte-small-reused", write_byte_small_reused},
    {"write-byte-large", write_byte_large}, {"write-byte-large-reused", write_byte_large_reused},
    {"read-freed-large", read_freed_large}, {"bytes-after-free", bytes_after_free},
    {"bytes-at-malloc", bytes_at_malloc}, {"reuse", reuse}, {"reuse-downsize", reuse_downsize},
    {"reuse-realloc", reuse_realloc}, {"executable", executable}, {"enormous", enormous},
    {"usable-number", usable_number}, {"usable-inside", usable_inside}, {"usable-region", usable_region},
    {"usable-freed", usable_freed}, {"realloc-number", realloc_number}, {"past-usable-1", past_usable_1},
    {"past-usable-8", past_usable_8}, {NULL, NULL}};
