//! `glebe explain`, `leaks` and `map`, on programs whose memory is known. No test depends on timing: a program says
//! when it is ready, and then waits.
#![cfg(target_os = "linux")]

mod common;

use common::{command_of, home, Running};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use tempfile::TempDir;

fn says(home: &TempDir, words: &[&str]) -> Output {
    command_of(home, words).output().unwrap()
}

/// The JSON object that is the last line of the command's output.
fn object(home: &TempDir, words: &[&str]) -> Value {
    let output = says(home, words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .last()
        .unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

fn compiled(dir: &TempDir, name: &str, source: &str, compiler: &str) -> String {
    let suffix = if compiler == "cc" { "c" } else { "cpp" };
    let input = dir.path().join(format!("{name}.{suffix}"));
    fs::write(&input, source).unwrap();
    let output = dir.path().join(name);
    let run =
        Command::new(compiler).args(["-O0", "-pthread", "-o"]).arg(&output).arg(&input).status();
    assert!(run.unwrap().success());
    output.to_str().unwrap().into()
}

fn found(name: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|dir| dir.join(name).is_file())
}

fn part(object: &Value, name: &str) -> u64 {
    let parts = object["parts"].as_array().unwrap();
    let found = parts.iter().find(|part| part["name"] == name);
    found.unwrap_or_else(|| panic!("no part {name}"))["bytes"].as_u64().unwrap()
}

fn sum(object: &Value) -> u64 {
    object["parts"].as_array().unwrap().iter().map(|part| part["bytes"].as_u64().unwrap()).sum()
}

fn near(value: u64, wanted: u64, percent: u64, of: &str) {
    assert!(value.abs_diff(wanted) <= wanted * percent / 100, "{of}: {value}, not {wanted}");
}

#[test]
fn a_program_that_never_calls_malloc_has_no_leaks() {
    let home = home();
    for (program, code) in [("/bin/true", 0), ("/bin/false", 1)] {
        let output = says(&home, &["leaks", "--", program]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.ends_with("no leaks at its exit (0 blocks live)\n"), "{text}");
        assert_eq!(output.status.code(), Some(code));
        assert!(output.stderr.is_empty());
    }
}

/// 100 MB of one class, every second block freed; a huge block of which half is touched.
const HALF: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *blocks[500000], *medium, *large;
int main(void)
{
    for (int i = 0; i < 500000; i++)
        memset(blocks[i] = malloc(200), 1, 200);
    for (int i = 0; i < 500000; i += 2)
        free(blocks[i]);
    memset(malloc(20 << 20), 1, 10 << 20);
    memset(medium = malloc(20000), 1, 20000);
    memset(large = malloc(300000), 1, 300000);
    puts("ready");
    fflush(stdout);
    pause();
}
"#;

#[test]
fn the_parts_of_a_known_state_are_right() {
    let home = home();
    let program = compiled(&home, "half", HALF, "cc");
    let running = Running::start(&home, &[&program]);
    let e = object(&home, &["explain", "--json", &running.pid()]);
    let rss = e["rss_bytes"].as_u64().unwrap();
    assert_eq!(sum(&e), rss);
    near(rss, e["kernel_rss_bytes"].as_u64().unwrap(), 1, "RSS");
    near(part(&e, "live_small"), 250_000 * 208, 2, "live_small");
    near(part(&e, "free_in_pages"), 250_000 * 208, 2, "free_in_pages");
    near(part(&e, "live_huge"), 10 << 20, 2, "live_huge");
    near(e["live_absent_bytes"].as_u64().unwrap(), 10 << 20, 2, "live_absent_bytes");
    near(part(&e, "live_large"), 300_000, 5, "live_large");
    assert!(part(&e, "live_medium") >= 20_000 && part(&e, "live_medium") < 40_000);
    let class =
        e["classes"].as_array().unwrap().iter().find(|class| class["block_bytes"] == 208).unwrap();
    near(class["live_blocks"].as_u64().unwrap(), 250_000, 1, "blocks of 208 bytes");
    assert!(e["rounding_bytes"].is_null() && e["glebe"] == true && e["moment"] == "now");
    assert!(e["advice"].as_str().unwrap().contains("208 bytes"), "{e}");
    let text = says(&home, &["explain", &running.pid()]).stdout;
    let text = String::from_utf8(text).unwrap();
    for words in
        ["live blocks up to 2 KiB", "free bytes in pages in use", "Advice: ", "resident set"]
    {
        assert!(text.contains(words), "{text}");
    }
}

/// Freed memory is retained or gone, and the purged holes of pages are not counted.
#[test]
fn retained_memory_and_holes_are_told_apart() {
    let home = home();
    let source = HALF
        .replace("i += 2)", "i += 1) if (i % 1000 != 0)")
        .replace("puts(", "free(large); puts(");
    let program = compiled(&home, "most", &source, "cc");
    let running = Running::start(&home, &[&program]);
    let e = object(&home, &["explain", "--json", &running.pid()]);
    near(e["rss_bytes"].as_u64().unwrap(), e["kernel_rss_bytes"].as_u64().unwrap(), 1, "RSS");
    near(part(&e, "live_small"), 500 * 208, 10, "live_small");
    assert!(part(&e, "free_in_pages") > 1 << 20 && part(&e, "retained") > 300_000, "{e}");
}

/// The largest program of a kind that this machine has.
#[test]
fn real_programs_sum_to_the_resident_set() {
    let home = home();
    let python = "import json,threading,time\n\
        d=json.loads(json.dumps([{'k%d'%i:i,'s':'x'*i} for i in range(2000)]))\n\
        threading.Thread(target=time.sleep,args=(100,),daemon=True).start()\n\
        print('ready',flush=True)\ntime.sleep(100)";
    let node =
        "let a=[];for(let i=0;i<1e5;i++)a.push({i});console.log('ready');setTimeout(()=>{},1e5)";
    let perl = "$|=1;@a=map{\"x$_\"}1..200000;print \"ready\\n\";sleep 100";
    for program in [&["python3", "-c", python][..], &["perl", "-e", perl], &["node", "-e", node]] {
        if !found(program[0]) {
            continue;
        }
        let running = Running::start(&home, program);
        let e = object(&home, &["explain", "--json", &running.pid()]);
        assert_eq!(sum(&e), e["rss_bytes"].as_u64().unwrap());
        near(
            e["rss_bytes"].as_u64().unwrap(),
            e["kernel_rss_bytes"].as_u64().unwrap(),
            1,
            program[0],
        );
        let live = part(&e, "live_small") + part(&e, "live_medium") + part(&e, "live_huge");
        assert!(
            live > 256 << 10 && part(&e, "file_code") > 1 << 20 && part(&e, "stacks") > 0,
            "{e}"
        );
        let leaks = object(&home, &["leaks", "--json", &running.pid()]);
        let bytes = leaks["leaked_bytes"].as_u64().unwrap();
        assert!(leaks["live_blocks"].as_u64().unwrap() > 100, "{leaks}");
        assert!(program[0] != "python3" || bytes == 0, "{leaks}");
        assert!(bytes < live / 50, "{leaks}");
    }
}

const SQL: &str = "create table t(a,b); with recursive c(i) as (select 1 union all select i+1 from c where i<50000) \
                   insert into t select i, hex(i) from c; select count(*) from t";
/// The program stays at its peak for a second: while memory grows, a look and the kernel count different moments.
const STAYS: &str = ".shell sleep 1";

#[test]
fn a_program_is_explained_at_its_peak_and_at_its_exit() {
    if !found("sqlite3") {
        return;
    }
    let home = home();
    let picture = home.path().join("memory.svg");
    let svg = picture.to_str().unwrap();
    let program = ["--", "sqlite3", ":memory:", SQL, STAYS];
    for (options, moment) in [(&["--svg", svg][..], "at its peak"), (&["--at-exit"], "at its exit")]
    {
        let words = [&["explain", "--json"], options, &program].concat();
        let e = object(&home, &words);
        assert_eq!(e["moment"], moment);
        assert_eq!(sum(&e), e["rss_bytes"].as_u64().unwrap());
        near(e["rss_bytes"].as_u64().unwrap(), e["kernel_rss_bytes"].as_u64().unwrap(), 1, moment);
        assert!(e["glebe"] == true && e["program"] == "sqlite3");
    }
    assert!(fs::read_to_string(&picture).unwrap().contains("resident set"));
    let status = says(&home, &["explain", "--at-exit", "--", "sh", "-c", "exit 7"]).status;
    assert_eq!(status.code(), Some(7), "the program's own status");
    let leaks = object(&home, &["leaks", "--json", "--", "sqlite3", ":memory:", SQL]);
    assert_eq!(leaks["leaks"].as_array().unwrap().len(), 0, "{leaks}");
}

/// Leaks of many kinds, and blocks that look like leaks and are none.
const PLANTED: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct node { struct node *next, *prev; };
static struct node *kept;
static char *interior;
static __thread void *local;
static void *table[3000], *last;
static void list(int n, int bytes)
{
    struct node *first = NULL;
    while (n-- > 0) {
        struct node *node = calloc(1, bytes);
        node->next = first;
        first = node;
    }
}
static void cycle(int bytes)
{
    struct node *a = calloc(1, bytes), *b = calloc(1, bytes);
    a->next = b->prev = b;
    b->next = a->prev = a;
}
static void *leaker(void *unused)
{
    for (int i = 0; i < 7; i++)
        last = malloc(1300);
    last = NULL;
    return unused;
}
static void *waiter(void *unused)
{
    void *of_the_stack = malloc(3333);
    local = malloc(4444);
    write(1, "ready\n", 6);
    for (;;)
        pause();
    return of_the_stack;
}
static void plant(void)
{
    list(11, 600);
    cycle(900);
    last = malloc(100000);
    last = malloc(5 << 20);
    last = aligned_alloc(4096, 9000);
    last = aligned_alloc(1 << 16, 1 << 18);
    last = malloc(24);
    last = NULL;
    interior = (char *)malloc(800) + 500;
    kept = malloc(sizeof *kept);
    kept->next = malloc(1000);
    kept->prev = malloc(3 << 20);
    for (int i = 0; i < 3000; i++)
        table[i] = malloc(i);
    for (int i = 0; i < 3000; i += 3) {
        free(table[i]);
        table[i] = NULL;
    }
}
static void wipe(void) { volatile char room[40000]; memset((char *)room, 0, sizeof room); }
static void ballast(int wanted)
{
    size_t bytes = 160 << 20;
    char *block = wanted ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
    if (wanted && madvise(block, bytes, MADV_NOHUGEPAGE) == 0)
        memset(block, 1, bytes);
}
int main(int argc, char **argv)
{
    pthread_t thread;
    ballast(argc > 2);
    plant();
    pthread_create(&thread, NULL, leaker, NULL);
    pthread_join(thread, NULL);
    wipe();
    if (argc > 1) {
        pthread_create(&thread, NULL, waiter, argv);
        pthread_join(thread, NULL);
    }
    return 0;
}
"#;

/// Since Linux 6.7; without, a process of any size is copied by a clone.
fn kernel_tells_what_was_written() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(7))
}

