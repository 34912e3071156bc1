/* Makes a heap old before the program's main begins.
 *
 *     LD_PRELOAD=ALLOCATOR.so:aged.so AGED_REPORT=FILE PROGRAM ARGUMENT...
 *
 * A fresh heap hands out neighbours in order. After hours it does not: long-lived
 * blocks are scattered among free ones. This library allocates and frees by a
 * histogram of sizes and lifetimes, from a fixed seed, so that every allocator
 * gets the same requests:
 *
 *     live bytes   60 MB      /\/\
 *                            /    \
 *                   3 MB    /      \______   scattered, never freed
 *
 * Bookkeeping is outside the heap and unmapped in the end. The library then
 * resets the kernel's peak of resident memory to the current size, which has
 * what the allocator retains of the 60 MB. One line goes to AGED_REPORT, for
 * the driver to subtract:
 *
 *     USER_US SYSTEM_US WALL_NS MINOR_FAULTS
 *
 * A program that starts others by exec ages each of them, and each adds a line.
 */
#include "../micro/bench.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	PEAK_BYTES = 60 << 20,
	TROUGH_BYTES = 40 << 20,
	LEFT_BYTES = 3 << 20,
	WAVES = 3,            /* rises to the peak after the first */
	WAVE_REQUESTS = 60000, /* twice what fills the heap: half of it dies young */
	MAX_LIVE = 1 << 18,
	YOUNG = 256,          /* a block that dies young is among the newest 256 */
};

/* Of 1000 blocks, COUNT have 2^LOW to 2^HIGH bytes, every doubling equally likely. */
static const struct { uint32_t count; int low_log2, high_log2; } sizes_of[] = {
	{700, 4, 7}, {200, 7, 10}, {80, 10, 13}, {20, 13, 16},
};
enum { DIE_YOUNG_PER_1000 = 850 };

struct live { void *block; size_t bytes; };

static size_t aged_size(rng *r)
{
	uint32_t at = rng_below(r, 1000);
	size_t i = 0;
	while (at >= sizes_of[i].count)
		at -= sizes_of[i++].count;
	return size_log_uniform(r, sizes_of[i].low_log2, sizes_of[i].high_log2);
}

/* Frees a block: a young one with the lifetimes' probability, or with `any` a random one. */
static size_t aged_free(rng *r, struct live *live, uint32_t *count, int any)
{
	uint32_t young = *count < YOUNG ? *count : YOUNG;
	int dies_young = !any && rng_below(r, 1000) < DIE_YOUNG_PER_1000;
	uint32_t at = dies_young ? *count - 1 - rng_below(r, young) : rng_below(r, *count);
	struct live dead = live[at];
	live[at] = live[--*count];
	free(dead.block);
	return dead.bytes;
}

static void age(void)
{
	rng r = rng_seed(20);
	struct live *live = outside(MAX_LIVE * sizeof *live);
	uint32_t count = 0;
	size_t bytes = 0;

	for (int wave = 0; wave <= WAVES; wave++) {
		for (long i = 0; i < WAVE_REQUESTS; i++) {
			size_t n = aged_size(&r);
			if (count == MAX_LIVE)
				die("too many live blocks");
			live[count++] = (struct live){take(n), n};
			bytes += n;
			/* The heap grows by at most half of what is requested. */
			if (rng_below(&r, 2) && count > YOUNG)
				bytes -= aged_free(&r, live, &count, 0);
			while (bytes > PEAK_BYTES)
				bytes -= aged_free(&r, live, &count, 0);
		}
		size_t bound = wave < WAVES ? TROUGH_BYTES : LEFT_BYTES;
		while (bytes > bound)
			bytes -= aged_free(&r, live, &count, 1);
	}
	munmap(live, MAX_LIVE * sizeof *live);
}

static long long micros(struct timeval t) { return t.tv_sec * 1000000LL + t.tv_usec; }

static void write_to(const char *path, const char *text, int n)
{
	int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (file < 0 || write(file, text, (size_t)n) != n)
		die("an old heap cannot be reported, or its peak not be set back");
	close(file);
}

__attribute__((constructor)) static void begin(void)
{
	const char *report = getenv("AGED_REPORT");
	if (!report)
		return;
	struct rusage before, after;
	struct timespec start, end;
	clock_gettime(CLOCK_MONOTONIC, &start);
	getrusage(RUSAGE_SELF, &before);
	age();
	write_to("/proc/self/clear_refs", "5", 1);
	getrusage(RUSAGE_SELF, &after);
	clock_gettime(CLOCK_MONOTONIC, &end);
	char line[128];
	int n = snprintf(line, sizeof line, "%lld %lld %lld %ld\n", micros(after.ru_utime) - micros(before.ru_utime),
	                 micros(after.ru_stime) - micros(before.ru_stime),
	                 (end.tv_sec - start.tv_sec) * 1000000000LL + end.tv_nsec - start.tv_nsec,
	                 after.ru_minflt - before.ru_minflt);
	write_to(report, line, n);
}
