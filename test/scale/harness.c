#include "scale.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { GROUP = 16, FIGURES = 64, LOOK = 1024 /* blocks between two looks at the cap */, MILLISECOND_NS = 1000000 };

/* The longest request: by the steady clock; the CPU time of that request (or of its group); the most CPU time of any.
 * And how many (or groups) took more than a millisecond of CPU time. */
struct longest {
    uint64_t steady_ns, its_cpu_ns, most_cpu_ns, over;
};

static _Thread_local struct longest mine;
static struct longest longest_of_step, longest_of_all;
static pthread_mutex_t merge_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_size_t refused, broken;
static atomic_bool capped;
static size_t base_kb, mappings_most, cap_kb;
static uint64_t cpu_before_ns;
static struct rusage use_before;
static struct { const char *name; double figure; } figures[FIGURES];
static size_t figure_count;

_Noreturn void die(const char *what)
{
    fprintf(stderr, "scale: %s (%s)\n", what, strerror(errno));
    _exit(2);
}

/* ---- clocks, numbers, memory from no allocator ---- */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t steady_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
uint64_t process_cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
static uint64_t thread_cpu_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

void nap(unsigned ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR)
        continue;
}

/* splitmix64's finisher: each bit of the value decides about half of the result's. */
uint64_t mixed(uint64_t value)
{
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

/* Works like a waiting server: twenty small requests each hundredth of a second. */
void light_work(size_t ms)
{
    for (size_t i = 0; i < ms / 10; i++) {
        nap(10);
        for (size_t j = 0; j < 20; j++)
            give(ask(16 + mixed(i * 20 + j) % 400));
    }
}

void *outside(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED)
        die("no memory for the case's own records");
    return at;
}

void outside_end(void *at, size_t bytes) { munmap(at, bytes); }

/* ---- the kernel's figures; all without malloc ---- */

size_t status_kb(const char *field)
{
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (length <= 0)
        die("/proc/self/status");
    close(file);
    text[length] = 0;
    const char *line = strstr(text, field);
    return line ? strtoul(line + strlen(field), NULL, 10) : 0;
}

static size_t above(size_t figure, size_t base) { return figure > base ? figure - base : 0; }
size_t resident_kb(void) { return above(status_kb("VmRSS:"), base_kb); }
size_t peak_kb(void) { return above(status_kb("VmHWM:"), base_kb); }