#[test]
fn planted_leaks_are_found() {
    let home = home();
    let program = compiled(&home, "planted", PLANTED, "cc");
    let running = Running::start(&home, &[&program, "stay"]);
    let now = object(&home, &["leaks", "--json", &running.pid()]);
    let at_exit = object(&home, &["leaks", "--json", "--", &program]);
    let large = Running::start(&home, &[&program, "stay", "large"]);
    let of_large = object(&home, &["leaks", "--json", &large.pid()]);
    assert_eq!(now["read_before_stop"], false);
    assert_eq!(of_large["read_before_stop"], kernel_tells_what_was_written());
    for found in [&now, &at_exit, &of_large] {
        let mut leaks: Vec<(u64, u64)> = Vec::new();
        for leak in found["leaks"].as_array().unwrap() {
            let (blocks, bytes) =
                (leak["blocks"].as_u64().unwrap(), leak["bytes"].as_u64().unwrap());
            assert_eq!(leak["site"], format!("{} bytes", bytes / blocks), "{found}");
            leaks.push((bytes / blocks, blocks));
        }
        leaks.sort_unstable();
        let expected = [
            (32, 1),
            (640, 11),
            (960, 2),
            (1408, 7),
            (12288, 1),
            (114_688, 1),
            (262_144, 1),
            (5 << 20, 1),
        ];
        assert_eq!(leaks, expected, "{found}");
        assert_eq!(found["leaked_blocks"], 25);
    }
    assert_eq!((&now["threads"], &of_large["threads"]), (&2.into(), &2.into()));
    // The process goes on, and nothing traces it.
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
    assert!(status.contains("TracerPid:\t0") && !status.contains("State:\tT"), "{status}");
    let text = String::from_utf8(says(&home, &["leaks", &running.pid()]).stdout).unwrap();
    assert!(text.contains("25 blocks") && text.contains("blocks of 640 bytes"), "{text}");
}

