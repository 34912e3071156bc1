/* Fuzzes realloc and aligned allocation on the fake port: the input is sizes of all magnitudes, alignments, and
 * failures of the host. A few blocks are resized repeatedly; separate copies have their expected contents.
 *
 * With -DFUZZ_PLANT the target writes past a block that grew in place: test/fuzz/run requires that the fuzzer finds
 * it. */
#include "fuzz.h"

enum { BLOCKS = 8 };
static struct {
    unsigned char *at;
    size_t bytes;
    uint64_t tag;
} blocks[BLOCKS];

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Patterns cover the first and the last 3000 bytes. */
static void write_pattern(int i, uint64_t tag)
{
    size_t n = least(blocks[i].bytes, 3000);
    blocks[i].tag = tag;
    fixture_fill(blocks[i].at, n, tag);
    fixture_fill(blocks[i].at + blocks[i].bytes - n, n, tag);
}

static void read_pattern(int i, const unsigned char *at, size_t bytes)
{
    size_t n = least(blocks[i].bytes, 3000);
    if (blocks[i].bytes >= 2 * n)
        REQUIRE(fixture_filled(at, least(n, bytes), blocks[i].tag));
    if (bytes >= blocks[i].bytes)
        REQUIRE(fixture_filled(at + blocks[i].bytes - n, n, blocks[i].tag));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fixture_start(1);
    fake.memory_bytes = (size_t)128 << 20;
    memset(blocks, 0, sizeof blocks);
    for (size_t at = 0; at + 6 <= bytes && at < 6 * 200; at += 6) {
        int i = data[at] % BLOCKS;
        unsigned way = data[at] / BLOCKS;
        /* a floating size: 11 bits after the leading one, and a shift up to the whole address space */
        size_t size = ((size_t)1 << 11 | data[at + 1] << 3 | data[at + 2] >> 5) << (data[at + 2] & 31) >> 11;
        size_t alignment = (size_t)1 << (data[at + 3] % 26);
        if (way == 31)
            gb_fake_fail(data[at + 4], data[at + 5] & 15, (data[at + 5] >> 4) + 1u);
        else if (way == 30)
            fake.now_ms += (uint32_t)data[at + 4] * 10;
        else if (blocks[i].at && way < 4) {
            read_pattern(i, blocks[i].at, blocks[i].bytes);
            glebe_free(blocks[i].at);
            blocks[i].at = NULL;
        } else if (blocks[i].at && size > 0) {
            read_pattern(i, blocks[i].at, blocks[i].bytes);
            unsigned char *p = glebe_realloc(blocks[i].at, size);
#ifdef FUZZ_PLANT
            if (p == blocks[i].at && size > blocks[i].bytes && size > 100000 && size < 1000000)
                memset(p + glebe_usable_size(p), 1, 1);
#endif
            if (!p)
                read_pattern(i, blocks[i].at, blocks[i].bytes);
            else {
                read_pattern(i, p, size);
                blocks[i].at = p;
                blocks[i].bytes = size;
                REQUIRE(glebe_usable_size(p) >= size);
                write_pattern(i, at);
            }
        } else if (!blocks[i].at) {
            unsigned char *p = way % 2 ? glebe_aligned_alloc(alignment, size) : glebe_calloc(1, size);
            if (p) {
                REQUIRE((uintptr_t)p % (way % 2 ? alignment : 16) == 0);
                REQUIRE(way % 2 || fixture_zero(p, least(size, 100000)));
                blocks[i].at = p;
                blocks[i].bytes = size;
                write_pattern(i, at);
            }
        }
        if (at % 24 == 0)
            fixture_check();
    }
    gb_fake_fail(0, 0, 0);
    fixture_check();
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at) {
            read_pattern(i, blocks[i].at, blocks[i].bytes);
            glebe_free(blocks[i].at);
        }
    fixture_release();
    return 0;
}
