/* A service in Lua, whose days are two minutes long. It calls malloc and free like any program; an allocator is
 * preloaded.
 *
 *     service DAYS SECONDS     so many days of so many seconds; in each
 *
 *     hours 7 to 22   in the first third of each hour three threads serve requests; then idle until the next hour
 *     hour 3          a night job: a large table in a state of its own, in a thread that ends
 *     else            idle; ten times an hour a timer drops expired entries from the caches
 *
 * Twelve states last; visitors' states are open for hours; every tenth request opens a state and closes it. Lua's
 * collector runs by itself, and fully in each lasting state after the last request of an hour, as in real hosts. Two of
 * the threads end in the evening and start again in the morning. The work of an hour follows from a fixed seed, and is
 * the same under every malloc.
 *
 * Each state's allocator works like Lua's own (realloc and free), and counts the OS pages with a byte of a block:
 * `live`, the least that could be resident. It includes the caches' blocks, but not other memory of Lua's buffers, libc
 * and threads. Ten times an hour a thread that never allocates writes
 *
 *     DAY HOUR.TENTH PHASE BYTES LIVE RESIDENT PSS REQUESTS     bytes, of blocks and of pages; resident and pss less
 *                                                               the values at the start
 *
 * The counts are in address space of their own: two bytes for each page of handed out memory, some ten KiB in all. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 3, LASTING = 4, VISITORS = 10, ENTRIES = 8192, REQUESTS = 15 /* of a thread, in an hour */ };

static double hour_seconds;
static struct timespec began;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "service: %s\n", what);
    _exit(2);
}

/* ---- the account of pages: a table of tables, the first of 2^17 pointers, each to 2^18 counts ---- */

enum { PAGE_LOG2 = 12, LEAF_LOG2 = 18 };
static _Atomic(uint16_t *) *leaves;
static _Atomic long live_pages, live_bytes;
static pthread_mutex_t account_lock = PTHREAD_MUTEX_INITIALIZER;

static void *outside(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        die("no address space");
    madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

static void account(const void *block, size_t bytes, int more)
{
    if (!block || !bytes)
        return;
    pthread_mutex_lock(&account_lock);
    for (uintptr_t p = (uintptr_t)block >> PAGE_LOG2; p <= ((uintptr_t)block + bytes - 1) >> PAGE_LOG2; p++) {
        if (!leaves[p >> LEAF_LOG2])
            leaves[p >> LEAF_LOG2] = outside(sizeof(uint16_t) << LEAF_LOG2);
        uint16_t *count = &leaves[p >> LEAF_LOG2][p & (((uintptr_t)1 << LEAF_LOG2) - 1)];
        live_pages += more > 0 ? *count == 0 : -(*count == 1);
        *count = (uint16_t)(*count + more);
    }
    live_bytes += more * (long)bytes;
    pthread_mutex_unlock(&account_lock);
}

/* As lauxlib's allocator. A block counts with its requested bytes. */
static void *lua_blocks(void *ud, void *block, size_t old_bytes, size_t bytes)
{
    (void)ud;
    account(block, old_bytes, -1);
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    void *p = realloc(block, bytes);
    if (p)
        account(p, bytes, 1);
    else
        account(block, old_bytes, 1);
    return p;
}

/* ---- random numbers, and mostly small sizes ---- */

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t n) { return (size_t)(random_next(state) % n); }

static size_t size_from(uint64_t *state, size_t least)
{
    size_t most = (size_t)1 << 20;
    return most / (1 + below(state, most / least));
}

/* ---- time: in hours since the start ---- */

static double hours_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return ((double)(t.tv_sec - began.tv_sec) + (double)(t.tv_nsec - began.tv_nsec) / 1e9) / hour_seconds;
}

static void sleep_until(double hour)
{
    double left = (hour - hours_now()) * hour_seconds;
    if (left > 0)
        nanosleep(&(struct timespec){(time_t)left, (long)((left - (double)(time_t)left) * 1e9)}, NULL);
}

static int is_day(long hour) { return hour % 24 >= 7 && hour % 24 < 23; }

/* ---- states ---- */

