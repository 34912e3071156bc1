/* mimalloc's API, of line LINE (2 or 3), in one walk. The program requires the documented behaviour, and prints all
 * visible behaviour, so that mimalloc's own library and glebe's can be compared. Declarations come from mimalloc's
 * header if it is installed, else from ours. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mi.h"

#ifndef STRICT
/* 0: skips two promises. mimalloc 2.0.9 to 3.3.2 do not keep that mi_rezalloc returns zeros after any growing and
 * shrinking; 2.0.9 alone does not set EOVERFLOW for a product that overflows. */
#define STRICT 1
#endif

#define TEST(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

/* Too large for any heap; volatile, so that the compiler does not know the values. */
static volatile size_t enormous = PTRDIFF_MAX, half = SIZE_MAX / 2;

static bool all(const void *p, size_t n, unsigned char byte)
{
    for (size_t i = 0; i < n; i++)
        if (((const unsigned char *)p)[i] != byte)
            return false;
    return true;
}

static bool aligned(const void *p, size_t a) { return p && (uintptr_t)p % a == 0; }

static const size_t sizes[] = {0, 1, 8, 17, 100, 1000, 1024, 2048, 2049, 5000, 65536, 65537, 300000, 1048576, 1048577,
    5000000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void plain(void)
{
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i];
        char *p = mi_malloc(n);
        TEST(p && mi_usable_size(p) >= n && mi_good_size(n) >= n && mi_malloc_size(p) == mi_usable_size(p));
        memset(p, 0x5a, mi_usable_size(p));
        TEST(mi_expand(p, n) == p || n == 0);
        TEST(mi_expand(p, (size_t)1 << 40) == NULL);
        p = mi_realloc(p, n * 2 + 3);
        TEST(p && all(p, n, 0x5a) && mi_usable_size(p) >= n * 2 + 3);
        p = mi_realloc(p, n / 2 + 1);
        TEST(p && all(p, n / 2, 0x5a));
        memset(p, 0xff, mi_usable_size(p));
        p = mi_realloc(p, 0);
        TEST(p);
        mi_free(p);
        for (int again = 0; again < 3; again++) { /* memory that was used before */
            p = again == 0 ? mi_zalloc(n) : again == 1 ? mi_calloc(n, 1) : mi_calloc(1, n);
            TEST(p && all(p, n, 0));
            memset(p, 0xff, mi_usable_size(p));
            mi_free_size(p, n);
        }
        char *q = mi_malloc(1);
        q = mi_reallocf(q, n);
        TEST(q);
        mi_cfree(q);
    }
    mi_free(NULL);
    TEST(mi_usable_size(NULL) == 0);
    for (size_t n = 0; n <= 1024; n += 8) {
        char *p = mi_zalloc_small(n), *q = mi_malloc_small(n);
        TEST(p && q && all(p, n, 0));
        memset(p, 1, n), memset(q, 1, n);
        mi_free(p), mi_free(q);
    }
    TEST(!mi_malloc(enormous) && !mi_calloc(half, 3) && !mi_mallocn(half, 3) && !mi_reallocn(NULL, half, 3));
    char *p = mi_mallocn(10, 10);
    strcpy(p, "kept");
    TEST(!mi_realloc(p, enormous) && !mi_reallocn(p, half, 4) && strcmp(p, "kept") == 0);
    errno = 0;
    TEST(!mi_reallocarray(p, half, 4) && strcmp(p, "kept") == 0 && (!STRICT || errno == EOVERFLOW));
    TEST(!STRICT || (mi_reallocarr(&p, half, 4) == EOVERFLOW && strcmp(p, "kept") == 0));
    TEST(!mi_reallocarray(p, enormous, 1) && errno == ENOMEM);
    p = mi_reallocn(p, 100, 10);
    TEST(p && strcmp(p, "kept") == 0);
    TEST(mi_reallocf(p, enormous) == NULL); /* and has freed p */
    puts("plain");
}

static void zeroed(void)
{
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i] + 1;
        char *p = mi_malloc(n * 3);
        memset(p, 0xff, mi_usable_size(p));
        mi_free(p);
        p = mi_zalloc(n);
        for (size_t more = n; STRICT && more <= 8 * n; more += n / 2 + 1) {
            p = mi_rezalloc(p, more);
            TEST(p && all(p, more, 0));
        }
        p = STRICT ? mi_rezalloc(p, n) : p;
        p = mi_recalloc(p, 20, n);
        TEST(p && all(p, 20 * n, 0));
        mi_free(p);
        p = mi_zalloc_aligned(n, 128);
        p = mi_recalloc_aligned(p, 7, n, 128);
        TEST(aligned(p, 128) && all(p, 7 * n, 0));
        p = mi_rezalloc_aligned(p, 20 * n, 256);
        TEST(!STRICT || (aligned(p, 256) && all(p, 20 * n, 0)));
        mi_free(p);
    }
    for (int i = 0; STRICT && i < SIZES; i++) /* bytes written past a new, smaller size do not reappear */
        for (size_t a = 16; a <= 4096; a *= 16)
            for (size_t n = sizes[i] + 1, less = 0; less < n; less += n / 9 + 1) {
                char *p = mi_zalloc_aligned(n, a);
                memset(p, 0xff, n);
                p = mi_rezalloc_aligned(p, less, a);
                p = mi_recalloc_aligned(p, 3, n, a);
                TEST(p && all(p, less, 0xff) && all(p + less, 3 * n - less, 0));
                mi_free(p);
            }
    TEST(!mi_recalloc(NULL, half, 3));
    puts("zeroed");
}