/// Leaks seven blocks, and notices signals, children, calls that were interrupted, and what other words ask for.
const NOTICES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile sig_atomic_t done, noticed;
static void *volatile lost;
static void on(int signal)
{
    done = signal == SIGTERM;
    noticed |= signal != SIGTERM;
}
static void *sleeps(void *unused)
{
    const struct timespec hour = {3600, 0};
    while (nanosleep(&hour, NULL) == 0)
        continue;
    noticed = 1;
    return unused;
}
/* 40,000 pages with one block each. The blocks of some pages always move, and none is ever lost. */
enum { PAGES = 40000, MOVING = 300 };
struct place { void *volatile block; char rest[4088]; };
static struct place *places;
static void move_one(unsigned long n)
{
    struct place *from = places + n * 7919 % MOVING * (PAGES / MOVING);
    struct place *to = places + n * 104729 % MOVING * (PAGES / MOVING);
    void *block = from->block;
    from->block = to->block;
    to->block = block;
}
static void *works(void *unused)
{
    char *block = malloc(5000);
    for (unsigned long n = 0; !done; n++) {
        free(malloc(n % 3000));
        if (places)
            move_one(n);
        noticed |= waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD;
        noticed |= block[0] != 0;
    }
    exit(noticed ? 9 : 0);
    return unused;
}
static void *map(int kind)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
}
static void refuse_clone(void)
{
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_clone},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {4, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}
static void traced(void)
{
    int ends[2];
    char ready;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (pipe(ends) == 0 && fork() == 0) {
        ready = ptrace(PTRACE_SEIZE, getppid(), 0, 0) == 0;
        write(ends[1], &ready, 1);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    read(ends[0], &ready, 1);
}
static void plant(void)
{
    for (int i = 0; i < 7; i++)
        lost = memset(malloc(777), 0, 777);
    lost = NULL;
    void **shared = map(MAP_SHARED), **left_out = map(MAP_PRIVATE);
    madvise(left_out, 4096, MADV_DONTFORK);
    *shared = memset(malloc(1500), 0, 1500);
    *left_out = memset(malloc(2500), 0, 2500);
}
static void wipe(void) { volatile char room[40000]; memset((char *)room, 0, sizeof room); }
int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    pthread_t thread;
    plant();
    wipe();
    if (!strcmp(word, "large")) {
        struct place *all = mmap(NULL, PAGES * sizeof *all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(all, PAGES * sizeof *all, MADV_NOHUGEPAGE);
        for (int i = 0; i < PAGES; i++)
            all[i].block = malloc(40);
        places = all;
    }
    for (int s = 1; s < SIGRTMAX; s++)
        signal(s, on);
    pthread_create(&thread, NULL, sleeps, NULL);
    pthread_create(&thread, NULL, works, NULL);
    if (!strcmp(word, "filtered"))
        refuse_clone();
    if (!strcmp(word, "traced"))
        traced();
    write(1, "ready\n", 6);
    if (!strcmp(word, "clones"))
        refuse_clone(), syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    for (;;)
        pause();
}
"#;

/// Finds the seven leaks, and ends the program. Returns what the command said, and how the program ended.
fn noticed(home: &TempDir, program: &str, word: &str) -> (String, ExitStatus) {
    let mut running = Running::start(home, &[program, word]);
    let mut notes = String::new();
    for _ in 0..3 {
        let output = says(home, &["leaks", "--json", &running.pid()]);
        notes = String::from_utf8(output.stderr).unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).expect(&notes);
        assert_eq!((&found["leaked_blocks"], &found["threads"]), (&7.into(), &3.into()), "{found}");
        let before = word == "large" && kernel_tells_what_was_written();
        assert_eq!(found["read_before_stop"], before, "{found}");
        // No copy is left behind, not even as a zombie.
        let children = format!("/proc/{0}/task/{0}/children", running.pid());
        assert_eq!(fs::read_to_string(children).unwrap(), "");
    }
    // SAFETY: our own child.
    unsafe { libc::kill(running.0.id() as i32, libc::SIGTERM) };
    (notes, running.0.wait().unwrap())
}

