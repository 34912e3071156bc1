/* A fuzzer that plays the attacker: `overlap TRIALS SEED`. A trial makes random allocations and frees, and one mistake:
 * a linear overflow of a live block, or a write to a freed one. Then it looks whether malloc hands out memory of a live
 * block, or of the program's own: the stack, or a static array. Either is what an attacker needs, whatever the
 * allocator (the method of HardsHeap).
 *
 * Each trial is a child process, since many of them die. The bytes that it writes are those that an attacker would try:
 * an address of the program's, of the heap, small numbers, a part of a word. Prints each kind of trial that went
 * through once, with its seed, and how many trials ended how. Exit status 1: some trial went through. */
#include "trial.h"

enum { SLOTS = 192, STEPS = 400, AFTER = 600, VALUES = 6, LENGTHS = 5 };
enum { OVERFLOW, WRITE_AFTER_FREE, MISTAKES };
static const char *const mistake_names[MISTAKES] = {"overflow", "write after free"};
static const size_t lengths[LENGTHS] = {1, 8, 9, 16, 32};
static _Alignas(64) uintptr_t target[512];

typedef struct slot {
    unsigned char *at;
    size_t size;
} slot;
static slot live[SLOTS + AFTER];
static size_t lives;
static slot freed[SLOTS];
static size_t freeds;
static uint64_t state;

static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static size_t size_of(void)
{
    static const size_t sizes[] = {16, 24, 48, 64, 100, 128, 256, 500, 1024, 2000, 4000, 20000};
    /* a trial uses few sizes, so that blocks are neighbours */
    static size_t few[3];
    if (!few[0])
        for (int i = 0; i < 3; i++)
            few[i] = sizes[below(sizeof sizes / sizeof *sizes)];
    return few[below(3)];
}

static bool is_target(const void *block)
{
    char local;
    uintptr_t p = (uintptr_t)block;
    return (p >= (uintptr_t)target && p < (uintptr_t)(target + 512)) || p - (uintptr_t)&local + 65536 < 131072;
}

/* Allocates. Ends the process with OVERLAPS if the block meets a live one, with OUTSIDE if it is the program's own. */
static void add(void)
{
    size_t size = size_of();
    unsigned char *block = malloc(size);
    HIDE(block);
    if (!block)
        _exit(3);
    if (is_target(block))
        _exit(OUTSIDE);
    for (size_t i = 0; i < lives; i++)
        if (block < live[i].at + live[i].size && live[i].at < block + size)
            _exit(OVERLAPS);
    live[lives++] = (slot){block, size};
}

static void drop_one(void)
{
    size_t i = below((uint32_t)lives);
    slot s = live[i];
    live[i] = live[--lives];
    drop(s.at);
    freed[freeds++ % SLOTS] = s;
}

typedef struct mistake {
    uint64_t seed;
    unsigned kind, value, length;
} mistake;

static void make(mistake m)
{
    size_t known = freeds < SLOTS ? freeds : SLOTS;
    slot s = m.kind == OVERFLOW ? live[below((uint32_t)lives)] : freed[below((uint32_t)known)];
    if (m.kind == WRITE_AFTER_FREE) /* the block must not have been handed out again: that write is another mistake */
        for (size_t i = 0; i < lives; i++)
            if (live[i].at < s.at + s.size && s.at < live[i].at + live[i].size)
                _exit(4);
    uintptr_t values[VALUES] = {(uintptr_t)target, 0, (uintptr_t)live[below((uint32_t)lives)].at,
        0x4141414141414141 & UINTPTR_MAX, (uintptr_t)s.at + 24, 8};
    uintptr_t words[4] = {values[m.value], values[m.value], values[m.value], values[m.value]};
    unsigned char *to = m.kind == OVERFLOW ? s.at + malloc_usable_size(s.at) : s.at + below(2) * sizeof(void *);
    HIDE(to);
    memcpy(to, words, lengths[m.length]);
    HIDE(to);
}

static void trial(const void *context)
{
    mistake m = *(const mistake *)context;
    state = m.seed * 2862933555777941757u + 3037000493u;
    for (int i = 0; i < STEPS; i++)
        if (lives < SLOTS / 4 || (lives < SLOTS && below(2)))
            add();
        else
            drop_one();
    if (freeds == 0)
        _exit(4);
    make(m);
    for (int i = 0; i < AFTER && lives < SLOTS + AFTER; i++)
        if (below(4) || lives == 0)
            add();
        else
            drop_one();
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("overlap TRIALS SEED\n", stderr);
        return 2;
    }
    enum { OTHER = 4 };
    unsigned long counts[OTHER] = {0};
    bool seen[MISTAKES][VALUES][LENGTHS] = {{{false}}};
    uint64_t seed = strtoull(argv[2], NULL, 0), end = seed + strtoull(argv[1], NULL, 0);
    for (; seed < end; seed++) {
        mistake m = {seed, (unsigned)(seed % MISTAKES), (unsigned)(seed / MISTAKES % VALUES),
            (unsigned)(seed / MISTAKES / VALUES % LENGTHS)};
        int status = outcome(trial, &m);
        bool through = is_through(status);
        counts[through ? 0 : status == 0 ? 1 : status < 0 ? 2 : 3]++;
        if (through && !seen[m.kind][m.value][m.length]) {
            seen[m.kind][m.value][m.length] = true;
            printf("seed %llu: %s of %zu bytes, value %u: %s\n", (unsigned long long)seed, mistake_names[m.kind],
                lengths[m.length], m.value,
                status == OVERLAPS ? "two live blocks overlap" : "an address outside the heap");
            fflush(stdout);
        }
    }
    printf("THROUGH %lu HARMLESS %lu ENDED %lu SKIPPED %lu\n", counts[0], counts[1], counts[2], counts[3]);
    return counts[0] != 0;
}