static void alignments(void)
{
    static const size_t offsets[] = {0, 8, 16, 24, 40, 100, 4096};
    /* 2.0.9: its mi_aligned_alloc(256, 256) is not aligned, and it returns too few bytes when it moves a block with an
     * offset */
    bool old = mi_version() < 10000;
    for (size_t a = 8; a <= (old ? 128 : 65536); a *= 2)
        for (int i = 0; i < SIZES; i++) {
            size_t n = sizes[i];
            if (n > 300000 && (old || (a != 64 && a != 4096)))
                continue;
            char *p = mi_malloc_aligned(n, a), *q = mi_aligned_alloc(a, (n + a) / a * a), *r = mi_memalign(a, n);
            void *s = NULL;
            TEST(aligned(p, a) && aligned(q, a) && aligned(r, a) && mi_posix_memalign(&s, a, n) == 0 && aligned(s, a));
            memset(p, 0x33, n);
            p = mi_realloc_aligned(p, 2 * n + 1, a);
            TEST(aligned(p, a) && all(p, n, 0x33));
            mi_free_aligned(p, a);
            mi_free_size_aligned(q, n, a);
            mi_free(r), mi_free(s);
            p = mi_calloc_aligned(n, 2, a);
            TEST(aligned(p, a) && all(p, 2 * n, 0));
            mi_free(p);
            for (unsigned o = 0; o < sizeof offsets / sizeof offsets[0]; o++) {
                size_t offset = offsets[o];
                if (offset > n || (offset && old)) /* mimalloc requires an offset within the block */
                    continue;
                p = mi_malloc_aligned_at(n, a, offset);
                TEST(p && aligned(p + offset, a) && mi_usable_size(p) >= n);
                memset(p, 0x44, mi_usable_size(p));
                p = mi_realloc_aligned_at(p, 3 * n + 1, a, offset);
                TEST(p && aligned(p + offset, a) && all(p, n, 0x44) && mi_usable_size(p) >= 3 * n + 1);
                memset(p, 0x55, mi_usable_size(p));
                p = mi_realloc(p, 5 * n + 7);
                TEST(p && all(p, 3 * n + 1, 0x55));
                mi_free(p);
                p = mi_zalloc_aligned_at(n, a, offset);
                TEST(p && aligned(p + offset, a) && all(p, n, 0));
                p = mi_recalloc_aligned_at(p, 5, n, a, offset);
                TEST(p && aligned(p + offset, a) && all(p, 5 * n, 0));
                memset(p, 0x66, mi_usable_size(p));
                mi_free(p);
            }
        }
    void *p = NULL;
    TEST(mi_posix_memalign(&p, 3, 8) == EINVAL && mi_posix_memalign(&p, 4, 8) == EINVAL && !p);
    TEST(!mi_malloc_aligned(10, 3) && !mi_malloc_aligned(10, 0) && !mi_calloc_aligned(half, 3, 64));
    void *v = mi_valloc(10), *w = mi_pvalloc(10);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    TEST(aligned(v, page) && aligned(w, page) && mi_usable_size(w) >= page);
    mi_free(v), mi_free(w);
    puts("alignments");
}

static void strings(void)
{
    char *a = mi_strdup("seven"), *b = mi_strndup("seven", 3), *c = mi_strndup("seven", 30),
        *d = mi_realpath("/usr/../usr/.", NULL);
    printf("%s %s %s %s\n", a, b, c, d);
    TEST(mi_strdup(NULL) == NULL);
    mi_free(a), mi_free(b), mi_free(c), mi_free(d);
}

static void *elsewhere(void *block)
{
    mi_free(block);
    return NULL;
}

