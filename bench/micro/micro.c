/* The single-threaded benches: one kind of traffic each.
 *
 *     micro MODE PARAMETER N
 *
 * N scales the work, and every mode is written so that time is proportional to
 * it. The driver's cases.toml says with which numbers each is run, and why.
 */
#include "bench.h"

enum { MAX_BLOCKS = 1 << 17 };
static void *block[MAX_BLOCKS];
static uint32_t order[MAX_BLOCKS];

/* pairs BYTES: one block at a time. */
static void pairs(size_t bytes, long n)
{
	for (long i = 0; i < n; i++)
		free(take(bytes));
}

/* window BYTES: 64 live blocks of about that size, replaced oldest first. */
static void window(size_t bytes, long n)
{
	rng r = rng_seed(2);
	for (long i = 0; i < n; i++) {
		void **slot = &block[i & 63];
		free(*slot);
		*slot = take(bytes - bytes / 8 + rng_below(&r, (uint32_t)(bytes / 4)));
	}
}

/* Batches: COUNT blocks of 16 to 512 bytes, then all freed. The order of the
 * frees is what differs: it decides how the allocator's lists look next time. */
enum order_kind { IN_ORDER, REVERSE, RANDOM };

static void batch(enum order_kind kind, size_t count, long n)
{
	rng r = rng_seed(3);
	if (count > MAX_BLOCKS)
		die("too many blocks");
	shuffle(&r, order, (uint32_t)count);
	for (long done = 0; done < n; done += (long)count) {
		for (size_t i = 0; i < count; i++)
			block[i] = take(size_uniform(&r, 16, 512));
		for (size_t i = 0; i < count; i++)
			free(block[kind == IN_ORDER ? i : kind == REVERSE ? count - 1 - i : order[i]]);
	}
}

/* churn LIVE: that many live objects of 8 bytes to 2.5 KB, mostly small; one at
 * random is replaced, again and again. The steady state of a server. */
static void churn(size_t live, long n)
{
	rng r = rng_seed(4);
	if (live > MAX_BLOCKS)
		die("too many blocks");
	for (size_t i = 0; i < live; i++)
		block[i] = take(size_skewed(&r));
	for (long i = 0; i < n; i++) {
		void **slot = &block[rng_below(&r, (uint32_t)live)];
		free(*slot);
		*slot = take(size_skewed(&r));
	}
}

/* sizes LIVE: the same with sizes of 16 bytes to 64 KB, each doubling alike. */
static void sizes(size_t live, long n)
{
	rng r = rng_seed(5);
	if (live > MAX_BLOCKS)
		die("too many blocks");
	for (long i = 0; i < n; i++) {
		void **slot = &block[rng_below(&r, (uint32_t)live)];
		free(*slot);
		*slot = take(size_log_uniform(&r, 4, 16));
	}
}

/* replace LIVE: that many live blocks of LOW to HIGH bytes, one at random
 * replaced, again and again; every OS page is touched. */
static void replace(size_t live, size_t low, size_t high, long n)
{
	rng r = rng_seed(7);
	if (live > MAX_BLOCKS)
		die("too many blocks");
	for (long i = 0; i < n; i++) {
		void **slot = &block[rng_below(&r, (uint32_t)live)];
		free(*slot);
		*slot = take(size_uniform(&r, low, high));
	}
}

/* phases LIVE: the favourite size drifts. Each phase replaces five of eight
 * objects by ones of another size, so holes of the old size must be of use for
 * the new one or the heap only grows. */
static void phases(size_t live, long n)
{
	rng r = rng_seed(6);
	if (live > MAX_BLOCKS)
		die("too many blocks");
	for (long phase = 0; phase < n; phase++) {
		size_t base = (size_t)16 << (phase * 3 % 7);
		for (size_t i = 0; i < live; i++) {
			if (block[i] && rng_below(&r, 8) >= 5)
				continue;
			free(block[i]);
			block[i] = take(size_uniform(&r, base, 2 * base));
		}
	}
}

/* grow MEBIBYTES: one block grown to that by one MiB at a time, N times. */
static void grow(size_t mebibytes, long n)
{
	for (long i = 0; i < n; i++) {
		char *p = NULL;
		for (size_t m = 1; m <= mebibytes; m++) {
			p = realloc(p, m << 20);
			if (!p)
				die("out of memory");
			memset(p + ((m - 1) << 20), 1, 1 << 20);
		}
		free(p);
	}
}

/* vectors COUNT: that many arrays grow by doubling, as std::vector does, in
 * turns, from 16 bytes to a random end below 64 KB, and start again. */
static void vectors(size_t count, long n)
{
	static uint32_t capacity[4096];
	rng r = rng_seed(8);
	if (count > 4096)
		die("too many vectors");
	for (long i = 0; i < n; i++) {
		size_t k = rng_below(&r, (uint32_t)count);
		size_t next = capacity[k] ? 2 * (size_t)capacity[k] : 16;
		if (next > 65536 || (capacity[k] && rng_below(&r, 8) == 0)) {
			free(block[k]);
			block[k] = NULL;
			next = 16;
		}
		block[k] = realloc(block[k], next);
		touch(block[k], next);
		capacity[k] = (uint32_t)next;
	}
}