static const char script[] =
    "local records, n = {}, 0\n"
    "function handle(keep, count, seed)\n"
    "  math.randomseed(seed)\n"
    "  local out = {}\n"
    "  for i = 1, count do\n"
    "    n = n % keep + 1\n"
    "    local r = { id = n, name = 'user' .. math.random(1 << 30), tags = {} }\n"
    "    for t = 1, math.random(6) do r.tags[t] = 'tag' .. math.random(2000) end\n"
    "    if math.random(8) == 1 then r.body = string.rep('x', (1 << 14) // math.random(64)) end\n"
    "    r.on = function() return r.name end\n"
    "    records[n] = r\n"
    "    out[#out + 1] = string.format('%s:%d:%s', r.on(), #r.tags, table.concat(r.tags, ','))\n"
    "  end\n"
    "  return #table.concat(out, '\\n')\n"
    "end\n";

static lua_State *state_open(void)
{
    lua_State *L = lua_newstate(lua_blocks, NULL);
    if (!L)
        die("no state");
    luaL_openlibs(L);
    if (luaL_dostring(L, script))
        die(lua_tostring(L, -1));
    return L;
}

static void state_handle(lua_State *L, int keep, int count, uint64_t seed)
{
    lua_getglobal(L, "handle");
    lua_pushinteger(L, keep);
    lua_pushinteger(L, count);
    lua_pushinteger(L, (lua_Integer)(seed >> 1));
    if (lua_pcall(L, 3, 1, 0))
        die(lua_tostring(L, -1));
    lua_pop(L, 1);
}

/* ---- caches: of all threads, under a lock ---- */

static struct entry {
    char *value;
    size_t bytes;
    double expires;
} entries[ENTRIES];
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

static char *take(size_t bytes)
{
    char *p = malloc(bytes);
    if (!p)
        die("no memory");
    memset(p, 1, bytes);
    account(p, bytes, 1);
    return p;
}

static void drop(char *p, size_t bytes)
{
    account(p, bytes, -1);
    free(p);
}

static void cache_put(uint64_t *chance)
{
    size_t bytes = size_from(chance, 256);
    double lasts = below(chance, 32) ? 0.3 + (double)below(chance, 100) / 70 : (double)below(chance, 60);
    struct entry fresh = {take(bytes), bytes, hours_now() + lasts};
    pthread_mutex_lock(&cache_lock);
    struct entry *e = &entries[below(chance, ENTRIES)], old = *e;
    *e = fresh;
    pthread_mutex_unlock(&cache_lock);
    drop(old.value, old.bytes);
}

static void cache_expire(void)
{
    double now = hours_now();
    pthread_mutex_lock(&cache_lock);
    for (int i = 0; i < ENTRIES; i++)
        if (entries[i].value && entries[i].expires <= now) {
            drop(entries[i].value, entries[i].bytes);
            entries[i].value = NULL;
        }
    pthread_mutex_unlock(&cache_lock);
}

/* ---- threads ---- */

static struct worker {
    lua_State *lasting[LASTING], *visitors[VISITORS];
    long closes[VISITORS]; /* hours */
    pthread_t thread;
    int number;
    long done; /* the hour */
} workers[WORKERS];
static long hour_of_work; /* the hour that the workers work on */
static int ends[WORKERS];
static _Atomic int busy;
static _Atomic long requests;
static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_comes = PTHREAD_COND_INITIALIZER;

static void request(struct worker *w, long hour, uint64_t *chance)
{
    enum { MOST = 40 };
    char *blocks[MOST];
    size_t bytes[MOST], count = 8 + below(chance, MOST - 8);
    for (size_t i = 0; i < count; i++)
        blocks[i] = take(bytes[i] = size_from(chance, 16));
    for (int i = 0; i < 30; i++)
        cache_put(chance);
    int k = (int)below(chance, LASTING), v = (int)below(chance, VISITORS);
    state_handle(w->lasting[k], 1200 * (k + 1), 60, random_next(chance));
    if (!w->visitors[v]) {
        w->visitors[v] = state_open();
        w->closes[v] = hour + 1 + (long)below(chance, 10);
    }
    state_handle(w->visitors[v], 600, 60, random_next(chance));
    if (below(chance, 10) == 0) {
        lua_State *L = state_open();
        state_handle(L, 2000, 2000, random_next(chance));
        lua_close(L);
    }
    for (size_t i = 0; i < count; i++)
        drop(blocks[i], bytes[i]);
    requests++;
}

static void work(struct worker *w, long hour)
{
    uint64_t chance = (uint64_t)hour % 24 * WORKERS + (uint64_t)w->number + 1; /* all days are the same */
    for (int i = 0; i < REQUESTS; i++) {
        request(w, hour, &chance);
        sleep_until((double)hour + (double)(i + 1) / REQUESTS / 3);
    }
    for (int k = 0; k < LASTING; k++)
        lua_gc(w->lasting[k], LUA_GCCOLLECT);
}

