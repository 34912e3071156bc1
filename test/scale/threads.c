/* Thousands of threads: what each costs while it lives, and what it leaves when it ends. Their stacks are cut from one
 * mapping, so that the mappings are the allocator's. */
#include "scale.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { STACK = 64 << 10 };

struct crowd {
    size_t count;
    pthread_t *threads;
    char *stacks;
};

/* Stacks are resident from the start, and so in no figure; or they count as far as they are touched. */
static struct crowd crowd_of(size_t count, bool resident)
{
    char *stacks = resident ? outside(count * STACK)
        : mmap(NULL, count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stacks == MAP_FAILED)
        die("no memory for stacks");
    return (struct crowd){count, outside(count * sizeof(pthread_t)), stacks};
}

static size_t start(struct crowd *crowd, size_t first, size_t end, void *(*run)(void *), char *arguments, size_t step)
{
    for (size_t i = first; i < end; i++) {
        pthread_attr_t how;
        pthread_attr_init(&how);
        pthread_attr_setstack(&how, crowd->stacks + i % crowd->count * STACK, STACK);
        int failed = pthread_create(&crowd->threads[i % crowd->count], &how, run, arguments + i * step);
        pthread_attr_destroy(&how);
        if (failed) {
            refuse(end - i);
            return i;
        }
    }
    return end;
}

static void join(struct crowd *crowd, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        pthread_join(crowd->threads[i % crowd->count], NULL);
}

/* All threads of a crowd exist before any continues. */
static pthread_barrier_t all_there;

/* ---- threads that ended ---- */

struct task { struct set set; bool own; };

static void *take_and_end(void *argument)
{
    struct task *task = argument;
    set_take(&task->set, 0, task->set.count);
    if (task->own) {
        pthread_barrier_wait(&all_there);
        set_drop(&task->set, 0, task->set.count, all);
    }
    merge_longest();
    return NULL;
}

/* THREADS KIB BYTES OWN MS. Freed memory is measured after this much light work. Then main allocates as much by blocks
 * of twice the size. */
void ended_case(const size_t *argument)
{
    size_t threads = argument[0], each = (argument[1] << 10) / argument[2], took = 0;
    struct crowd crowd = crowd_of(threads, true);
    struct task *tasks = outside(threads * sizeof *tasks);
    struct set twice = set_of(threads * each / 2, argument[2] * 2, argument[2] * 2);
    for (size_t i = 0; i < threads; i++)
        tasks[i] = (struct task){set_of(each, argument[2], argument[2]), argument[3]};
    begin();
    pthread_barrier_init(&all_there, NULL, (unsigned)threads);
    took = start(&crowd, 0, threads, take_and_end, (char *)tasks, sizeof *tasks);
    if (took < threads)
        die("no thread"); /* the threads at the barrier wait for all */
    join(&crowd, 0, threads);
    mappings();
    say("ended_peak_kb", (double)peak_kb());
    for (size_t i = 0; i < threads; i++)
        set_drop(&tasks[i].set, 0, each, all);
    say_resident("freed_kb");
    say("free_most_us", most_cpu_us());
    start_longest();
    light_work(argument[4]);
    say("light_most_us", most_cpu_us());
    say_resident("after_light_kb");
    double live_kb = (double)(threads * (argument[1]));
    say("after_light_of_freed", (double)resident_kb() / live_kb);
    set_take(&twice, 0, twice.count);
    say_resident("again_kb");
    say("peak_of_live", (double)peak_kb() / live_kb);
    mappings();
    set_end(&twice);
}

/* ---- threads that sleep ---- */

static pthread_barrier_t filled;
static sem_t may_wake;

static void *take_and_sleep(void *argument)
{
    struct set *set = argument;
    set_take(set, 0, set->count);
    pthread_barrier_wait(&filled);
    while (sem_wait(&may_wake))
        continue;
    char *block = ask(set->from_bytes); /* the thread works on with its heap as it is then */
    give(block);
    merge_longest();
    return NULL;
}

/* THREADS KIB FROM TO MS. Thread by thread allocates this much and sleeps, and main frees it. After this much light
 * work all wake. */
void asleep_case(const size_t *argument)
{
    size_t threads = argument[0], each = (argument[1] << 10) / ((argument[2] + argument[3]) / 2);
    struct crowd crowd = crowd_of(threads, true);
    struct set *sets = outside(threads * sizeof *sets);
    for (size_t i = 0; i < threads; i++)
        sets[i] = set_of(each, argument[2], argument[3]);
    begin();
    sem_init(&may_wake, 0, 0);
    pthread_barrier_init(&filled, NULL, 2);
    for (size_t i = 0; i < threads; i++) {
        if (start(&crowd, i, i + 1, take_and_sleep, (char *)sets, sizeof *sets) == i)
            die("no thread");
        pthread_barrier_wait(&filled);
        set_drop(&sets[i], 0, each, all);
    }
    mappings();
    say_resident("freed_kb");
    start_longest();
    light_work(argument[4]);
    say("light_most_us", most_cpu_us());
    say_resident("after_light_kb");
    say("after_light_of_freed", (double)resident_kb() / (double)(threads * argument[1]));
    for (size_t i = 0; i < threads; i++)
        sem_post(&may_wake);
    join(&crowd, 0, threads);
}