#[test]
fn a_process_does_not_notice_that_it_was_copied() {
    let home = home();
    let program = compiled(&home, "notices", NOTICES, "cc");
    for word in ["", "large"] {
        let (notes, status) = noticed(&home, &program, word);
        assert_eq!((notes.as_str(), status.code()), ("", Some(0)), "{word}");
    }
    // A filter that ends the process for a clone: we stop it longer, and it lives.
    let (notes, status) = noticed(&home, &program, "filtered");
    assert!(notes.contains("no copy can be made (a seccomp filter"), "{notes}");
    assert_eq!((notes.lines().count(), status.code()), (2, Some(0)), "{notes}");
    let mut control = Running::start(&home, &[&program, "clones"]);
    assert_eq!(control.0.wait().unwrap().signal(), Some(libc::SIGSYS));
}

#[test]
fn who_traces_a_process_is_told() {
    let home = home();
    let program = compiled(&home, "notices", NOTICES, "cc");
    let running = Running::start(&home, &[&program, "traced"]);
    let notes = String::from_utf8(says(&home, &["leaks", &running.pid()]).stderr).unwrap();
    assert!(notes.contains("is traced by notices["), "{notes}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
}

/// Blocks whose only reference is in memory that became constant, in the upper half of a vector register, or nowhere
/// (`nowhere`). `executes` executes itself again and again. `vfork` has a thread that waits for the child of a vfork.
const HIDES: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
static void ready(void) { if (write(1, "ready\n", 6) != 6) abort(); }
static void *forks(void *unused)
{
    ready();
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return unused;
}
static void in_constants(void)
{
    void **map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static void **block;
    block = aligned_alloc(4096, 8192);
    *map = memset(malloc(1111), 0, 1111);
    *block = memset(malloc(2222), 0, 2222);
    mprotect(map, 4096, PROT_READ);
    mprotect(block, 4096, PROT_READ);
}
#ifdef __x86_64__
static void in_a_register(void)
{
    void *words[4] = {0, 0, 0, memset(malloc(3333), 0, 3333)};
    __asm__ volatile("vmovdqu %0, %%ymm9" : : "m"(words));
    words[3] = NULL;
    __asm__ volatile("" : : "r"(words) : "memory");
}
#endif
static void wipe(void) { volatile char room[40000]; memset((char *)room, 0, sizeof room); }
int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (!strcmp(word, "executes")) {
        if (argc == 2)
            ready();
        usleep(30000);
        execl("/proc/self/exe", argv[0], word, "again", NULL);
    }
    if (!strcmp(word, "vfork")) {
        pthread_t thread;
        pthread_create(&thread, NULL, forks, NULL);
        for (;;)
            pause();
    }
    in_constants();
    if (!strcmp(word, "nowhere"))
        memset(malloc(3333), 0, 3333);
    wipe();
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx") && strcmp(word, "nowhere"))
        in_a_register();
    ready(); /* calls no function with vectors */
    for (;;)
        __asm__ volatile("syscall" : : "a"(34) : "rcx", "r11", "memory"); /* pause */
#endif
    ready();
    for (;;)
        pause();
}
"#;

