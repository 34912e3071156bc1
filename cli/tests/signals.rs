//! Signals to `glebe run --stats`, which stays the parent of its program: each reaches the program once, and the
//! command stops when the program does. No test depends on timing.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A program that counts SIGINT, SIGCONT and SIGUSR1, and prints the counts after each signal. SIGUSR2 ends it: its
/// exit status is the three counts as a number. With the word "stops" it first stops itself; with "parent" it signals
/// its parent.
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
    puts("ready");
    fflush(stdout);
    while (!got[SIGUSR2]) {
        sigsuspend(&others);
        printf("%d %d %d\n", got[SIGINT], got[SIGCONT], got[SIGUSR1]);
        fflush(stdout);
    }
    return got[SIGINT] * 25 + got[SIGCONT] * 5 + got[SIGUSR1];
}
"#;

struct Run {
    command: Child,
    output: BufReader<File>,
    _home: TempDir,
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
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("glebe"));
    command.args(["run", "--stats", "--"]).arg(program).arg(word);
    command.env("XDG_CACHE_HOME", home.path()).env_remove("LD_PRELOAD").stderr(Stdio::null());
    let Some((ours, theirs)) = terminal else {
        command.process_group(0).stdout(Stdio::piped());
        let mut command = command.spawn().unwrap();
        let output = OwnedFd::from(command.stdout.take().unwrap());
        return Some(Run { command, output: BufReader::new(File::from(output)), _home: home });
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
    Some(Run { command: process, output: BufReader::new(ours), _home: home })
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

    /// Reads until a line with this end. A hang fails after two minutes.
    fn says(&mut self, end: &str) {
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

    /// How often the program got SIGINT and SIGCONT. A first signal makes sure that the command has handled all earlier
    /// ones.
    fn counts(mut self) -> (i32, i32) {
        self.send(self.pid(), libc::SIGUSR1);
        self.says(" 1");
        self.send(self.pid(), libc::SIGUSR2);
        let code = self.command.wait().unwrap().code().unwrap();
        assert_eq!(code % 5, 1, "SIGUSR1");
        (code / 25, code / 5 % 5)
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
    assert_eq!(run.counts(), (1, 0));
}

/// The control for the test above.
#[test]
fn an_interrupt_for_the_command_alone_is_handed_on() {
    let Some(mut run) = run("", None) else { return };
    run.says("ready");
    run.send(run.pid(), libc::SIGINT);
    run.says("1 0 0");
    assert_eq!(run.counts(), (1, 0));
}

#[test]
fn a_signal_that_the_program_sends_does_not_come_back() {
    let Some(mut run) = run("parent", None) else { return };
    run.says("ready");
    assert_eq!(run.counts(), (0, 0));
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
        assert_eq!(run.counts(), (0, 1), "{word:?} {group}");
    }
}