/* ---- threads that live at once ---- */

struct liver { char **at; size_t count; };
static sem_t may_end;

static void *live(void *argument)
{
    struct liver *own = argument;
    for (size_t i = 0; i < own->count; i++) {
        size_t bytes = 16 + mixed(i) % 240;
        own->at[i] = ask(bytes);
        if (own->at[i])
            stamp(own->at[i], bytes, (uint64_t)(uintptr_t)&own->at[i], false);
    }
    pthread_barrier_wait(&all_there);
    sem_wait(&may_end);
    for (size_t i = 0; i < own->count; i++) {
        if (own->at[i])
            check_stamp(own->at[i], 16 + mixed(i) % 240, (uint64_t)(uintptr_t)&own->at[i], false);
        give(own->at[i]);
    }
    merge_longest();
    return NULL;
}

/* THREADS BLOCKS */
void live_threads_case(const size_t *argument)
{
    size_t threads = argument[0], blocks = argument[1];
    struct crowd crowd = crowd_of(threads, false);
    struct liver *lives = outside(threads * sizeof *lives);
    char **at = outside(threads * blocks * sizeof *at);
    for (size_t i = 0; i < threads; i++)
        lives[i] = (struct liver){at + i * blocks, blocks};
    begin();
    sem_init(&may_end, 0, 0);
    pthread_barrier_init(&all_there, NULL, (unsigned)threads + 1);
    if (start(&crowd, 0, threads, live, (char *)lives, sizeof *lives) < threads)
        die("no thread");
    pthread_barrier_wait(&all_there);
    mappings();
    say_resident("live_kb");
    say("kb_each", (double)resident_kb() / (double)threads);
    for (size_t i = 0; i < threads; i++)
        sem_post(&may_end);
    join(&crowd, 0, threads);
    say_resident("ended_kb");
}

/* ---- threads that serve a request now and then ---- */

enum { SESSIONS = 1000, LEAST = 20, MOST = 200, KEPT = 4, LOOK_AT_CAP = 256 };

/* What one request takes; the first blocks stay until the session's next request. */
struct session {
    struct set small, medium, large;
    uint64_t served;
};

struct worker {
    sem_t go, *done;
    struct session *session; /* NULL: end */
};

struct client {
    size_t number, requests;
    sem_t done;
};

static struct session sessions[SESSIONS];
static struct worker *workers;
static size_t worker_count;

static void serve(struct session *session)
{
    uint64_t which = (uint64_t)(session - sessions) << 24 | session->served++, random = mixed(which);
    size_t count = LEAST + random % (MOST - LEAST + 1), kept = random / MOST % (KEPT + 1);
    bool is_large = random >> 60 == 0;
    set_drop(&session->small, 0, KEPT, all);
    session->small.seed = session->medium.seed = session->large.seed = which << 8;
    set_take(&session->small, 0, count);
    set_take(&session->medium, 0, 1);
    set_take(&session->large, 0, is_large);
    set_drop(&session->large, 0, is_large, all);
    set_drop(&session->medium, 0, 1, all);
    set_drop(&session->small, kept, count, all);
}

static void *work(void *argument)
{
    struct worker *self = argument;
    for (;;) {
        while (sem_wait(&self->go))
            continue;
        if (!self->session)
            break;
        serve(self->session);
        sem_post(self->done);
    }
    merge_longest();
    return NULL;
}

static void request(struct client *client, struct session *session)
{
    struct worker *worker = &workers[(size_t)(session - sessions) % worker_count];
    worker->session = session;
    worker->done = &client->done;
    sem_post(&worker->go);
    while (sem_wait(&client->done))
        continue;
}

/* One client's sessions have even numbers, the other's odd ones, and so have their workers. */
static void *be_client(void *argument)
{
    struct client *client = argument;
    for (size_t i = 0; i < client->requests; i++) {
        if (i % LOOK_AT_CAP == 0 && over_cap()) {
            refuse(client->requests - i);
            break;
        }
        request(client, &sessions[mixed(i * 2 + client->number) % (SESSIONS / 2) * 2 + client->number]);
    }
    return NULL;
}

/* THREADS REQUESTS: an even number of threads, which share 1,000 sessions. Two clients each wait for one request at a
 * time, so it is the same work with any number of threads. */
