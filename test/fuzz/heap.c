/* Fuzzes the heap on the fake port: the input is operations of two or three bytes each, by four simulated threads and
 * two heaps. The target checks the heap after operations. Blocks keep their contents, and when everything is freed, no
 * memory is in use.
 *
 * With -DFUZZ_PLANT one operation damages the heap in a rare state: test/fuzz/run requires that the fuzzer finds it. */
#include "fuzz.h"

enum { BLOCKS = 256, HEAPS = 2, THREADS = 4 };
static struct {
    unsigned char *at;
    size_t bytes;
    int heap, thread;
} blocks[BLOCKS];
static glebe_heap *heaps[HEAPS];

/* The size for one byte: exactly the ends and beginnings of classes. */
static size_t size_of(uint8_t code)
{
    if (code < 160)
        return gb_classes[code / 2].bytes + (code & 1);
    return code < 220 ? (size_t)code * 97 : code < 245 ? (size_t)(code - 219) * 40000 : (size_t)(code - 244) * 700000;
}

static void enter(int i, void *p, size_t size, int heap, bool zero)
{
    blocks[i].at = NULL;
    if (!p)
        return;
    REQUIRE(glebe_usable_size(p) >= size);
    size_t look = size < 5000 ? size : 5000;
    REQUIRE(!zero || fixture_zero(p, look));
    blocks[i].at = p;
    blocks[i].bytes = size;
    blocks[i].heap = heap;
    blocks[i].thread = fixture_now;
    fixture_fill(p, look, size);
}

static void leave(int i, int way)
{
    size_t size = blocks[i].bytes;
    REQUIRE(fixture_filled(blocks[i].at, size < 5000 ? size : 5000, size));
    if (blocks[i].heap >= 0 && way == 0)
        glebe_heap_free(heaps[blocks[i].heap], blocks[i].at);
    else
        glebe_free(blocks[i].at);
    blocks[i].at = NULL;
}

static void operate(uint8_t code, uint8_t which, uint8_t amount)
{
    int i = which, h = amount & 1;
    switch (code % 16) {
    case 0:
    case 1:
    case 2: /* a number of blocks */
        for (int n = 0; n <= code / 16; n++, i = (i + 1) % BLOCKS)
            if (!blocks[i].at)
                enter(i, glebe_malloc(size_of(amount)), size_of(amount), -1, false);
        break;
    case 3:
    case 4:
    case 5:
        for (int n = 0; n <= code / 16; n++, i = (i + 1) % BLOCKS)
            if (blocks[i].at)
                leave(i, amount & 1);
        break;
    case 6:
        if (!blocks[i].at)
            enter(i, glebe_calloc(1, size_of(amount)), size_of(amount), -1, true);
        break;
    case 7:
        if (!blocks[i].at && heaps[h])
            enter(i, glebe_heap_malloc(heaps[h], size_of(amount)), size_of(amount), h, false);
        break;
    case 8:
        if (blocks[i].at) {
            void *p = glebe_realloc(blocks[i].at, size_of(amount));
            if (p)
                enter(i, p, size_of(amount), blocks[i].heap, false);
        }
        break;
    case 9:
        fixture_thread(which % THREADS);
        break;
    case 10:
        fixture_thread_end(which % THREADS);
        break;
    case 11:
        fake.now_ms += (uint32_t)amount * 8;
        if (gb_self != &gb_heap_none)
            gb_tick_due(gb_self);
        break;
    case 12:
        glebe_trim(NULL);
        break;
    case 13:
        gb_fake_fail(which, amount & 7, (amount >> 3) + 1u);
        break;
    case 14:
        if (!heaps[h])
            heaps[h] = glebe_heap_create((size_t)which << 14);
        break;
    case 15:
        for (int k = 0; k < BLOCKS; k++)
            if (blocks[k].at && blocks[k].heap == h)
                blocks[k].at = NULL;
        glebe_heap_destroy(heaps[h]);
        heaps[h] = NULL;
        break;
    }
#ifdef FUZZ_PLANT
    if (code % 16 == 12 && gb_self->full.first.n) /* makes a count wrong */
        gb_page_at(gb_self->full.first)->left++;
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fixture_start(bytes);
    gb_the.options.purge_ms = 100;
    fake.memory_bytes = (size_t)256 << 20;
    memset(blocks, 0, sizeof blocks);
    memset(heaps, 0, sizeof heaps);
    for (size_t at = 0; at + 3 <= bytes && at < 3 * 400; at += 3) {
        operate(data[at], data[at + 1], data[at + 2]);
        if (at % 48 == 0)
            fixture_check();
    }
    gb_fake_fail(0, 0, 0);
    fixture_check();
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at)
            leave(i, 1);
    for (int h = 0; h < HEAPS; h++)
        glebe_heap_destroy(heaps[h]);
    fixture_release();
    REQUIRE(glebe_live.stats.errors == 0);
    return 0;
}
