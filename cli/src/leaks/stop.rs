//! Stops all threads of a process, and tells their registers. They go on when this is dropped, or if this command dies.
//!
//! ```text
//!   each thread of /proc/PID/task, until no new one appears:   PTRACE_SEIZE, PTRACE_INTERRUPT, wait
//! ```
//!
//! A thread may stop for a signal that just came instead of for us; it gets that signal when it goes on.

use crate::explain::process::status_word;
use crate::system::live::{denied, name_of, stat_of};
use anyhow::{anyhow, bail, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::ptr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A process that does not stop within this time has a thread that waits in the kernel, for a disk or a vfork's child.
const PATIENCE: Duration = Duration::from_secs(2);
/// So long the other threads stand for such a thread. Then they run for a while, until the next attempt.
const ATTEMPT: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(200);

pub struct Stopped {
    /// The threads, and the signal that each gets when it goes on.
    pub threads: BTreeMap<i32, i32>,
    pub since: Instant,
}

/// While it lives, no signal ends this command.
pub struct Steady(libc::sigset_t);

impl Steady {
    pub fn new() -> Steady {
        // SAFETY: both sets are ours.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            Steady(before)
        }
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        // SAFETY: the set is what the kernel told us.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// How long each thread of the process was on a processor, in ns, and whether it wants one now.
pub fn times(pid: i32) -> BTreeMap<i32, (u64, bool)> {
    let time = |tid: i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
        let ran = text.split_whitespace().next()?.parse().ok()?;
        Some((tid, (ran, stat_of(tid)?.first()? == "R")))
    };
    threads_of(pid).into_iter().filter_map(time).collect()
}

/// Waits until each thread has run for a while since `before`, or sleeps; at most a second. Then none is where it was.
pub fn wait_to_run(pid: i32, before: &BTreeMap<i32, (u64, bool)>) {
    const LEAST_NS: u64 = 200_000;
    let begun = Instant::now();
    let is_behind = |(tid, (ran, runs)): (&i32, &(u64, bool))| {
        *runs && before.get(tid).is_some_and(|(then, _)| ran - then.min(ran) < LEAST_NS)
    };
    while times(pid).iter().any(is_behind) && begun.elapsed() < Duration::from_secs(1) {
        sleep(Duration::from_millis(1));
    }
}

/// What the registers of a thread hold.
#[derive(Debug, Default, Clone)]
pub struct Registers {
    pub stack_pointer: u64,
    /// The address of its thread control block, from which its thread-local variables are found.
    pub thread_pointer: u64,
    /// All of them, as words.
    pub words: Vec<u64>,
}

/// Stops the process.
pub fn stop(pid: i32) -> Result<Stopped> {
    let begun = Instant::now();
    loop {
        match attempt(pid) {
            Err(error) if error.is::<Waits>() && begun.elapsed() < PATIENCE => sleep(PAUSE),
            other => return other,
        }
    }
}

/// A thread that waits in the kernel, and does not stop.
#[derive(Debug)]
struct Waits {
    pid: i32,
    tid: i32,
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Waits { pid, tid } = self;
        write!(f, "thread {tid} of process {pid} does not stop: it waits in the kernel")
    }
}

impl std::error::Error for Waits {}

