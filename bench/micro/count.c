/* The loops whose instructions are counted.
 *
 *     count SHAPE ROUNDS [empty]
 *
 * `bench/instructions` runs this under an instruction counter with R rounds and
 * with 2R rounds. The difference is the price of R rounds in the steady state:
 * start-up, warm-up and exit cancel. It does the same again with `empty`, where
 * each call of malloc, free, calloc or realloc is replaced by nothing, and
 * subtracts that price of the loop. The calls remain:
 *
 *     call malloc@plt; jmp *GOT; <malloc>; ret; the same for free.
 *
 * For the subtraction to be exact, the empty loop must be the same code except
 * for the call. So `nothing` looks like a call to the compiler (argument and
 * result in the same registers, all caller-saved registers lost), but emits no
 * instruction.
 *
 * Nothing is written to the blocks, since that would be the loop's work.
 */
#include "bench.h"

#if defined(__x86_64__)
#define CALLER_SAVED "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc"
static inline __attribute__((always_inline)) void *nothing(uintptr_t argument)
{
	void *result;
	__asm__ volatile("" : "=a"(result), "+D"(argument) : : CALLER_SAVED);
	return result;
}
static inline __attribute__((always_inline)) void *nothing2(uintptr_t a, uintptr_t b)
{
	void *result;
	__asm__ volatile("" : "=a"(result), "+D"(a), "+S"(b)
	                 : : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
	return result;
}
#else
#error "tell `nothing` the calling convention of this machine"
#endif

/* Each shape is written once, over four names, and compiled twice. */
#define SHAPES(suffix, MALLOC, FREE, CALLOC, REALLOC)                                     \
	/* One block: what an allocator can do when nothing else happens. */              \
	static __attribute__((noinline)) void pair_##suffix(long rounds, size_t bytes)    \
	{                                                                                 \
		for (long i = 0; i < rounds; i++)                                         \
			FREE(MALLOC(bytes));                                              \
	}                                                                                 \
	/* A ring of live blocks of one size: the oldest goes, a new one comes. */        \
	static __attribute__((noinline)) void window_##suffix(long rounds, size_t bytes)  \
	{                                                                                 \
		for (long i = 0; i < rounds; i++) {                                       \
			void **slot = &block[i & 63];                                     \
			FREE(*slot);                                                      \
			*slot = MALLOC(bytes);                                            \
		}                                                                         \
	}                                                                                 \
	/* `n` blocks of mixed sizes, then all of them freed in another order. */         \
	static __attribute__((noinline)) void batch_##suffix(long rounds, uint32_t n)     \
	{                                                                                 \
		for (long r = 0; r < rounds; r++) {                                       \
			for (uint32_t i = 0; i < n; i++)                                  \
				block[i] = MALLOC(bytes_of[i]);                           \
			for (uint32_t i = 0; i < n; i++)                                  \
				FREE(block[order[i]]);                                    \
		}                                                                         \
	}                                                                                 \
	/* Many live blocks; one at random is replaced by one of another size. */         \
	static __attribute__((noinline)) void churn_##suffix(long rounds, size_t unused)  \
	{                                                                                 \
		(void)unused;                                                             \
		for (long i = 0; i < rounds; i++) {                                       \
			void **slot = &block[order[i & 65535] & 32767];                   \
			FREE(*slot);                                                      \
			*slot = MALLOC(bytes_of[i & 65535]);                              \
		}                                                                         \
	}                                                                                 \
	static __attribute__((noinline)) void calloc_##suffix(long rounds, size_t bytes)  \
	{                                                                                 \
		for (long i = 0; i < rounds; i++)                                         \
			FREE(CALLOC(1, bytes));                                           \
	}                                                                                 \
	/* A string built 16 bytes at a time, up to 4 KiB; counted per realloc. */        \
	static __attribute__((noinline)) void grow_##suffix(long rounds, size_t unused)   \
	{                                                                                 \
		(void)unused;                                                             \
		for (long r = 0; r < rounds; r++) {                                       \
			void *p = NULL;                                                   \
			for (size_t bytes = 16; bytes <= 4096; bytes += 16)               \
				p = REALLOC(p, bytes);                                    \
			FREE(p);                                                          \
		}                                                                         \
	}

static void *block[65536];
static uint32_t order[65536];
static uint32_t bytes_of[65536];

#define EMPTY_MALLOC(n) nothing(n)
#define EMPTY_FREE(p) ((void)nothing((uintptr_t)(p)))
#define EMPTY_CALLOC(m, n) nothing2(m, n)
#define EMPTY_REALLOC(p, n) nothing2((uintptr_t)(p), n)
SHAPES(full, malloc, free, calloc, realloc)
SHAPES(empty, EMPTY_MALLOC, EMPTY_FREE, EMPTY_CALLOC, EMPTY_REALLOC)

int main(int argc, char **argv)
{
	if (argc < 3)
		die("usage: count pair:BYTES|window:BYTES|batch:N|churn|calloc:BYTES|grow ROUNDS [empty]");
	const char *shape = argv[1];
	const char *colon = strchr(shape, ':');
	size_t parameter = colon ? strtoul(colon + 1, NULL, 10) : 0;
	long rounds = atol(argv[2]);
	int empty = argc > 3;
	rng r = rng_seed(1);

	shuffle(&r, order, 65536);
#define RUN(f) (empty ? f##_empty(rounds, parameter) : f##_full(rounds, parameter))
	switch (shape[0] == 'c' ? shape[1] : shape[0]) {
	case 'p': RUN(pair); break;
	case 'w': RUN(window); break;
	case 'b':
		if (parameter == 0 || parameter > 65536)
			die("batch: 1 to 65536 blocks");
		shuffle(&r, order, (uint32_t)parameter);
		for (int i = 0; i < 65536; i++)
			bytes_of[i] = (uint32_t)size_uniform(&r, 16, 512);
		RUN(batch);
		break;
	case 'h':
		for (int i = 0; i < 65536; i++)
			bytes_of[i] = (uint32_t)size_skewed(&r);
		if (!empty)
			for (int i = 0; i < 32768; i++)
				block[i] = malloc(bytes_of[i]);
		RUN(churn);
		break;
	case 'a': RUN(calloc); break;
	case 'g': RUN(grow); break;
	default: die("no such shape");
	}
	return 0;
}