#[test]
fn what_is_constant_or_in_a_vector_register_refers() {
    let home = home();
    let program = compiled(&home, "hides", HIDES, "cc");
    for (word, leaked) in [("", 0), ("nowhere", 3584)] {
        let running = Running::start(&home, &[&program, word]);
        let found = object(&home, &["leaks", "--json", &running.pid()]);
        assert_eq!(found["leaked_bytes"], leaked, "{found}");
    }
}

/// The system call instruction that was found may be elsewhere when the copy's end is waited for.
#[test]
fn a_process_may_execute_another_program_meanwhile() {
    let home = home();
    let program = compiled(&home, "hides", HIDES, "cc");
    let mut running = Running::start(&home, &[&program, "executes"]);
    for _ in 0..10 {
        let output = says(&home, &["leaks", "--json", &running.pid()]);
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() || notes.lines().count() <= 2, "{notes}");
    }
    assert_eq!(running.0.try_wait().unwrap(), None);
}

/// The command gives up, and so it does again: it does not take itself for another tracer.
#[test]
fn a_thread_that_waits_for_a_vfork_is_named() {
    let home = home();
    let program = compiled(&home, "hides", HIDES, "cc");
    let mut running = Running::start(&home, &[&program, "vfork"]);
    for _ in 0..2 {
        let notes = String::from_utf8(says(&home, &["leaks", &running.pid()]).stderr).unwrap();
        assert!(notes.contains("does not stop: it waits in the kernel"), "{notes}");
        assert_eq!(notes.lines().count(), 1, "{notes}");
    }
    assert_eq!(running.0.try_wait().unwrap(), None);
}

