//! `glebe leaks` of a process with thousands of threads. The test compares processor times, whose ratio is the same on
//! a busy machine.
#![cfg(target_os = "linux")]

mod common;

use common::{cc, command_of, home, Running};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

/// Blocks that only the stacks of so many threads refer to.
const THREADS: &str = "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    #include <unistd.h>\n\
    static pthread_barrier_t all;\n\
    static void *waits(void *unused) {\n\
        char *volatile own = memset(malloc(1000), 1, 1000);\n\
        pthread_barrier_wait(&all);\n\
        for (;;) pause();\n\
        return (void *)own + (unused != NULL);\n\
    }\n\
    int main(int n, char **words) {\n\
        n = atoi(words[1]);\n\
        pthread_attr_t small;\n\
        pthread_attr_init(&small), pthread_attr_setstacksize(&small, 64 << 10);\n\
        pthread_barrier_init(&all, NULL, n + 1);\n\
        for (pthread_t thread; n > 0; n--) if (pthread_create(&thread, &small, waits, NULL)) return 1;\n\
        pthread_barrier_wait(&all);\n\
        puts(\"ready\"), fflush(stdout);\n\
        for (;;) pause();\n\
    }";

/// The processor time of a search, in seconds, in a process with so many threads.
#[allow(clippy::zombie_processes, reason = "wait4 reaps it")]
fn search_s(home: &TempDir, program: &Path, threads: u64) -> f64 {
    let running = Running::start(home, &[program.to_str().unwrap(), &threads.to_string()]);
    let mut command = command_of(home, &["leaks", "--json", &running.pid()]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&found["leaked_blocks"], &found["threads"]),
        (&0.into(), &(threads + 1).into()),
        "{found}"
    );
    assert!(found["live_blocks"].as_u64().unwrap() >= threads, "{found}");
    // SAFETY: wait4 writes to the structs that it is given; the child is ours.
    unsafe {
        let (mut status, mut usage) = (0, std::mem::zeroed::<libc::rusage>());
        assert_eq!(libc::wait4(child.id() as i32, &mut status, 0, &mut usage), child.id() as i32);
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }
}

/// Eight times as many threads take at most eight times as long. With a file of the kernel that sums up all threads,
/// read for each thread, it was thirty times.
#[test]
fn many_threads_are_searched_in_linear_time() {
    let home = home();
    let Some(program) = cc(home.path(), "threads", THREADS, &["-O0", "-pthread"]) else { return };
    let (few, many) = (search_s(&home, &program, 500), search_s(&home, &program, 4000));
    assert!(many < 16.0 * few, "{few} s, {many} s");
}