static void heaps(void)
{
    mi_heap_t *heap = mi_heap_new(), *other = mi_heap_new();
    TEST(heap && other && heap != other);
    char *kept[SIZES], *gone[SIZES];
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i] + 1;
        kept[i] = mi_heap_malloc(heap, n);
        gone[i] = mi_heap_zalloc(other, n);
        TEST(kept[i] && gone[i] && all(gone[i], n, 0));
        memset(kept[i], i, n), memset(gone[i], 0xff, n);
        TEST(contains(heap, kept[i]) && !contains(other, kept[i]) && contains(other, gone[i]));
        kept[i] = mi_heap_realloc(heap, kept[i], n + 100);
        TEST(kept[i] && all(kept[i], n, (unsigned char)i) && mi_is_in_heap_region(kept[i]));
    }
    char *s = mi_heap_strdup(heap, "in a heap"), *t = mi_heap_malloc_aligned_at(heap, 100, 64, 24),
        *u = mi_heap_recalloc(heap, NULL, 10, 10);
    TEST(strcmp(s, "in a heap") == 0 && aligned(t + 24, 64) && contains(heap, t) && all(u, 100, 0));
    u = mi_heap_reallocf(heap, mi_heap_reallocn(heap, u, 20, 20), 9);
    mi_heap_collect(heap, true);
    pthread_t thread;
    TEST(pthread_create(&thread, NULL, elsewhere, s) == 0 && pthread_join(thread, NULL) == 0);
    mi_heap_destroy(other); /* with all of gone[] */
    mi_heap_delete(heap); /* without kept[] */
    for (int i = 0; i < SIZES; i++) {
        TEST(all(kept[i], sizes[i] + 1, (unsigned char)i));
        mi_free(kept[i]);
    }
    mi_free(t), mi_free(u);
    static int on_no_heap;
    TEST(!mi_is_in_heap_region(&on_no_heap));
    puts("heaps");
#if LINE == 2
    mi_heap_t *backing = mi_heap_get_backing(), *mine = mi_heap_new();
    TEST(mi_heap_get_default() == backing);
    TEST(mi_heap_set_default(mine) == backing && mi_heap_get_default() == mine);
    char *p = mi_malloc(100), *q = mi_calloc(3, 3), *r = mi_realloc(mi_malloc_aligned(9, 64), 1000);
    TEST(mi_heap_contains_block(mine, p) && mi_heap_contains_block(mine, q) && mi_heap_contains_block(mine, r)
        && mi_check_owned(p));
    TEST(!mi_heap_contains_block(backing, p));
    TEST(mi_heap_set_default(backing) == mine && !mi_check_owned(p));
    mi_heap_destroy(mine);
    puts("default heap");
#else
    char *main_block = mi_heap_malloc(NULL, 10); /* the main heap */
    main_block = mi_heap_realloc(NULL, main_block, 100000);
    TEST(main_block && mi_heap_contains(NULL, main_block) && !mi_heap_contains(NULL, &main_block));
    mi_free(main_block);
    mi_heap_collect(NULL, true);
#endif
}

static void count_text(const char *text, void *total) { *(size_t *)total += strlen(text); }

/* A deferred free may collect, and call every other function of mimalloc's. */
static void collects(bool force, unsigned long long heartbeat, void *calls)
{
    (void)heartbeat;
    ++*(int *)calls;
    mi_collect(force);
    TEST(*(int *)calls < 1000);
}

static void process(void)
{
    size_t n[8] = {0}, said = 0;
    int calls = 0;
    mi_register_deferred_free(collects, &calls);
    mi_collect(true);
    TEST(calls >= 1);
    mi_process_info(&n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7]);
    TEST(n[4] >= 500000 && n[4] < (size_t)4 << 30);
    mi_process_info(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    mi_stats_print_out(count_text, &said);
    TEST(said > 100);
    mi_stats_reset();
    mi_option_set(mi_option_purge_delay, 77);
    TEST(mi_option_get(mi_option_purge_delay) == 77 && mi_option_get_clamp(mi_option_purge_delay, 80, 90) == 80);
    mi_option_enable(mi_option_show_errors);
    TEST(mi_option_is_enabled(mi_option_show_errors));
    mi_option_set_enabled(mi_option_show_errors, false);
    TEST(!mi_option_is_enabled(mi_option_show_errors));
    mi_option_disable(mi_option_show_errors);
    mi_register_output(NULL, NULL), mi_register_error(NULL, NULL), mi_register_deferred_free(NULL, NULL);
    mi_thread_init(), mi_process_init(), mi_collect(true), mi_collect(false);
    printf("process, line %d\n", mi_version() / (mi_version() < 10000 ? 100 : 10000));
}

/* mi_free takes blocks of malloc, and free takes blocks of mi_malloc. */
static void mixed(void)
{
    void *(*volatile c_malloc)(size_t) = malloc;
    void (*volatile c_free)(void *) = free;
    void *p = c_malloc(100), *q = mi_malloc(100);
    TEST(mi_is_in_heap_region(p));
    mi_free(p), c_free(q);
    puts("mixed");
}

int main(void)
{
    plain(), zeroed(), alignments(), strings(), heaps(), mixed(), process();
    return 0;
}