const CONTAINERS: &str = r#"
#include <deque>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>
std::map<std::string, std::vector<int>> tree;
std::unordered_map<int, std::string> table;
std::list<std::shared_ptr<std::string>> list;
std::deque<std::set<int>> sets;
int *global = new int[1000];
int main(int argc, char **)
{
    for (int i = 0; i < 5000; i++) {
        tree["key" + std::to_string(i)].resize(i % 50);
        table[i] = std::string(i % 300, 'x');
        list.push_back(std::make_shared<std::string>("a string that is too long to be inside"));
        if (i % 100 == 0)
            sets.emplace_back(std::set<int>{1, 2, 3});
    }
    for (int i = 0; i < 5000; i += 2)
        table.erase(i);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([] { std::vector<std::string> own(100, "a string that is too long to be inside"); });
    for (auto &thread : threads)
        thread.join();
    std::cout << "ready" << std::endl;
    if (argc > 1)
        pause();
}
"#;

#[test]
fn clean_programs_have_no_leaks() {
    let home = home();
    let program = compiled(&home, "containers", CONTAINERS, "c++");
    let clean = |words: &[&str]| {
        let found = object(&home, words);
        assert_eq!(found["leaks"].as_array().unwrap().len(), 0, "{found}");
        found["live_blocks"].as_u64().unwrap()
    };
    let builds = [&[][..], &["--secure"], &["--safe"], &["--audit"]];
    let live = builds.map(|build| {
        let running = Running::on(&home, build, &[&program, "stay"]);
        clean(&["leaks", "--json", &running.pid()])
    });
    assert!(live[0] > 0 && live.iter().all(|blocks| *blocks == live[0]), "{live:?}");
    assert!(clean(&["leaks", "--json", "--", &program]) > 0);
}

#[test]
fn the_map_has_every_slice() {
    let home = home();
    let program = compiled(&home, "half", HALF, "cc");
    let running = Running::start(&home, &[&program]);
    let map = object(&home, &["map", "--json", &running.pid()]);
    let runs = map["runs"].as_array().unwrap();
    let bytes = |kind: &str| -> u64 {
        runs.iter()
            .filter(|run| run["kind"] == kind)
            .map(|run| run["bytes"].as_u64().unwrap())
            .sum()
    };
    near(bytes("small"), 500_000 * 208, 2, "small");
    near(bytes("huge"), 20 << 20, 1, "huge");
    assert!(runs.iter().any(|run| run["block_bytes"] == 208 && run["live_percent"] == 50));
    let output = command_of(&home, &["map", &running.pid()]).env("LC_ALL", "C").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.is_ascii() && text.contains("rows like it") && text.contains("HHHH"), "{text}");
    let picture: PathBuf = home.path().join("map.svg");
    let words = ["map", "--svg", picture.to_str().unwrap(), &running.pid()];
    assert!(says(&home, &words).status.success());
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
}

