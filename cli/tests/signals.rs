//! Signals to `glebe run --stats`, which stays the parent of its program: each reaches the program once, and the
//! command stops when the program does. No test depends on timing.
#![cfg(target_os = "linux")]

mod common;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A program that counts SIGINT, SIGCONT and SIGUSR1, and prints the counts after each signal. SIGUSR2 ends it: its
/// exit status is 7. With the word "stops" it first stops itself; with "parent" it signals its parent; with "alone" it
/// leaves for a group of its own.
const COUNTS: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static volatile sig_atomic_t got[65];
static void count(int number) { got[number]++; }
int main(int argc, char **argv)
{
    const int counted[] = {SIGINT, SIGCONT, SIGUSR1, SIGUSR2};
    sigset_t all, others;
    sigemptyset(&all);
    for (int i = 0; i < 4; i++) {
        signal(counted[i], count);
        sigaddset(&all, counted[i]);
    }
    sigprocmask(SIG_BLOCK, &all, &others);
    if (argc > 1 && strcmp(argv[1], "stops") == 0)
        raise(SIGSTOP);
    if (argc > 1 && strcmp(argv[1], "parent") == 0)
        kill(getppid(), SIGINT);
    if (argc > 1 && strcmp(argv[1], "alone") == 0)
        setpgid(0, 0);
    puts("ready");
    fflush(stdout);
    while (!got[SIGUSR2]) {
        sigsuspend(&others);
        printf("%d %d %d\n", got[SIGINT], got[SIGCONT], got[SIGUSR1]);
        fflush(stdout);
    }
    return 7;
}
"#;

struct Run {
    command: Child,
    output: BufReader<File>,
    /// How many SIGUSR1 it got.
    caught_up: i32,
    home: TempDir,
}

