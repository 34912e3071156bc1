/* Ninety days of a service in seconds: the test advances the fake host's clock, and compares resident with live memory
 * at each idle minute. The service works like a host of Lua:
 *
 *     a day    7 to 22 h    each hour: ten minutes of many requests, five of a few, then idle
 *              3 h          a night job: much memory for some minutes, in a thread that ends
 *              else         idle: once a minute a timer drops expired entries from the caches
 *
 *     states   12 live for ever, some per visitor for hours, one for every tenth request; each in its own heap, with
 *              Lua's calls (sized resizes and frees), Lua's sizes, and a collector that sometimes frees garbage
 *     caches   in threads' heaps: one thread fills them, another drops entries; most live for an hour, some for days
 *     requests blocks of 16 bytes to 1 MiB, most of them small (the number over s is as 1 / s); freed when it ends
 *     threads  three workers; two of them end each evening and begin again each morning
 *
 * Live memory is, by our own account of every block, all OS pages with a byte of a block: an allocator that does not
 * move blocks cannot keep less. Resident memory is the OS's figure for the fake host's memory, including glebe's
 * tables. At the end of each idle minute
 *
 *     resident <= 1.15 * live + 4 MiB
 *
 * Also, since every tenth day has the same load, the mean resident memory in the idle minutes of the last ten days is
 * at most 5 % more than that of days 10 to 19. `plans` says how the service is run. The last two plans are controls:
 * each breaks one rule, and the test must find it.
 *
 *     GLEBE_TEST_LONG=1    all plans, and four times the requests
 *     GLEBE_TEST_DAYS=n    instead of 90 (at least 30)
 *     GLEBE_TEST_SEED=n    another service (default 1)
 *     GLEBE_TEST_TRACE=1   a line for each half hour
 *     GLEBE_TEST_STEPS=n   requests in an hour (default 10); the lasting states grow with it */
#define FIXTURE_TRIM_FROM ((size_t)1 << 20) /* as in a real build: much memory, in many heaps with little each */
#define MODEL_REPEAT "test/model/months"
#include "model.h"

#include <limits.h>

enum { DAY = 24 * 60, WORKERS = 3, LASTING = 12, VISITORS = 48, STATES = LASTING + VISITORS + 1, ENTRIES = 8192,
    TEMPORARIES = 40 };

typedef struct block {
    unsigned char *at;
    uint32_t bytes, tag;
} block;

typedef struct state {
    glebe_heap *heap;
    block *objects; /* the live ones, then the garbage */
    size_t count, live, room, live_bytes, garbage_bytes;
    size_t wanted_bytes; /* live objects grow to this sum, then replace each other */
    long closes; /* minute */
} state;

typedef struct entry {
    block key, value;
    long expires; /* minute; 0: none */
} entry;

/* How the service is run, and the expected result. */
typedef struct plan {
    const char *name;
    bool background; /* the option */
    bool collects; /* threads and states call glebe_trim at noon and in the evening, the timer each hour */
    unsigned leaks; /* one in so many requests leaks a block; 0: none */
    bool follows, stays; /* resident memory is within the bound; it does not grow */
    bool seldom; /* only with GLEBE_TEST_LONG */
    long days; /* at most */
} plan;

static const plan plans[] = {
    {"background thread", true, false, 0, true, true, false, LONG_MAX},
    {"background thread, and collects", true, true, 0, true, true, true, LONG_MAX},
    {"collects", false, true, 0, true, true, true, LONG_MAX},
    {"control: no thread runs the steps", false, false, 0, false, true, false, 1},
    {"control: a leak", true, false, 2, true, false, false, 30},
};

static const plan *how;
static state states[STATES];
static entry entries[ENTRIES];
static long minute; /* since the start */
static uint32_t tag_last;
static uint16_t page_blocks[FAKE_BYTES >> FAKE_PAGE_LOG2]; /* how many blocks have a byte in it */
static size_t pages_live, blocks_live_bytes;
static uint64_t events; /* blocks allocated or freed */

/* ---- blocks, and the account of them ---- */

static void account(const block *b, int more)
{
    size_t from = (uintptr_t)b->at - fake_start, to = from + b->bytes - 1;
    for (size_t p = from >> FAKE_PAGE_LOG2; p <= to >> FAKE_PAGE_LOG2; p++) {
        pages_live += more > 0 && page_blocks[p] == 0;
        page_blocks[p] = (uint16_t)(page_blocks[p] + more);
        pages_live -= more < 0 && page_blocks[p] == 0;
    }
    events++;
    blocks_live_bytes += more > 0 ? b->bytes : 0 - (size_t)b->bytes;
}