#[test]
fn what_cannot_be_looked_at_is_one_clear_line() {
    let home = home();
    let sleeper = Running(Command::new("sleep").arg("100").spawn().unwrap());
    for command in ["explain", "leaks", "map"] {
        let gone = says(&home, &[command, "2147483647"]);
        assert_eq!(gone.status.code(), Some(125));
        let text = String::from_utf8(gone.stderr).unwrap();
        assert_eq!(text, "glebe: there is no process 2147483647\n");
        let without = says(&home, &[command, &sleeper.pid()]);
        let text = String::from_utf8_lossy(&without.stderr).into_owned();
        if command == "explain" {
            assert!(
                without.status.success()
                    && String::from_utf8_lossy(&without.stdout).contains("No glebe")
            );
        } else {
            assert!(
                text.contains("no glebe was found") && text.contains("glebe run -- sleep"),
                "{text}"
            );
            assert_eq!((without.status.code(), text.lines().count()), (Some(125), 1));
        }
    }
    let nowhere = Path::new("/no/such/directory/x.svg").to_str().unwrap();
    let failed = says(&home, &["explain", "--svg", nowhere, &sleeper.pid()]);
    assert!(String::from_utf8_lossy(&failed.stderr).contains(nowhere));
    let failed = says(&home, &["leaks", "--", "no-such-program"]);
    assert_eq!(failed.status.code(), Some(127));
}

/// `loses` leaks blocks of two sizes; `holds` keeps every hundredth of its blocks, between free ones.
const SITES: &str = "#include <stdlib.h>\n#include <string.h>\nvoid *kept[4000];\n\
    __attribute__((noinline)) void *loses(size_t n) { void *p = malloc(n); memset(p, 1, n); return p; }\n\
    __attribute__((noinline)) void *holds(size_t n) { void *p = malloc(n); memset(p, 1, n); return p; }\n\
    int main(void) {\n\
        for (int i = 0; i < 10; i++) loses(300000);\n\
        for (int i = 0; i < 100; i++) loses(640);\n\
        for (int i = 0; i < 4000; i++) kept[i] = holds(1000);\n\
        for (int i = 0; i < 4000; i++) if (i % 100) { free(kept[i]); kept[i] = 0; }\n\
    }";

/// With samples of all bytes, each leak has its site, and the profiler's own records are none.
#[test]
fn sampled_blocks_have_sites() {
    let home = home();
    let program = compiled(&home, "sites", SITES, "cc");
    let found = object(&home, &["leaks", "--mean", "1", "--json", "--", &program]);
    assert_eq!(found["sites_recorded"], true);
    assert_eq!(found["leaked_blocks"], 110, "{found}");
    for leak in found["leaks"].as_array().unwrap() {
        assert!(leak["frames"][0].as_str().unwrap().starts_with("loses"), "{leak}");
        assert!(leak["site"].as_str().unwrap().contains(" < main"), "{leak}");
    }
    let without = object(&home, &["leaks", "--json", "--", &program]);
    assert_eq!(
        (&without["sites_recorded"], &without["leaked_blocks"]),
        (&false.into(), &110.into())
    );

    let words = ["explain", "--mean", "1K", "--json", "--at-exit", "--", &program];
    let seen = object(&home, &words);
    let sites = seen["sites"].as_array().unwrap();
    let first = sites.iter().find(|site| site["block_bytes"] == 1024).unwrap();
    assert!(first["frames"][0].as_str().unwrap().starts_with("holds"), "{first}");
    assert!(first["class_free_bytes"].as_u64().unwrap() > 1 << 20, "{first}");
    assert!(part(&seen, "live_large") < 4 << 20, "{seen}"); // not the profiler's records
    let older = sites.iter().find(|site| site["frames"][0].as_str().unwrap().starts_with("loses"));
    let age = |site: &Value| site["age_percent"].as_f64().unwrap();
    assert!(age(older.unwrap()) > age(first), "{sites:?}");
}