/* halves COUNT: that many arrays grow by half at a time, in random turns, from
 * 300 KB to 8 MB, and start again. The new part is written. */
static void halves(size_t count, long n)
{
	static size_t capacity[4096];
	rng r = rng_seed(9);
	if (count > 4096)
		die("too many arrays");
	for (long i = 0; i < n; i++) {
		size_t k = rng_below(&r, (uint32_t)count);
		size_t next = capacity[k] ? capacity[k] + capacity[k] / 2 : size_uniform(&r, 300000, 600000);
		if (next > 8000000) {
			free(block[k]);
			block[k] = NULL;
			next = 0;
		} else {
			char *p = realloc(block[k], next);
			if (!p)
				die("out of memory");
			memset(p + capacity[k], 1, next - capacity[k]);
			block[k] = p;
		}
		capacity[k] = next;
	}
}

/* append STEP: strings grown by small steps to 8 KB, sixteen of them in turn. */
static void append(size_t step, long n)
{
	static size_t length[16];
	for (long i = 0; i < n; i++) {
		size_t k = (size_t)i & 15;
		length[k] += step + k;
		if (length[k] > 8192) {
			free(block[k]);
			block[k] = NULL;
			length[k] = step;
		}
		block[k] = realloc(block[k], length[k]);
		touch(block[k], length[k]);
	}
}

/* zeroed BYTES: calloc and free, sixteen live; every block is dirtied. */
static void zeroed(size_t bytes, long n)
{
	for (long i = 0; i < n; i++) {
		void **slot = &block[i & 15];
		free(*slot);
		char *p = calloc(1, bytes);
		if (!p || p[0] != 0 || p[bytes - 1] != 0 || p[bytes / 2] != 0)
			die("calloc did not clear");
		touch(p, bytes);
		*slot = p;
	}
}

/* aligned ALIGNMENT: blocks of 16 to 1024 bytes so aligned, 256 live. */
static void aligned(size_t alignment, long n)
{
	rng r = rng_seed(9);
	for (long i = 0; i < n; i++) {
		void **slot = &block[rng_below(&r, 256)];
		size_t bytes = size_uniform(&r, 16, 1024);
		free(*slot);
		if (posix_memalign(slot, alignment, bytes) != 0 || (uintptr_t)*slot % alignment != 0)
			die("posix_memalign failed");
		touch(*slot, bytes);
	}
}

/* list NODES: build a linked list of small nodes, walk it several times, free
 * it. The speed of the walk depends on the allocator: are nodes that were made
 * together neighbours in memory? */
struct node { struct node *next; uint64_t value[2]; };

static void list(size_t nodes, long n)
{
	uint64_t sum = 0;
	for (long i = 0; i < n; i++) {
		struct node *head = NULL;
		for (size_t k = 0; k < nodes; k++) {
			struct node *p = take(sizeof *p);
			p->next = head;
			p->value[0] = k;
			head = p;
		}
		for (int walk = 0; walk < 4; walk++)
			for (struct node *p = head; p; p = p->next)
				sum += p->value[0];
		while (head) {
			struct node *next = head->next;
			free(head);
			head = next;
		}
	}
	printf("%llu\n", (unsigned long long)sum);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		die("usage: micro MODE PARAMETER N");
	const char *mode = argv[1];
	size_t parameter = strtoul(argv[2], NULL, 10);
	long n = atol(argv[3]);

	if (strcmp(mode, "pairs") == 0) pairs(parameter, n);
	else if (strcmp(mode, "window") == 0) window(parameter, n);
	else if (strcmp(mode, "in-order") == 0) batch(IN_ORDER, parameter, n);
	else if (strcmp(mode, "reverse") == 0) batch(REVERSE, parameter, n);
	else if (strcmp(mode, "random") == 0) batch(RANDOM, parameter, n);
	else if (strcmp(mode, "churn") == 0) churn(parameter, n);
	else if (strcmp(mode, "sizes") == 0) sizes(parameter, n);
	else if (strcmp(mode, "large") == 0) replace(parameter, 64 << 10, 3 << 20, n);
	else if (strcmp(mode, "huge") == 0) replace(parameter, 5 << 20, 25 << 20, n);
	else if (strcmp(mode, "phases") == 0) phases(parameter, n);
	else if (strcmp(mode, "grow") == 0) grow(parameter, n);
	else if (strcmp(mode, "vectors") == 0) vectors(parameter, n);
	else if (strcmp(mode, "halves") == 0) halves(parameter, n);
	else if (strcmp(mode, "append") == 0) append(parameter, n);
	else if (strcmp(mode, "zeroed") == 0) zeroed(parameter, n);
	else if (strcmp(mode, "aligned") == 0) aligned(parameter, n);
	else if (strcmp(mode, "list") == 0) list(parameter, n);
	else die("no such mode");
	return 0;
}