static void *worker_run(void *argument)
{
    struct worker *w = argument;
    for (;;) {
        pthread_mutex_lock(&work_lock);
        while (hour_of_work == w->done && !ends[w->number])
            pthread_cond_wait(&work_comes, &work_lock);
        w->done = hour_of_work;
        int end = ends[w->number];
        pthread_mutex_unlock(&work_lock);
        if (end)
            return NULL;
        work(w, w->done);
        busy--;
    }
}

static void workers_end(int from, int ended)
{
    pthread_mutex_lock(&work_lock);
    for (int i = from; i < WORKERS; i++) {
        ends[i] = ended;
        workers[i].done = hour_of_work;
    }
    pthread_cond_broadcast(&work_comes);
    pthread_mutex_unlock(&work_lock);
    for (int i = from; i < WORKERS; i++)
        if (ended)
            pthread_join(workers[i].thread, NULL);
        else
            pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
}

/* A thread owns its states while it works. The main thread opens them before, and closes visitors' states when no
 * request is served. */
static void visitors_close(long hour)
{
    for (int i = 0; i < WORKERS; i++)
        for (int v = 0; v < VISITORS; v++)
            if (workers[i].visitors[v] && workers[i].closes[v] <= hour) {
                lua_close(workers[i].visitors[v]);
                workers[i].visitors[v] = NULL;
            }
}

static void *night_job(void *unused)
{
    lua_State *L = state_open();
    state_handle(L, 1 << 20, 40000, 7);
    lua_close(L);
    return unused;
}

/* ---- measuring ---- */

static size_t field(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found ? strtoul(found + strlen(name), NULL, 10) << 10 : 0;
}

static void resident_read(size_t *resident, size_t *pss)
{
    char text[4096];
    int fd = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        die("cannot read smaps_rollup");
    close(fd);
    text[n] = 0;
    *resident = field(text, "\nRss:");
    *pss = field(text, "\nPss:");
}

static _Atomic int over;

static void *watch(void *before)
{
    for (long tenth = 1; !over; tenth++) {
        sleep_until((double)tenth / 10 - 0.01);
        char line[200];
        const size_t *start = before;
        size_t resident, pss;
        resident_read(&resident, &pss);
        long hour = (tenth - 1) / 10;
        int n = snprintf(line, sizeof line, "%ld %ld.%ld %s %ld %ld %zd %zd %ld\n", hour / 24, hour % 24,
            (tenth - 1) % 10, busy ? "busy" : hour % 24 == 3 ? "job" : "idle", live_bytes,
            live_pages << PAGE_LOG2, (ssize_t)(resident - start[0]), (ssize_t)(pss - start[1]), requests);
        if (write(1, line, (size_t)n) != n)
            _exit(3);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("DAYS SECONDS");
    long days = atol(argv[1]);
    hour_seconds = atof(argv[2]) / 24;
    leaves = outside(sizeof *leaves << (47 - PAGE_LOG2 - LEAF_LOG2));
    memset(entries, 0, sizeof entries);
    size_t before[2];
    resident_read(&before[0], &before[1]);
    clock_gettime(CLOCK_MONOTONIC, &began);
    pthread_t watcher, job;
    hour_of_work = -1;
    for (int i = 0; i < WORKERS; i++) {
        workers[i].number = i;
        for (int k = 0; k < LASTING; k++)
            workers[i].lasting[k] = state_open();
    }
    workers_end(0, 0);
    pthread_create(&watcher, NULL, watch, before);
    for (long hour = 0; hour < days * 24; hour++) {
        if (hour % 24 == 23)
            workers_end(1, 1);
        if (hour % 24 == 7 && hour > 24)
            workers_end(1, 0);
        if (hour % 24 == 3) {
            pthread_create(&job, NULL, night_job, NULL);
            pthread_join(job, NULL);
        }
        if (is_day(hour)) {
            busy = WORKERS;
            pthread_mutex_lock(&work_lock);
            hour_of_work = hour;
            pthread_cond_broadcast(&work_comes);
            pthread_mutex_unlock(&work_lock);
        }
        for (int tenth = 1; tenth <= 10; tenth++) {
            sleep_until((double)hour + (double)tenth / 10 - 0.05);
            cache_expire();
        }
        while (busy) /* late: a slow machine */
            usleep(1000);
        visitors_close(hour);
        sleep_until((double)hour + 1);
    }
    over = 1;
    pthread_join(watcher, NULL);
    return 0;
}
