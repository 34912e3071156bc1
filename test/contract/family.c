/* The promises of the C and POSIX standards and of glibc's manual for the malloc family, function by function. */
#include "contract.h"

#include <malloc.h>

static void alignment_and_errno(void)
{
    for (size_t n = 0; n < 70000; n += n < 3000 ? 1 : 97) {
        errno = 77;
        char *block = kept(malloc(n));
        CHECK(block && ((uintptr_t)block & 15) == 0 && errno == 77);
        CHECK(malloc_usable_size(block) >= n);
        memset(block, 1, malloc_usable_size(block));
        errno = 78;
        free(block);
        CHECK(errno == 78);
        block = kept(calloc(1, n));
        CHECK(block && ((uintptr_t)block & 15) == 0 && errno == 78);
        block = kept(realloc(block, n + 1));
        CHECK(block && ((uintptr_t)block & 15) == 0 && errno == 78);
        free(block);
    }
    for (size_t n = 1 << 16; n < (size_t)1 << 26; n = n * 5 / 4) {
        errno = 79;
        char *block = kept(malloc(n));
        CHECK(block && ((uintptr_t)block & 15) == 0 && malloc_usable_size(block) >= n);
        block[0] = block[n - 1] = 1;
        free(block);
        CHECK(errno == 79);
    }
}

static void free_keeps_errno(void)
{
    enum { BLOCKS = 20000 };
    static void *blocks[BLOCKS];
    uint32_t state = 3;
    for (int i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = malloc(any_size(&state) / 8 + 1)));
    /* through every event: pages become empty, runs merge, memory is purged */
    for (int i = 0; i < BLOCKS; i++) {
        errno = 123;
        free(blocks[i]);
        CHECK(errno == 123);
    }
    for (int i = 0; i < 50; i++) {
        void *huge = malloc((size_t)(i + 2) << 20);
        CHECK(huge);
        errno = 124;
        free(huge);
        free(NULL);
        CHECK(errno == 124);
    }
    malloc_trim(0);
    CHECK(errno == 124);
}

static void zero_sizes(void)
{
    void *a = kept(malloc(0)), *b = kept(malloc(0)), *c = kept(calloc(0, 8)), *d = kept(calloc(8, 0));
    CHECK(a && b && c && d && a != b && b != c && c != d && a != c && a != d && b != d);
    free(a), free(b), free(c), free(d);
    errno = 5;
    CHECK(realloc(kept(malloc(10)), 0) == NULL && errno == 5); /* freed */
    void *e = kept(realloc(NULL, 0));
    CHECK(e);
    free(e);
    e = kept(aligned_alloc(64, 0));
    CHECK(e && ((uintptr_t)e & 63) == 0);
    free(e);
    CHECK(malloc_usable_size(NULL) == 0);
    void *out = NULL;
    CHECK(posix_memalign(&out, 64, 0) == 0 && out);
    free(out);
}

static void calloc_is_zero(void)
{
    static const size_t sizes[] = {1, 16, 100, 1000, 2048, 2049, 5000, 16384, 40000, 65536, 65537, 300000, 1048576,
        1048577, 5000000};
    for (int round = 0; round < 30; round++)
        for (int i = 0; i < 15; i++) {
            size_t n = sizes[i];
            unsigned char *blocks[8];
            for (int k = 0; k < 8; k++) {
                blocks[k] = calloc(k % 2 ? n : 1, k % 2 ? 1 : n);
                CHECK(blocks[k]);
                for (size_t at = 0; at < n; at++)
                    if (blocks[k][at] != 0)
                        CHECK(!"calloc's memory is zero");
                memset(blocks[k], 0xff, malloc_usable_size(blocks[k]));
            }
            for (int k = 0; k < 8; k++)
                free(blocks[(k * 3 + round) % 8]);
            if (round % 10 == 9)
                malloc_trim(0);
        }
}

static void realloc_keeps_bytes(void)
{
    uint32_t state = 9;
    for (int round = 0; round < 200; round++) {
        size_t n = any_size(&state);
        unsigned char *block = malloc(n);
        CHECK(block);
        for (size_t i = 0; i < n; i++)
            block[i] = (unsigned char)(i * 7 + 1);
        for (int step = 0; step < 5; step++) {
            size_t m = step % 2 ? n + n / 2 + 1 : any_size(&state), common = m < n ? m : n;
            unsigned char *moved = step % 3 ? realloc(block, m) : reallocarray(block, m, 1);
            CHECK(moved && malloc_usable_size(moved) >= m);
            for (size_t i = 0; i < common; i++)
                if (moved[i] != (unsigned char)(i * 7 + 1))
                    CHECK(!"realloc keeps the bytes");
            for (size_t i = common; i < m; i++)
                moved[i] = (unsigned char)(i * 7 + 1);
            block = moved;
            n = m;
        }
        free(block);
    }
}