/// Runs the program above under the command, in a process group of its own; with `terminal`, on that terminal. None
/// without a C compiler.
fn run(word: &str, terminal: Option<(File, OwnedFd)>) -> Option<Run> {
    let home = tempfile::tempdir().unwrap();
    let (source, program) = (home.path().join("counts.c"), home.path().join("counts"));
    std::fs::write(&source, COUNTS).unwrap();
    let made = Command::new("cc").arg("-o").arg(&program).arg(source).status();
    if !made.is_ok_and(|status| status.success()) {
        return None;
    }
    std::fs::create_dir(home.path().join("tmp")).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("glebe"));
    command.args(["run", "--stats", "--"]).arg(program).arg(word);
    command.env("TMPDIR", home.path().join("tmp"));
    command.env("XDG_CACHE_HOME", home.path()).env_remove("LD_PRELOAD").stderr(Stdio::null());
    let Some((ours, theirs)) = terminal else {
        command.process_group(0).stdout(Stdio::piped());
        let mut command = command.spawn().unwrap();
        let output = OwnedFd::from(command.stdout.take().unwrap());
        return Some(Run {
            command,
            output: BufReader::new(File::from(output)),
            caught_up: 0,
            home,
        });
    };
    let number = theirs.as_raw_fd();
    // SAFETY: only system calls between fork and execve.
    unsafe {
        command.pre_exec(move || match (libc::setsid(), libc::ioctl(number, libc::TIOCSCTTY, 0)) {
            (-1, _) | (_, -1) => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs);
    let process = command.spawn().unwrap();
    Some(Run { command: process, output: BufReader::new(ours), caught_up: 0, home })
}

impl Run {
    fn pid(&self) -> i32 {
        self.command.id() as i32
    }

    /// Sends a signal to the command, or to its group.
    fn send(&self, to: i32, signal: i32) {
        // SAFETY: only sends a signal.
        assert_eq!(unsafe { libc::kill(to, signal) }, 0);
    }

    /// The processes of the command's group, the eldest first.
    fn group(&self) -> Vec<i32> {
        let is_in = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|line| {
                let after_name = line.rsplit(')').next().unwrap_or_default();
                after_name.split_whitespace().nth(2) == Some(&self.pid().to_string())
            })
        };
        let names = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let mut found: Vec<_> =
            names.filter_map(|name| name.to_str()?.parse().ok()).filter(is_in).collect();
        found.sort_by_key(|pid| (*pid != self.pid(), *pid));
        found
    }

    /// Reads until a line with this end, and returns it. A hang fails after two minutes.
    fn says(&mut self, end: &str) -> String {
        let mut line = String::new();
        while !line.trim_end().ends_with(end) {
            if self.output.buffer().is_empty() {
                let fd = self.output.get_ref().as_raw_fd();
                let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                // SAFETY: poll writes to the one struct that it is given.
                assert_eq!(unsafe { libc::poll(&mut ready, 1, 120_000) }, 1, "no {end:?}");
            }
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap_or(0), 0, "it ended before {end:?}");
        }
        line
    }

    /// Waits until the command has stopped.
    fn has_stopped(&mut self) {
        for _ in 0..3000 {
            let mut status = 0;
            // SAFETY: waitpid writes to the place that it is given.
            let found =
                unsafe { libc::waitpid(self.pid(), &mut status, libc::WUNTRACED | libc::WNOHANG) };
            if found != 0 {
                assert!(libc::WIFSTOPPED(status), "it ended: {status}");
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("the command runs on beside a program that is stopped");
    }

    /// How often the program got SIGINT and SIGCONT, once the command has handled all earlier signals.
    fn counts(&mut self) -> (i32, i32) {
        self.send(self.pid(), libc::SIGUSR1);
        self.caught_up += 1;
        let line = self.says(&format!(" {}", self.caught_up));
        let mut numbers = line.split_whitespace().map(|number| number.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    }

    /// Ends the program, which got so many of each. The command ends with its exit status.
    fn ends_with(mut self, counts: (i32, i32), about: &str) {
        assert_eq!(self.counts(), counts, "{about}");
        self.send(self.pid(), libc::SIGUSR2);
        assert_eq!(self.command.wait().unwrap().code(), Some(7), "{about}");
    }
}

impl Drop for Run {
    /// Ends the processes after a failure too.
    fn drop(&mut self) {
        if let Ok(None) = self.command.try_wait() {
            self.send(-self.pid(), libc::SIGKILL);
        }
    }
}

/// Both ends of a new terminal, which does not discard written text when it sends a signal.
fn terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: openpty writes two descriptors, which are owned from here on.
    unsafe {
        assert_eq!(libc::openpty(&mut ours, &mut theirs, none, none.cast(), none.cast()), 0);
        let mut mode: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(theirs, &mut mode), 0);
        mode.c_lflag = mode.c_lflag & !libc::ECHO | libc::NOFLSH;
        assert_eq!(libc::tcsetattr(theirs, libc::TCSANOW, &mode), 0);
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

#[test]
fn the_terminals_interrupt_reaches_the_program_once() {
    let (ours, theirs) = terminal();
    let mut typed = ours.try_clone().unwrap();
    let Some(mut run) = run("", Some((ours, theirs))) else { return };
    run.says("ready");
    typed.write_all(b"\x03").unwrap();
    run.says("1 0 0");
    run.ends_with((1, 0), "");
}

/// The control for the test above.
#[test]
fn an_interrupt_for_the_command_alone_is_handed_on() {
    let Some(mut run) = run("", None) else { return };
    run.says("ready");
    run.send(run.pid(), libc::SIGINT);
    run.says("1 0 0");
    run.ends_with((1, 0), "");
}

/// The command cannot see from the signal that it was for the group.
#[test]
fn an_interrupt_for_the_whole_group_reaches_the_program_once() {
    let Some(mut run) = run("", None) else { return };
    run.says("ready");
    for round in (1..40).step_by(2) {
        run.send(-run.pid(), libc::SIGINT);
        assert_eq!(run.counts(), (round, 0));
        run.send(run.pid(), libc::SIGINT);
        assert_eq!(run.counts(), (round + 1, 0)); // the sentinel's answer was for the other alone
    }
}

/// As systemd ends a service: the parent first.
#[test]
fn an_interrupt_for_each_process_of_the_group_reaches_the_program_once() {
    let Some(mut run) = run("", None) else { return };
    run.says("ready");
    let processes = run.group();
    assert_eq!(processes.len(), 3, "the command, its sentinel and the program: {processes:?}");
    processes.iter().for_each(|pid| run.send(*pid, libc::SIGINT));
    run.says("1 0 0");
    run.ends_with((1, 0), "");
}

#[test]
fn a_program_in_a_group_of_its_own_gets_the_signal_of_the_commands() {
    let Some(mut run) = run("alone", None) else { return };
    run.says("ready");
    run.send(-run.pid(), libc::SIGINT);
    run.says("1 0 0");
    run.ends_with((1, 0), "");
}

/// Nothing waits for a sentinel that somebody killed or stopped.
#[test]
fn without_its_sentinel_the_command_forwards_everything() {
    for signal in [libc::SIGKILL, libc::SIGSTOP] {
        let Some(mut run) = run("", None) else { return };
        run.says("ready");
        let sentinel = run.group()[1];
        run.send(sentinel, signal);
        run.send(run.pid(), libc::SIGINT);
        run.says("1 0 0");
        assert_eq!(run.counts(), (1, 0), "{signal}");
        run.send(-run.pid(), libc::SIGKILL);
    }
}

#[test]
fn a_command_that_is_killed_leaves_no_file() {
    let Some(mut run) = run("", None) else { return };
    run.says("ready");
    let files = run.home.path().join("tmp");
    let count = || std::fs::read_dir(&files).unwrap().count();
    assert_eq!(count(), 1, "the statistics");
    let program = *run.group().last().unwrap();
    run.send(run.pid(), libc::SIGKILL);
    common::wait_until("the statistics stay", || count() == 0);
    run.send(program, libc::SIGKILL);
}

#[test]
fn a_signal_that_the_program_sends_does_not_come_back() {
    let Some(mut run) = run("parent", None) else { return };
    run.says("ready");
    run.ends_with((0, 0), "");
}

#[test]
fn the_command_stops_and_continues_with_its_program() {
    for (word, group) in [("stops", true), ("stops", false), ("", true), ("", false)] {
        let Some(mut run) = run(word, None) else { return };
        if word.is_empty() {
            run.says("ready");
            run.send(run.pid(), libc::SIGTSTP);
        }
        run.has_stopped();
        run.send(if group { -run.pid() } else { run.pid() }, libc::SIGCONT);
        run.says(if word.is_empty() { "0 1 0" } else { "ready" });
        run.ends_with((0, 1), &format!("{word:?} {group}"));
    }
}
