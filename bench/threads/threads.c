/* The benches with threads.
 *
 *     threads MODE PARAMETER N
 *
 * Threads that run in parallel are easy for malloc. Blocks that cross threads
 * are hard: made in one and freed in another, or outliving their thread. Each
 * mode is one way of crossing. The work is the same in every run: threads meet
 * at fixed points and have their own seeds; the scheduler decides only which
 * thread waits.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static pthread_t start(void *(*f)(void *), void *argument)
{
	pthread_t t;
	if (pthread_create(&t, NULL, f, argument) != 0)
		die("pthread_create failed");
	return t;
}

static void churn_own(rng *r, void **slots, uint32_t live, long n)
{
	for (long i = 0; i < n; i++) {
		void **slot = &slots[rng_below(r, live)];
		free(*slot);
		*slot = take(size_skewed(r));
	}
}

static void free_all(void **slots, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(slots[i]);
}

/* ---- private THREADS: every thread churns its own blocks; none crosses. */

struct job {
	uint64_t seed;
	long n;
};

static void *private_thread(void *argument)
{
	struct job *job = argument;
	rng r = rng_seed(job->seed);
	void **slots = outside(4096 * sizeof *slots);
	churn_own(&r, slots, 4096, job->n);
	free_all(slots, 4096);
	return NULL;
}

static void private_heaps(size_t threads, long n)
{
	pthread_t t[64];
	struct job job[64];
	for (size_t i = 0; i < threads; i++) {
		job[i] = (struct job){i, n};
		t[i] = start(private_thread, &job[i]);
	}
	for (size_t i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
}

/* ---- pipe BATCH: one thread allocates batches, another frees them.
 * A batch is itself a block. The ring bounds how far the producer gets ahead. */

enum { RING = 64 };
static _Atomic(void **) ring[RING];
static size_t batch_size;

static void *pipe_consumer(void *argument)
{
	long n = *(long *)argument;
	for (long i = 0; i < n; i++) {
		void **batch;
		while (!(batch = atomic_exchange(&ring[i % RING], NULL)))
			sched_yield();
		free_all(batch, batch_size);
		free(batch);
	}
	return NULL;
}

static void pipe_bench(size_t size, long n)
{
	rng r = rng_seed(11);
	batch_size = size;
	pthread_t consumer = start(pipe_consumer, &n);
	for (long i = 0; i < n; i++) {
		void **batch = take(size * sizeof *batch);
		for (size_t k = 0; k < size; k++)
			batch[k] = take(size_uniform(&r, 16, 144));
		void **empty = NULL;
		while (!atomic_compare_exchange_weak(&ring[i % RING], &empty, batch)) {
			empty = NULL;
			sched_yield();
		}
	}
	pthread_join(consumer, NULL);
}

/* ---- short OVERLAP: many short-lived threads, OVERLAP at a time. Each
 * allocates and frees a little, and leaves a few blocks behind, which its
 * creator frees later. With OVERLAP 1 they run strictly one after another. */

enum { LEFT_BEHIND = 16 };

struct brief {
	uint64_t seed;
	void *left[LEFT_BEHIND];
};

static void *brief_thread(void *argument)
{
	struct brief *brief = argument;
	rng r = rng_seed(brief->seed);
	void *mine[64];
	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < 64; i++)
			mine[i] = take(size_skewed(&r));
		free_all(mine, 64);
	}
	for (int i = 0; i < LEFT_BEHIND; i++)
		brief->left[i] = take(size_skewed(&r));
	return NULL;
}

static void short_threads(size_t overlap, long n)
{
	pthread_t t[64];
	struct brief brief[64];
	for (long done = 0; done < n; done += (long)overlap) {
		for (size_t i = 0; i < overlap; i++) {
			brief[i].seed = (uint64_t)done + i;
			t[i] = start(brief_thread, &brief[i]);
		}
		for (size_t i = 0; i < overlap; i++) {
			pthread_join(t[i], NULL);
			free_all(brief[i].left, LEFT_BEHIND);
		}
	}
}

