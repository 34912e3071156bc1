/* Shared by the C benches.
 *
 * A bench is a plain user of malloc: it is linked dynamically, knows no
 * allocator, and does exactly the same work under each. So
 *
 *   - random numbers come from a fixed seed;
 *   - bookkeeping (arrays of pointers, sizes, orders) is static or mmap'd and
 *     never malloc'd: we measure only the requests of the bench;
 *   - every block is written to, as a real program would, but lightly: its
 *     first word, its last byte, and one byte in each page between.
 */
#ifndef GLEBE_BENCH_H
#define GLEBE_BENCH_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Random numbers: xorshift64*. Each thread or phase has its own state. */
typedef struct { uint64_t s; } rng;

static inline uint64_t rng_next(rng *r)
{
	r->s ^= r->s >> 12;
	r->s ^= r->s << 25;
	r->s ^= r->s >> 27;
	return r->s * 0x2545F4914F6CDD1DULL;
}

static inline rng rng_seed(uint64_t seed)
{
	rng r = {seed * 0x9E3779B97F4A7C15ULL + 88172645463325252ULL};
	for (int i = 0; i < 8; i++)
		rng_next(&r);
	return r;
}

/* A number in [0, n), without a division. */
static inline uint32_t rng_below(rng *r, uint32_t n)
{
	return (uint32_t)(((rng_next(r) >> 32) * n) >> 32);
}

/* A size in [low, high], uniform. */
static inline size_t size_uniform(rng *r, size_t low, size_t high)
{
	return low + rng_below(r, (uint32_t)(high - low + 1));
}

/* A size as in real programs: 8 bytes to 2.5 KB, and mostly small.
 * 6 of 16 are 8..39 bytes, 6 are 16..143, 3 are 64..575, 1 is 512..2559. */
static inline size_t size_skewed(rng *r)
{
	uint64_t x = rng_next(r);
	unsigned kind = (unsigned)(x >> 60);
	uint32_t y = (uint32_t)(x >> 8);
	if (kind < 6)
		return 8 + (y & 31);
	if (kind < 12)
		return 16 + (y & 127);
	if (kind < 15)
		return 64 + (y & 511);
	return 512 + (y & 2047);
}

/* A size from 2^low_log2 up to 2^high_log2, every doubling equally likely. */
static inline size_t size_log_uniform(rng *r, int low_log2, int high_log2)
{
	int log2 = low_log2 + (int)rng_below(r, (uint32_t)(high_log2 - low_log2));
	size_t base = (size_t)1 << log2;
	return base + (rng_next(r) >> 20) % base;
}

/* The order 0..n-1, shuffled. */
static inline void shuffle(rng *r, uint32_t *order, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t j = rng_below(r, i);
		uint32_t t = order[i - 1];
		order[i - 1] = order[j];
		order[j] = t;
	}
}

static inline void die(const char *what)
{
	fprintf(stderr, "bench: %s\n", what);
	exit(2);
}

/* Zeroed memory that is not the allocator's. */
static inline void *outside(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("mmap failed");
	return p;
}

static inline void touch(void *block, size_t bytes)
{
	char *p = block;
	if (!p)
		die("out of memory");
	if (bytes >= sizeof(uint64_t))
		*(volatile uint64_t *)p = bytes;
	for (size_t at = 4096; at < bytes; at += 4096)
		((volatile char *)p)[at] = 1;
	((volatile char *)p)[bytes - 1] = 1;
}

static inline void *take(size_t bytes)
{
	void *p = malloc(bytes);
	touch(p, bytes);
	return p;
}

/* Resident bytes of a process, exact: for smaps_rollup the kernel walks the
 * page tables, whereas statm and ru_maxrss come from counters that each
 * processor adds up in batches. Reads without stdio, whose buffers come from
 * malloc. */
static inline size_t resident_bytes(pid_t pid)
{
	static char text[4096];
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n <= 0)
		die("cannot read smaps_rollup");
	close(fd);
	char *rss = strstr(text, "Rss:");
	return rss ? strtoul(rss + 4, NULL, 10) * 1024 : 0;
}

#endif