/* Enters a new block, and writes to each of its pages. */
static block entered(void *at, size_t bytes)
{
    REQUIRE(at != NULL);
    block b = {at, (uint32_t)bytes, ++tag_last};
    for (size_t i = 0; i < bytes; i += FAKE_PAGE_BYTES)
        b.at[i] = (unsigned char)b.tag;
    b.at[bytes - 1] = (unsigned char)b.tag;
    account(&b, 1);
    return b;
}

static void leave(const block *b)
{
    for (size_t i = 0; i < b->bytes; i += FAKE_PAGE_BYTES)
        REQUIRE(b->at[i] == (unsigned char)b->tag);
    REQUIRE(b->at[b->bytes - 1] == (unsigned char)b->tag);
    account(b, -1);
}

static block take(size_t bytes) { return entered(glebe_malloc(bytes), bytes); }

static void drop(block *b)
{
    if (b->at) {
        leave(b);
        glebe_free(b->at);
    }
    b->at = NULL;
}

/* From `least` to 1 MiB; each doubling of the size is half as frequent. */
static size_t random_size(size_t least)
{
    size_t most = (size_t)1 << 20;
    return most / (1 + below(most / least));
}

/* ---- states ---- */

static void state_open(state *s, size_t wanted_bytes, long closes)
{
    s->heap = glebe_heap_create(64 << 20);
    REQUIRE(s->heap != NULL);
    s->wanted_bytes = wanted_bytes;
    s->closes = closes;
}

static void state_close(state *s)
{
    for (size_t i = 0; i < s->count; i++)
        leave(&s->objects[i]);
    glebe_heap_destroy(s->heap);
    free(s->objects);
    *s = (state){0};
}

/* A size that Lua 5.4 requests: strings, tables and their parts, closures; sometimes a buffer. */
static size_t lua_size(void)
{
    size_t pick = below(100);
    if (pick < 45)
        return 25 + below(48);
    if (pick < 65)
        return 56;
    if (pick < 80)
        return (size_t)24 << below(7);
    if (pick < 90)
        return (size_t)16 << below(9);
    return pick < 99 ? 32 + 8 * below(6) : random_size(256);
}

static void state_free(state *s, size_t i)
{
    leave(&s->objects[i]);
    glebe_heap_free_sized(s->heap, s->objects[i].at, s->objects[i].bytes);
}

static void state_sweep(state *s)
{
    while (s->count > s->live)
        state_free(s, --s->count);
    s->garbage_bytes = 0;
}

/* Object i dies: it changes places with the last live one. */
static void state_forget(state *s, size_t i)
{
    block b = s->objects[i];
    s->objects[i] = s->objects[--s->live];
    s->objects[s->live] = b;
    s->live_bytes -= b.bytes;
    s->garbage_bytes += b.bytes;
}

/* Tables grow: a block becomes twice as large. */
static void state_grow(state *s, block *b)
{
    size_t bytes = (size_t)b->bytes * 2;
    leave(b);
    *b = entered(glebe_heap_realloc_sized(s->heap, b->at, b->bytes, bytes), bytes);
    s->live_bytes += bytes / 2;
}

static void state_work(state *s, size_t objects)
{
    for (; objects > 0; objects--) {
        if (s->count == s->room) {
            s->room = s->room ? 2 * s->room : 64;
            s->objects = realloc(s->objects, s->room * sizeof *s->objects);
            REQUIRE(s->objects != NULL);
        }
        size_t bytes = lua_size();
        block b = entered(glebe_heap_malloc(s->heap, bytes), bytes);
        s->objects[s->count++] = s->objects[s->live];
        s->objects[s->live++] = b;
        s->live_bytes += bytes;
        if (one_in(16) && bytes < 4096)
            state_grow(s, &s->objects[s->live - 1]);
        while (s->live_bytes > s->wanted_bytes)
            state_forget(s, below(s->live));
        if (s->garbage_bytes > s->live_bytes)
            state_sweep(s);
    }
}

/* ---- caches ---- */

static void cache_put(size_t i)
{
    entry *e = &entries[i];
    drop(&e->key);
    drop(&e->value);
    e->key = take(24 + below(60));
    e->value = take(random_size(256));
    e->expires = minute + (one_in(32) ? (long)below(3 * DAY) : 20 + (long)below(80));
}

static void cache_expire(void)
{
    for (size_t i = 0; i < ENTRIES; i++)
        if (entries[i].expires && entries[i].expires <= minute) {
            drop(&entries[i].key);
            drop(&entries[i].value);
            entries[i].expires = 0;
        }
}

/* ---- the background thread: the test leaves its loop at a wait, and enters it again when the wait is over ---- */

static jmp_buf background_waits;
static uint64_t background_due, now; /* ms since the start, which do not wrap */

static void background_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    (void)word;
    (void)expected;
    REQUIRE(fixture_now == FIXTURE_THREADS - 1);
    background_due = ms == UINT32_MAX ? UINT64_MAX : now + ms;
    longjmp(background_waits, 1);
}