fn attempt(pid: i32) -> Result<Stopped> {
    let mut stopped = Stopped { threads: BTreeMap::new(), since: Instant::now() };
    let mut seen = BTreeSet::new();
    loop {
        let new: Vec<i32> = threads_of(pid).into_iter().filter(|tid| seen.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        stopped.add(pid, &new)?;
    }
    if stopped.threads.is_empty() {
        bail!("process {pid} has ended");
    }
    Ok(stopped)
}

/// Stops one thread of the process. Without threads: it has ended.
pub fn stop_thread(pid: i32, tid: i32) -> Result<Stopped> {
    let mut stopped = Stopped { threads: BTreeMap::new(), since: Instant::now() };
    stopped.add(pid, &[tid])?;
    Ok(stopped)
}

pub fn threads_of(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn untraceable(pid: i32, error: &io::Error) -> anyhow::Error {
    match status_word(pid, "TracerPid").and_then(|tracer| tracer.parse().ok()) {
        None | Some(0) => denied(pid, error),
        Some(tracer) => anyhow!(
            "process {pid} is traced by {}[{tracer}] (a debugger, strace), and only one can do that",
            name_of(tracer)
        ),
    }
}

/// C libraries differ in the type of ptrace's requests.
#[cfg(target_env = "musl")]
pub type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
pub type Request = libc::c_uint;

pub fn ptrace(request: Request, tid: i32, data: usize) -> io::Result<()> {
    // SAFETY: the requests used here read and write no memory of ours.
    match unsafe { libc::ptrace(request, tid, ptr::null_mut::<libc::c_void>(), data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn is_ours(tid: i32) -> bool {
    status_word(tid, "TracerPid") == Some(std::process::id().to_string())
}

fn seize(pid: i32, tid: i32) -> Result<()> {
    match ptrace(libc::PTRACE_SEIZE, tid, 0) {
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
        Err(_) if is_ours(tid) => {} // it did not stop at an earlier attempt
        Err(e) => return Err(untraceable(pid, &e)),
        Ok(()) => {}
    }
    let _ = ptrace(libc::PTRACE_INTERRUPT, tid, 0);
    Ok(())
}

/// Waits until the thread has stopped. Returns the signal that it stopped for, 0 for ours; None if it has ended.
fn wait(pid: i32, tid: i32) -> Result<Option<i32>> {
    let begun = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: waitpid writes to the place that it is given.
        match unsafe { libc::waitpid(tid, &mut status, libc::__WALL | libc::WNOHANG) } {
            0 => {}
            -1 => return Ok(None),
            _ if libc::WIFSTOPPED(status) => {
                let event = status >> 16;
                return Ok(Some(if event == 0 { libc::WSTOPSIG(status) } else { 0 }));
            }
            _ => return Ok(None),
        }
        let is_waiting = || stat_of(tid).is_some_and(|stat| stat.first().is_some_and(|s| s == "D"));
        let elapsed = begun.elapsed();
        if elapsed > PATIENCE || elapsed > ATTEMPT && is_waiting() {
            bail!(Waits { pid, tid });
        }
        sleep(Duration::from_micros(20));
    }
}

impl Stopped {
    fn add(&mut self, pid: i32, new: &[i32]) -> Result<()> {
        for tid in new {
            seize(pid, *tid)?;
            self.threads.insert(*tid, 0);
        }
        // All are waited for, since one that stops later could not be let go on.
        let mut done = Ok(());
        for tid in new {
            match wait(pid, *tid) {
                Ok(Some(signal)) => {
                    self.threads.insert(*tid, signal);
                }
                Ok(None) => {
                    self.threads.remove(tid);
                }
                Err(error) => done = Err(error),
            }
        }
        done
    }

    /// Lets the threads go on. Returns how long they were stopped.
    pub fn go_on(self) -> Duration {
        let since = self.since;
        drop(self);
        since.elapsed()
    }

    /// The threads that stopped for us, not for a signal.
    pub fn quiet(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.iter().filter(|(_, signal)| **signal == 0).map(|(tid, _)| *tid)
    }

    pub fn signal_of(&mut self, tid: i32) -> &mut i32 {
        self.threads.entry(tid).or_insert(0)
    }

    pub fn registers(&self) -> Vec<Registers> {
        self.threads.keys().map(|tid| registers(*tid)).collect()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for (tid, signal) in &self.threads {
            let _ = ptrace(libc::PTRACE_DETACH, *tid, *signal as usize);
        }
    }
}

/// A set of registers, as words.
pub fn register_set(tid: i32, set: usize) -> Vec<u64> {
    let mut words = vec![0u64; 2048];
    let mut area = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: words.len() * 8 };
    // SAFETY: the kernel writes at most iov_len bytes to `words`.
    let answer = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, set, &mut area) };
    words.truncate(if answer == -1 { 0 } else { area.iov_len / 8 });
    words
}

pub const NT_PRSTATUS: usize = 1;
const NT_PRFPREG: usize = 2;

#[cfg(target_arch = "x86_64")]
fn registers(tid: i32) -> Registers {
    // Places in user_regs_struct.
    const RSP: usize = 19;
    const FS_BASE: usize = 21;
    const NT_X86_XSTATE: usize = 0x202; // with the upper halves of the vector registers
    let mut words = register_set(tid, NT_PRSTATUS);
    let at = |i: usize| words.get(i).copied().unwrap_or(0);
    let (stack_pointer, thread_pointer) = (at(RSP), at(FS_BASE));
    let vectors = register_set(tid, NT_X86_XSTATE);
    words.extend(if vectors.is_empty() { register_set(tid, NT_PRFPREG) } else { vectors });
    Registers { stack_pointer, thread_pointer, words }
}

#[cfg(not(target_arch = "x86_64"))]
fn registers(tid: i32) -> Registers {
    // user_pt_regs of 64-bit Arm: x0 to x30, then sp.
    const SP: usize = 31;
    const NT_ARM_TLS: usize = 0x401;
    let mut words = register_set(tid, NT_PRSTATUS);
    let stack_pointer = words.get(SP).copied().unwrap_or(0);
    let thread_pointer = register_set(tid, NT_ARM_TLS).first().copied().unwrap_or(0);
    words.extend(register_set(tid, NT_PRFPREG));
    words.push(thread_pointer);
    Registers { stack_pointer, thread_pointer, words }
}