void seldom_case(const size_t *argument)
{
    worker_count = argument[0];
    struct crowd crowd = crowd_of(worker_count, true), both = crowd_of(2, true);
    struct client clients[2];
    char **at = outside(SESSIONS * (MOST + 2) * sizeof *at);
    workers = outside(worker_count * sizeof *workers);
    for (size_t i = 0; i < SESSIONS; i++, at += MOST + 2)
        sessions[i] = (struct session){.small = {.at = at, .count = MOST, .from_bytes = 16, .to_bytes = 2048},
            .medium = {.at = at + MOST, .count = 1, .from_bytes = 8 << 10, .to_bytes = 64 << 10},
            .large = {.at = at + MOST + 1, .count = 1, .from_bytes = 100 << 10, .to_bytes = 1 << 20}};
    for (size_t i = 0; i < worker_count; i++)
        sem_init(&workers[i].go, 0, 0);
    for (size_t i = 0; i < 2; i++) {
        clients[i] = (struct client){.number = i, .requests = argument[1] / 2};
        sem_init(&clients[i].done, 0, 0);
    }
    begin();
    if (start(&crowd, 0, worker_count, work, (char *)workers, sizeof *workers) < worker_count
        || start(&both, 0, 2, be_client, (char *)clients, sizeof *clients) < 2)
        die("no thread");
    join(&both, 0, 2);
    mappings();
    say_resident("live_kb");
    say("threads", (double)worker_count);
    for (size_t i = 0; i < SESSIONS; i++)
        set_drop(&sessions[i].small, 0, KEPT, all);
    for (size_t i = 0; i < worker_count; i++) {
        workers[i].session = NULL;
        sem_post(&workers[i].go);
    }
    join(&crowd, 0, worker_count);
}

/* ---- threads that free each other's blocks ---- */

enum { PLACES = 100000 };
static char *_Atomic *places;

struct exchanger { uint64_t number, count; };

static size_t exchanged_bytes(uint64_t which) { return 32 + mixed(which) % 512; }

/* The block's number is in its first word, since another thread checks it. */
static void exchanged_end(char *block)
{
    uint64_t which = *(uint64_t *)block;
    check_stamp(block + sizeof which, exchanged_bytes(which) - sizeof which, which, false);
    free(block);
}

static void *exchange(void *argument)
{
    struct exchanger *self = argument;
    for (uint64_t i = 0, which = self->number << 40; i < self->count; i++, which++) {
        size_t bytes = exchanged_bytes(which);
        char *block = malloc(bytes);
        if (!block) {
            refuse(1);
            continue;
        }
        *(uint64_t *)block = which;
        stamp(block + sizeof which, bytes - sizeof which, which, false);
        block = atomic_exchange(&places[mixed(which * 2 + 1) % PLACES], block);
        if (block)
            exchanged_end(block);
    }
    return NULL;
}

/* THREADS COUNT: each puts COUNT blocks into random places of one table, and frees what was there. */
void exchange_case(const size_t *argument)
{
    struct crowd crowd = crowd_of(argument[0], true);
    struct exchanger *exchangers = outside(argument[0] * sizeof *exchangers);
    places = outside(PLACES * sizeof *places);
    for (size_t i = 0; i < argument[0]; i++)
        exchangers[i] = (struct exchanger){i, argument[1]};
    begin();
    if (start(&crowd, 0, argument[0], exchange, (char *)exchangers, sizeof *exchangers) < argument[0])
        die("no thread");
    join(&crowd, 0, argument[0]);
    mappings();
    say_resident("live_kb");
    for (size_t i = 0; i < PLACES; i++)
        if (places[i])
            exchanged_end(places[i]);
}

/* ---- threads that start and end ---- */

enum { PASSING = 60 };
static char **left;

/* Mostly small blocks, one of a page's size, one of half a MiB. The first stays after the thread has ended. */
static void *pass(void *argument)
{
    char **own = argument, *blocks[PASSING];
    uint64_t which = (uint64_t)(own - left);
    for (size_t i = 0; i < PASSING; i++) {
        size_t bytes = i == 1 ? 4096 : i == 2 ? (size_t)512 << 10 : 16 + mixed(which * PASSING + i) % 1000;
        blocks[i] = ask(bytes);
        if (blocks[i])
            stamp(blocks[i], 16, which + i, false);
    }
    for (size_t i = 0; i < PASSING; i++) {
        if (!blocks[i])
            continue;
        check_stamp(blocks[i], 16, which + i, false);
        if (i)
            give(blocks[i]);
    }
    *own = blocks[0];
    merge_longest();
    return NULL;
}

/* THREADS TOGETHER */
void passing_case(const size_t *argument)
{
    size_t threads = argument[0], together = argument[1];
    struct crowd crowd = crowd_of(together, true);
    left = outside(threads * sizeof *left);
    begin();
    for (size_t first = 0; first < threads; first += together) {
        size_t end = first + together < threads ? first + together : threads;
        join(&crowd, first, start(&crowd, first, end, pass, (char *)left, sizeof *left));
    }
    mappings();
    say_resident("live_kb");
    say("kb_each", (double)resident_kb() / (double)threads);
    for (size_t i = 0; i < threads; i++) {
        if (left[i])
            check_stamp(left[i], 16, i, false);
        give(left[i]);
    }
}