/* ---- larson THREADS: a server whose workers are replaced. Each worker takes
 * over its predecessor's blocks, replaces them at random, and passes them on. */

struct worker {
	void *slots[1024];
	rng r;
	long n;
};

static void *larson_thread(void *argument)
{
	struct worker *w = argument;
	for (long i = 0; i < w->n; i++) {
		void **slot = &w->slots[rng_below(&w->r, 1024)];
		free(*slot);
		*slot = take(size_uniform(&w->r, 8, 1000));
	}
	return NULL;
}

static void larson(size_t threads, long n)
{
	enum { GENERATIONS = 40 };
	struct worker *w = outside(threads * sizeof *w);
	pthread_t t[64];
	for (size_t i = 0; i < threads; i++) {
		w[i].r = rng_seed(i + 21);
		w[i].n = n / GENERATIONS;
	}
	for (int generation = 0; generation < GENERATIONS; generation++) {
		for (size_t i = 0; i < threads; i++)
			t[i] = start(larson_thread, &w[i]);
		for (size_t i = 0; i < threads; i++)
			pthread_join(t[i], NULL);
	}
	for (size_t i = 0; i < threads; i++)
		free_all(w[i].slots, 1024);
}

/* ---- crossing THREADS: one table of blocks for all. Each thread swaps a new
 * block into a random slot and frees what was there, whichever thread made it. */

enum { TABLE = 16384 };
static _Atomic(void *) table[TABLE];

static void *crossing_thread(void *argument)
{
	struct job *job = argument;
	rng r = rng_seed(job->seed + 31);
	for (long i = 0; i < job->n; i++) {
		void *p = take(size_skewed(&r));
		free(atomic_exchange(&table[rng_below(&r, TABLE)], p));
	}
	return NULL;
}

static void crossing(size_t threads, long n)
{
	pthread_t t[64];
	struct job job[64];
	for (size_t i = 0; i < threads; i++) {
		job[i] = (struct job){i, n};
		t[i] = start(crossing_thread, &job[i]);
	}
	for (size_t i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	for (size_t i = 0; i < TABLE; i++)
		free(table[i]);
}

/* ---- lopsided LIVE: in rounds, one thread only allocates into a large live
 * set, another only frees from it in another order. The allocating thread frees
 * no block itself, so it must reuse blocks that the other freed. */

struct half {
	void **slots;
	uint32_t *order;
	size_t live;
};

static void *freeing_thread(void *argument)
{
	struct half *h = argument;
	for (size_t i = 0; i < h->live; i++)
		free(h->slots[h->order[i]]);
	return NULL;
}

static void lopsided(size_t live, long n)
{
	rng r = rng_seed(41);
	struct half half[2];
	pthread_t freer;
	for (int i = 0; i < 2; i++) {
		half[i].slots = outside(live * sizeof(void *));
		half[i].order = outside(live * sizeof(uint32_t));
		half[i].live = live;
		shuffle(&r, half[i].order, (uint32_t)live);
	}
	for (long i = 0; i < n; i++) {
		struct half *h = &half[i & 1];
		for (size_t k = 0; k < live; k++)
			h->slots[k] = take(size_uniform(&r, 16, 256));
		if (i > 0)
			pthread_join(freer, NULL);
		freer = start(freeing_thread, h);
	}
	if (n > 0)
		pthread_join(freer, NULL);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		die("usage: threads MODE PARAMETER N");
	const char *mode = argv[1];
	size_t parameter = strtoul(argv[2], NULL, 10);
	long n = atol(argv[3]);

	if (strcmp(mode, "pipe") == 0) pipe_bench(parameter, n);
	else if (strcmp(mode, "lopsided") == 0) lopsided(parameter, n);
	else if (parameter < 1 || parameter > 64) die("1 to 64 threads");
	else if (strcmp(mode, "private") == 0) private_heaps(parameter, n);
	else if (strcmp(mode, "short") == 0) short_threads(parameter, n);
	else if (strcmp(mode, "larson") == 0) larson(parameter, n);
	else if (strcmp(mode, "crossing") == 0) crossing(parameter, n);
	else die("no such mode");
	return 0;
}