static void background_go(void)
{
    int before = fixture_now;
    fixture_thread(FIXTURE_THREADS - 1);
    if (setjmp(background_waits) == 0)
        fake.thread();
    fixture_thread(before);
}

static void pass(uint32_t ms)
{
    for (uint64_t end = now + ms;;) {
        bool nudged = background_due == UINT64_MAX && gb_load(&gb_the.background_state) == GB_BACKGROUND_RUNS;
        uint64_t next = nudged ? now : background_due;
        if (!fake.thread || next > end) {
            fake.now_ms += (uint32_t)(end - now);
            now = end;
            return;
        }
        if (next > now) {
            fake.now_ms += (uint32_t)(next - now);
            now = next;
        }
        background_go();
    }
}

/* ---- the service ---- */

static void collect(state *s)
{
    if (how->collects)
        glebe_trim(s ? s->heap : NULL);
}

static void request(void)
{
    fixture_thread((int)below(WORKERS));
    block temporaries[TEMPORARIES];
    size_t count = 8 + below(TEMPORARIES - 8);
    for (size_t i = 0; i < count; i++)
        temporaries[i] = take(random_size(16));
    for (int i = 0; i < 8; i++)
        cache_put(below(ENTRIES));
    state_work(&states[below(LASTING)], 100);
    size_t v = LASTING + below(VISITORS);
    if (!states[v].heap)
        state_open(&states[v], (size_t)50000 << below(4), minute + 60 + (long)below(10 * 60));
    state_work(&states[v], 100);
    if (one_in(10)) {
        state_open(&states[STATES - 1], (size_t)100000, 0);
        state_work(&states[STATES - 1], 300);
        state_close(&states[STATES - 1]);
    }
    for (size_t i = 0; i < count; i++) {
        if (i == count - 2)
            fixture_thread((int)below(WORKERS)); /* the thread that writes the answer frees the other blocks */
        drop(&temporaries[i]);
    }
    if (how->leaks && one_in(how->leaks))
        take(4000);
}

static void night_job(void)
{
    enum { MUCH = 2000 };
    static block rows[MUCH];
    fixture_thread(WORKERS);
    for (int i = 0; i < MUCH; i++)
        rows[i] = take(random_size(1024));
    pass(60000);
    for (int i = 0; i < MUCH; i++)
        drop(&rows[i]);
    collect(NULL);
    fixture_thread_end(WORKERS);
    fixture_thread(0);
}

static void timer(void)
{
    fixture_thread(0);
    cache_expire();
    for (size_t i = LASTING; i < STATES; i++)
        if (states[i].heap && states[i].closes <= minute)
            state_close(&states[i]);
}

static void rest(void)
{
    for (int k = 0; k < WORKERS; k++) {
        fixture_thread(k);
        collect(NULL);
    }
    for (size_t i = 0; i < STATES; i++)
        if (states[i].heap)
            collect(&states[i]);
}

/* Passes a minute; returns whether it was idle. */
static bool pass_minute(void)
{
    long of_day = minute % DAY, hour = of_day / 60, m = of_day % 60;
    bool day = hour >= 7 && hour < 23;
    long requests = !day || m >= 15 ? 0 : m >= 10 ? m % 2 : steps_wanted / 10;
    timer();
    if (of_day == 3 * 60)
        night_job();
    if (of_day == 23 * 60)
        for (int k = 1; k < WORKERS; k++)
            fixture_thread_end(k);
    for (long i = 0; i < requests; i++) {
        request();
        pass(50);
    }
    if (requests == 0) {
        if (of_day == 12 * 60 + 15 || of_day == 23 * 60 + 1)
            rest();
        else if (how->collects && m == 15) {
            fixture_thread(0);
            collect(NULL);
        }
    }
    pass(60000 - 50 * (uint32_t)requests);
    return requests == 0;
}

typedef struct mean {
    double sum;
    long count;
} mean;

typedef struct verdict {
    long idle; /* minutes */
    double live, resident; /* sums over the idle minutes */
    size_t worst_live, worst_resident; /* in the minute that was furthest over the bound, or nearest to it */
    long worst_minute;
    /* resident on days 10 to 19 and on the last ten days, since the peak of live memory differs from day to day */
    mean early, late;
} verdict;

static double mebi(double bytes) { return bytes / 1048576; }
static double mean_of(mean m) { return m.sum / (double)(m.count ? m.count : 1); }
static void mean_add(mean *m, double value)
{
    m->sum += value;
    m->count++;
}
static double bound(size_t live) { return (double)live * 1.15 + (4 << 20); }

/* Measures only if something has happened since the last time. */
static size_t resident_now(void)
{
    static uint64_t seen;
    static size_t resident;
    uint64_t happened = events + fake.purged_bytes + fake.calls[GB_FAKE_COMMIT];
    if (happened != seen)
        resident = gb_fake_resident_bytes();
    seen = happened;
    return resident;
}