size_t mappings(void)
{
    static char text[1 << 16];
    size_t lines = 0;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        die("/proc/self/maps");
    for (ssize_t length; (length = read(file, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < length; i++)
            lines += text[i] == '\n';
    close(file);
    if (lines > mappings_most)
        mappings_most = lines;
    return lines;
}

/* ---- requests ---- */

static void join_longest(struct longest *into, const struct longest *other)
{
    if (other->steady_ns > into->steady_ns) {
        into->steady_ns = other->steady_ns;
        into->its_cpu_ns = other->its_cpu_ns;
    }
    if (other->most_cpu_ns > into->most_cpu_ns)
        into->most_cpu_ns = other->most_cpu_ns;
    into->over += other->over;
}

static void note(uint64_t steady, uint64_t cpu)
{
    join_longest(&mine, &(struct longest){steady, cpu, cpu, 0});
}

void merge_longest(void)
{
    pthread_mutex_lock(&merge_lock);
    join_longest(&longest_of_step, &mine);
    join_longest(&longest_of_all, &mine);
    pthread_mutex_unlock(&merge_lock);
    mine = (struct longest){0};
}

double most_cpu_us(void)
{
    merge_longest();
    return (double)longest_of_step.most_cpu_ns / 1e3;
}

size_t over_a_millisecond(void)
{
    merge_longest();
    return longest_of_step.over;
}

void start_longest(void)
{
    merge_longest();
    longest_of_step = (struct longest){0};
}

/* True if the machine has no more memory for the case: the case stops asking. */
bool over_cap(void)
{
    if (!atomic_load_explicit(&capped, memory_order_relaxed) && resident_kb() > cap_kb)
        atomic_store(&capped, true);
    return atomic_load_explicit(&capped, memory_order_relaxed);
}

void refuse(size_t count) { atomic_fetch_add(&refused, count); }

static void *served(size_t alignment, size_t bytes)
{
    void *block = alignment ? memalign(alignment, bytes) : malloc(bytes);
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

void *ask_aligned(size_t alignment, size_t bytes)
{
    uint64_t cpu = thread_cpu_ns(), from = steady_ns();
    void *block = served(alignment, bytes);
    uint64_t to = steady_ns();
    note(to - from, thread_cpu_ns() - cpu);
    if (!block)
        refuse(1);
    return block;
}

void *ask(size_t bytes) { return ask_aligned(0, bytes); }

void give(void *block)
{
    uint64_t cpu = thread_cpu_ns(), from = steady_ns();
    free(block);
    uint64_t to = steady_ns();
    note(to - from, thread_cpu_ns() - cpu);
}

void stamp(char *block, size_t bytes, uint64_t which, bool sparse)
{
    which = mixed(which);
    memcpy(block, &which, bytes < 8 ? bytes : 8);
    if (!sparse && bytes >= 16)
        memcpy(block + bytes - 8, &which, 8);
}

void check_stamp(const char *block, size_t bytes, uint64_t which, bool sparse)
{
    which = mixed(which);
    bool whole = memcmp(block, &which, bytes < 8 ? bytes : 8) == 0
        && (sparse || bytes < 16 || memcmp(block + bytes - 8, &which, 8) == 0);
    if (!whole)
        atomic_fetch_add(&broken, 1);
}

/* ---- sets of blocks ---- */

struct set set_of(size_t count, size_t from_bytes, size_t to_bytes)
{
    static atomic_uint_fast64_t seeds;
    return (struct set){.at = outside(count * sizeof(char *)), .count = count, .from_bytes = from_bytes,
        .to_bytes = to_bytes,
                        .seed = atomic_fetch_add(&seeds, (uint64_t)1 << 40)};
}

size_t set_bytes(const struct set *set, size_t i)
{
    return set->from_bytes
        + (set->to_bytes > set->from_bytes ? mixed(~(set->seed + i)) % (set->to_bytes - set->from_bytes + 1) : 0);
}

bool all(size_t i) { return (void)i, true; }
bool three_in_four(size_t i) { return mixed(i) % 4 != 0; }
bool one_in_ten(size_t i) { return i % 10 == 0; }

void set_take(struct set *set, size_t first, size_t end)
{
    uint64_t took[GROUP];
    for (size_t i = first; i < end; i += GROUP) {
        size_t until = end - i < GROUP ? end : i + GROUP;
        if (i / LOOK != (i + GROUP) / LOOK && over_cap())
            return;
        uint64_t cpu = thread_cpu_ns();
        for (size_t j = i; j < until; j++) {
            size_t bytes = set_bytes(set, j);
            uint64_t from = steady_ns();
            set->at[j] = served(set->alignment, bytes);
            took[j - i] = steady_ns() - from;
        }
        cpu = thread_cpu_ns() - cpu;
        mine.over += cpu > MILLISECOND_NS;
        for (size_t j = i; j < until; j++) {
            note(took[j - i], cpu);
            if (set->at[j])
                stamp(set->at[j], set_bytes(set, j), set->seed + j, set->sparse);
            else
                refuse(1);
        }
    }
}

size_t set_live(const struct set *set)
{
    size_t live = 0;
    for (size_t i = 0; i < set->count; i++)
        live += set->at[i] != NULL;
    return live ? live : 1;
}

void set_check(const struct set *set)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->at[i])
            check_stamp(set->at[i], set_bytes(set, i), set->seed + i, set->sparse);
}

void set_drop(struct set *set, size_t first, size_t end, bool (*chosen)(size_t i))
{
    size_t group[GROUP], count = 0;
    for (size_t i = first; i < end || count; i++) {
        if (i < end && set->at[i] && chosen(i)) {
            check_stamp(set->at[i], set_bytes(set, i), set->seed + i, set->sparse);
            group[count++] = i;
        }
        if (count < GROUP && i < end)
            continue;
        uint64_t took[GROUP], cpu = thread_cpu_ns();
        for (size_t j = 0; j < count; j++) {
            uint64_t from = steady_ns();
            free(set->at[group[j]]);
            took[j] = steady_ns() - from;
        }
        cpu = thread_cpu_ns() - cpu;
        mine.over += cpu > MILLISECOND_NS;
        for (size_t j = 0; j < count; j++) {
            note(took[j], cpu);
            set->at[group[j]] = NULL;
        }
        count = 0;
    }
}

void set_end(struct set *set)
{
    set_drop(set, 0, set->count, all);
    outside_end(set->at, set->count * sizeof(char *));
}

/* ---- figures ---- */

static struct rusage use(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used;
}

static double system_ms(const struct rusage *used)
{
    return (double)used->ru_stime.tv_sec * 1e3 + (double)used->ru_stime.tv_usec / 1e3;
}

void begin(void)
{
    base_kb = status_kb("VmRSS:");
    use_before = use();
    cpu_before_ns = process_cpu_ns();
}

void say(const char *name, double figure)
{
    if (figure_count == FIGURES)
        die("too many figures");
    figures[figure_count].name = name;
    figures[figure_count++].figure = figure;
}

void say_resident(const char *name) { say(name, (double)resident_kb()); }

struct entry {
    const char *name;
    scale_case *run;
    int arguments;
    const char *what;
};

static const struct entry CASES[] = {
    {"blocks", blocks_case, 5,
        "COUNT FROM TO ALIGNMENT SPARSE: live at once, then freed; a thread and 8 MiB after that"},
    {"holes", holes_case, 4,
        "COUNT BYTES NEW PAIRS: every tenth freed, then NEW blocks a quarter larger, then PAIRS of free and malloc"},
    {"ranges", ranges_case, 2,
        "COUNT MIB: live at once by a page's alignment, all freed; then 100 MiB, and other sizes"},
    {"replace", replace_case, 4, "LIVE FROM TO COUNT: touched whole, one replaced at a time"},
    {"pieces", pieces_case, 2, "GIB OPERATIONS: of address space, in pieces of random size"},
    {"wakes", wakes_case, 7,
        "MIB BYTES WAKES MS EARLY REQUESTS RANDOM: three in four freed; RANDOM: 19 in 20, in random order; then EARLY "
        "requests at each of the first wakes, and REQUESTS at the last third"},
    {"idle", idle_case, 3, "MIB WAKES REQUESTS: small blocks; half freed in stretches, idle, wake, filled again"},
    {"asleep", asleep_case, 5,
        "THREADS KIB FROM TO MS: one after another takes so much, and sleeps; main frees it; light work"},
    {"ended", ended_case, 5,
        "THREADS KIB BYTES OWN MS: each takes so much, and ends; OWN: frees it itself; light work; as much again"},
    {"live-threads", live_threads_case, 2, "THREADS BLOCKS: alive at once, each with so many small blocks"},
    {"seldom", seldom_case, 2, "THREADS REQUESTS: so many requests of 1,000 sessions, shared out to so many threads"},
    {"exchange", exchange_case, 2,
        "THREADS COUNT: each puts COUNT small blocks into random places of one table, and frees what was there"},
    {"passing", passing_case, 2, "THREADS TOGETHER: come and go; each leaves a block behind"},
    {"heaps", heaps_case, 3, "COUNT BLOCKS MS: heaps of the allocator's own at once; destroyed; light work"},
    {"churn", churn_case, 1, "COUNT: heaps created and destroyed, one after another"},
    {"limit", limit_case, 3, "MIB BEYOND BYTES: RLIMIT_AS set by the program; BEYOND: so much beyond what it has"},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static void print(const char *name)
{
    char text[8192];
    double cpu_ms = (double)(process_cpu_ns() - cpu_before_ns) / 1e6;
    struct rusage used = use();
    merge_longest();
    say("cpu_ms", cpu_ms);
    say("system_ms", system_ms(&used) - system_ms(&use_before));
    say("longest_us", (double)longest_of_all.steady_ns / 1e3);
    say("longest_cpu_us", (double)longest_of_all.its_cpu_ns / 1e3);
    say("most_cpu_us", (double)longest_of_all.most_cpu_ns / 1e3);
    say_resident("resident_kb");
    say("peak_kb", (double)peak_kb());
    say("base_kb", (double)base_kb);
    mappings();
    say("mappings", (double)mappings_most);
    say("refused", (double)atomic_load(&refused));
    say("broken", (double)atomic_load(&broken));
    say("capped", atomic_load(&capped));
    say("faults", (double)(used.ru_minflt - use_before.ru_minflt));
    int length = snprintf(text, sizeof text, "{\"case\": \"%s\"", name);
    for (size_t i = 0; i < figure_count; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, ", \"%s\": %.10g", figures[i].name,
            figures[i].figure);
    length += snprintf(text + length, sizeof text - (size_t)length, "}\n");
    if (write(1, text, (size_t)length) != length)
        die("write");
}

int main(int argc, char **argv)
{
    size_t argument[8] = {0};
    const char *cap = getenv("SCALE_CAP_MB"); /* a case stops asking when it holds this much */
    cap_kb = (cap ? strtoul(cap, NULL, 10) : 12000) << 10;
    for (int i = 0; i < CASE_COUNT; i++)
        if (argc > 1 && strcmp(argv[1], CASES[i].name) == 0 && argc == CASES[i].arguments + 2) {
            for (int j = 0; j < CASES[i].arguments; j++)
                argument[j] = strtoul(argv[j + 2], NULL, 10);
            CASES[i].run(argument);
            print(CASES[i].name);
            return 0;
        }
    for (int i = 0; i < CASE_COUNT; i++)
        fprintf(stderr, "scale %s %s\n", CASES[i].name, CASES[i].what);
    return 2;
}