static void alignments(void)
{
    static const size_t sizes[] = {0, 1, 17, 100, 1000, 3000, 5000, 20000, 70000, 500000, 1100000};
    for (size_t a = 8; a <= (size_t)1 << 25; a *= 2)
        for (int i = 0; i < 11; i++) {
            void *p = kept(aligned_alloc(a, sizes[i])), *q = kept(memalign(a, sizes[i])), *r = NULL;
            CHECK(posix_memalign(&r, a, sizes[i]) == 0);
            CHECK(p && q && r && (((uintptr_t)p | (uintptr_t)q | (uintptr_t)r) & (a - 1)) == 0);
            CHECK(p != q && q != r && malloc_usable_size(p) >= sizes[i] && malloc_usable_size(r) >= sizes[i]);
            memset(p, 1, sizes[i]);
            memset(q, 2, sizes[i]);
            memset(r, 3, sizes[i]);
            p = realloc(p, sizes[i] + 100); /* may lose the alignment, not the bytes */
            CHECK(p && (sizes[i] == 0 || *(char *)p == 1));
            free(p), free(q), free(r);
        }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *v = kept(valloc(10)), *w = kept(pvalloc(10));
    CHECK(v && w && (((uintptr_t)v | (uintptr_t)w) & (page - 1)) == 0 && malloc_usable_size(w) >= page);
    free(v), free(w);
}

static void strings(void)
{
    char *a = strdup("of some length"), *b = strndup("of some length", 7), *c = strndup("x", 100);
    CHECK(a && b && c && strcmp(a, "of some length") == 0 && strcmp(b, "of some") == 0 && strcmp(c, "x") == 0);
    free(a), free(b), free(c);
    char *line = NULL, *path = realpath("/", NULL);
    size_t room = 0;
    CHECK(path && strcmp(path, "/") == 0);
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file && getline(&line, &room, file) > 0 && asprintf(&b, "%s", line) > 0);
    fclose(file);
    free(path), free(line), free(b);
}

static void glibc_extras(void)
{
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    void *block = kept(malloc(300000)), *huge = kept(malloc(3000000));
    struct mallinfo2 info = mallinfo2();
    /* in the secure build the first is an extent too */
    CHECK(info.uordblks + info.hblkhd >= 3300000 && info.hblkhd >= 3000000 && info.hblks >= 1);
    CHECK(info.arena >= info.uordblks);
    CHECK(info.fordblks == info.arena - info.uordblks);
    static void *small[10000];
    for (int i = 0; i < 10000; i++)
        small[i] = kept(malloc(1000));
    struct mallinfo2 more = mallinfo2();
    for (int i = 0; i < 10000; i++)
        if (i % 16)
            free(small[i]);
    struct mallinfo2 less = mallinfo2(); /* one block in each 16 KiB: blocks count, not pages */
    CHECK(more.uordblks - info.uordblks >= 10000000 && more.uordblks - info.uordblks <= 10500000);
    CHECK(more.uordblks - less.uordblks >= 9375000 && less.fordblks - more.fordblks <= 9900000);
    for (int i = 0; i < 10000; i += 16)
        free(small[i]);
    CHECK(mallinfo2().uordblks == info.uordblks);
    free(huge);
    memset(block, 1, 300000);
    free(block);
    CHECK(malloc_trim(0) == 1 && malloc_trim(0) == 0);
    CHECK(mallinfo2().hblkhd == info.hblkhd - 3002368 || mallinfo2().hblkhd < info.hblkhd);
    malloc_stats();
    CHECK(malloc_info(1, stdout) == EINVAL);
    CHECK(malloc_info(0, stdout) == 0);
}

int main(void)
{
    alignment_and_errno();
    free_keeps_errno();
    zero_sizes();
    calloc_is_zero();
    realloc_keeps_bytes();
    alignments();
    strings();
    glibc_extras();
    return 0;
}