static void look(verdict *v, long days)
{
    size_t live = pages_live << FAKE_PAGE_LOG2, resident = resident_now();
    long day = minute / DAY;
    if (v->idle++ == 0 || (double)resident - bound(live) > (double)v->worst_resident - bound(v->worst_live)) {
        v->worst_live = live;
        v->worst_resident = resident;
        v->worst_minute = minute;
    }
    v->live += (double)live;
    v->resident += (double)resident;
    if (day >= 10 && day < 20)
        mean_add(&v->early, (double)resident);
    if (day >= days - 10)
        mean_add(&v->late, (double)resident);
}

static void months(verdict *v, long days)
{
    bool tracing = number("GLEBE_TEST_TRACE", 0) != 0;
    fixture_start(seed);
    fake.exact = true;
    fake.on_wait = background_wait;
    background_due = 0;
    now = 0;
    pages_live = blocks_live_bytes = 0;
    memset(page_blocks, 0, sizeof page_blocks);
    memset(entries, 0, sizeof entries);
    chance = seed * 1000003;
    for (size_t i = 0; i < LASTING; i++) {
        state_open(&states[i], (size_t)steps_wanted * 10000 * (1 + i), LONG_MAX);
        state_work(&states[i], (size_t)steps_wanted * 100 * (1 + i));
    }
    if (how->background)
        REQUIRE(glebe_option("background", "1") == 0);
    for (minute = 0; minute < days * DAY; minute++) {
        if (minute % DAY == 0)
            chance = seed * 1000003 + (uint64_t)(minute / DAY % 10);
        if (pass_minute() && (!how->leaks || minute % 8 == 0))
            look(v, days);
        if (tracing && minute % 30 == 29)
            fprintf(stderr, "day %ld %02ld:%02ld  blocks %6.2f  live %6.2f  resident %6.2f  used %6.2f MiB\n",
                minute / DAY, minute / 60 % 24, minute % 60, mebi((double)blocks_live_bytes), (double)pages_live / 256,
                mebi((double)gb_fake_resident_bytes()), mebi((double)glebe_live.stats.used_bytes));
    }
    fixture_check();
    for (size_t i = 0; i < STATES; i++)
        if (states[i].heap)
            state_close(&states[i]);
}

/* In a failure, the step is the worst minute. */
static void plan_run(const plan *p, long days)
{
    verdict v = {0};
    how = p;
    days = days < p->days ? days : p->days;
    months(&v, days);
    step = (int)v.worst_minute;
    printf("%-32s %2ld days, seed %llu: resident / live %.3f over %ld idle minutes; ", p->name, days,
        (unsigned long long)seed, v.resident / v.live, v.idle);
    printf("worst, day %ld %02ld:%02ld, %.1f MiB, live %.1f, bound %.1f", v.worst_minute / DAY,
        v.worst_minute / 60 % 24, v.worst_minute % 60, mebi((double)v.worst_resident), mebi((double)v.worst_live),
        mebi(bound(v.worst_live)));
    if (days >= 30)
        printf("; mean, days 10 to 19 %.2f, %ld to %ld %.2f", mebi(mean_of(v.early)), days - 10, days - 1,
            mebi(mean_of(v.late)));
    puts("");
    REQUIRE(((double)v.worst_resident <= bound(v.worst_live)) == p->follows);
    REQUIRE(days < 30 || (mean_of(v.late) <= mean_of(v.early) * 1.05) == p->stays);
}

/* True if the OS reports which memory was touched and purged. False if OS pages are larger than ours, and under some
 * emulators. */
static bool host_tells(void)
{
    enum { BYTES = 1 << 18 };
    fixture_start(1);
    fake.exact = true;
    if (!fixture_guarded() || gb_port_commit(fake_start, BYTES, true) != GB_COMMITTED || gb_fake_resident_bytes() != 0)
        return false;
    memset((void *)fake_start, 1, BYTES);
    size_t touched = gb_fake_resident_bytes();
    gb_port_purge(fake_start, BYTES, false);
    return touched == BYTES && gb_fake_resident_bytes() == 0;
}

int main(void)
{
    bool all = number("GLEBE_TEST_LONG", 0) != 0;
    long days = number("GLEBE_TEST_DAYS", 90);
    setvbuf(stdout, NULL, _IOLBF, 0);
    steps_wanted = number("GLEBE_TEST_STEPS", all ? 40 : 10);
    seed = (uint64_t)number("GLEBE_TEST_SEED", 1);
    if (!host_tells()) {
        puts("skipped: this host does not tell what is resident");
        return 0;
    }
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        if (all || !plans[i].seldom)
            plan_run(&plans[i], days);
    return 0;
}
