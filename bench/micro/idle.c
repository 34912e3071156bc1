/* Is freed memory purged while the program sleeps?
 *
 *     idle MEBIBYTES CALLS
 *
 * 1. Allocate MEBIBYTES in mixed sizes: of each eight blocks, seven are of 16
 *    to 500 bytes and one is of 4 to 64 KB. Write to every byte.
 * 2. Free 95 % of the blocks, chosen at random. Now nearly every page that
 *    holds small blocks still holds a live one, and nearly no large block does.
 * 3. Sleep two seconds. With CALLS > 0, make so many malloc/free calls after
 *    the first second, so that an allocator without a thread of its own can
 *    look at the clock; with CALLS = 0, make no call.
 * 4. Print
 *
 *        metric idle_ratio RESIDENT / LIVE
 *
 *    RESIDENT: the process' resident bytes, less those before the first block.
 *    LIVE: the bytes of all OS pages with at least one live byte. An allocator
 *    that does not move blocks, and cannot foresee which will die, cannot keep
 *    less: 1.0 is perfect.
 *
 * The bookkeeping (pointers, sizes, page numbers) is mmap'd and is resident
 * before the first measurement, so it cancels.
 */
#include "bench.h"

struct record {
	char *at;
	uint32_t bytes;
};

static size_t page_bytes;

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Bytes of the pages that hold a live byte. */
static size_t live_page_bytes(const struct record *r, size_t n, uint64_t *pages)
{
	size_t count = 0, distinct = 0;
	for (size_t i = 0; i < n; i++) {
		if (!r[i].at)
			continue;
		uint64_t first = (uintptr_t)r[i].at / page_bytes;
		uint64_t last = ((uintptr_t)r[i].at + r[i].bytes - 1) / page_bytes;
		for (uint64_t p = first; p <= last; p++)
			pages[count++] = p;
	}
	qsort(pages, count, sizeof *pages, by_value);
	for (size_t i = 0; i < count; i++)
		distinct += i == 0 || pages[i] != pages[i - 1];
	return distinct * page_bytes;
}

int main(int argc, char **argv)
{
	size_t goal = (size_t)(argc > 1 ? atol(argv[1]) : 1024) << 20;
	long calls = argc > 2 ? atol(argv[2]) : 0;
	rng r = rng_seed(7);
	page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	/* A group of eight is about 36 KB: room for twice as many blocks. */
	size_t room = goal / 36000 * 16 + 1024;
	struct record *blocks = outside(room * sizeof *blocks);
	uint64_t *pages = outside(room * sizeof *pages);
	memset(blocks, 1, room * sizeof *blocks);
	memset(pages, 1, room * sizeof *pages);
	puts("idle");
	fflush(stdout);
	resident_bytes(getpid());
	size_t before = resident_bytes(getpid());

	size_t n = 0, total = 0;
	while (total < goal && n < room) {
		size_t bytes = n % 8 == 7 ? size_uniform(&r, 4096, 65536) : size_uniform(&r, 16, 500);
		char *p = malloc(bytes);
		if (!p)
			die("out of memory");
		memset(p, (int)n, bytes);
		blocks[n++] = (struct record){p, (uint32_t)bytes};
		total += bytes;
	}
	for (size_t i = 0; i < n; i++) {
		if (rng_below(&r, 100) < 95) {
			free(blocks[i].at);
			blocks[i].at = NULL;
		}
	}
	sleep(1);
	for (long i = 0; i < calls; i++)
		free(take(16 + (size_t)i % 128));
	sleep(1);

	size_t after = resident_bytes(getpid());
	size_t live = live_page_bytes(blocks, n, pages);
	double resident = after > before ? (double)(after - before) : 0;
	printf("metric idle_ratio %.4f\n", resident / (double)live);
	return 0;
}
