//! Stops all threads of a process, and tells their registers. They go on when this is dropped, or if this command dies.
//!
//! ```text
//!   PTRACE_SEIZE for each thread of /proc/PID/task ─▶ PTRACE_INTERRUPT for each ─▶ wait ─▶ again, until none is new
//!        they run on                                       the stop begins here
//! ```
//!
//! A thread may stop for a signal that just came instead of for us; it gets that signal when it goes on.
//!
//! Each thread takes four calls of the kernel in the stop, and two for its registers: some 12 us of processor time. So
//! whatever can be done before it is, and nothing else is done for each thread.

use crate::explain::process::status_word;
use crate::system::live::{denied, name_of, state_of_thread, threads_of};
use anyhow::{anyhow, bail, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::ptr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A process that does not stop within this time has a thread that waits in the kernel, for a disk or a vfork's child.
const PATIENCE: Duration = Duration::from_secs(2);
/// So long the other threads stand for such a thread. Then they run for a while, until the next attempt.
const ATTEMPT: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Default)]
pub struct Stopped {
    threads: BTreeMap<i32, Thread>,
}

struct Thread {
    /// What it gets when it goes on; 0: none.
    signal: i32,
    /// When it was told to stop.
    since: Instant,
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
        Some((tid, (ran, state_of_thread(pid, tid)? == 'R')))
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
    /// The words of all of them that may be addresses.
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
    let mut stopped = Stopped::default();
    let mut seen = BTreeSet::new();
    loop {
        let new: Vec<i32> = threads_of(pid).into_iter().filter(|tid| seen.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        stopped.add(pid, &new)?;
        // Only a thread that runs makes a new one, so nothing is left to be listed again.
        if count_of(pid) == Some(stopped.threads.len() as u64) {
            break;
        }
    }
    if stopped.threads.is_empty() {
        bail!("process {pid} has ended");
    }
    Ok(stopped)
}

/// Stops one thread of the process. Without threads: it has ended.
pub fn stop_thread(pid: i32, tid: i32) -> Result<Stopped> {
    let mut stopped = Stopped::default();
    stopped.add(pid, &[tid])?;
    Ok(stopped)
}

/// How many threads the process has, those included that are ending.
fn count_of(pid: i32) -> Option<u64> {
    fs::metadata(format!("/proc/{pid}/task")).ok()?.nlink().checked_sub(2)
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
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        Err(_) if is_ours(tid) => Ok(()), // it did not stop at an earlier attempt
        Err(e) => Err(untraceable(pid, &e)),
        Ok(()) => Ok(()),
    }
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
        let is_waiting = || state_of_thread(pid, tid) == Some('D');
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
        }
        for tid in new {
            self.threads.insert(*tid, Thread { signal: 0, since: Instant::now() });
            let _ = ptrace(libc::PTRACE_INTERRUPT, *tid, 0);
        }
        // All are waited for, since one that stops later could not be let go on.
        let mut done = Ok(());
        for tid in new {
            match wait(pid, *tid) {
                Ok(Some(signal)) => *self.signal_of(*tid) = signal,
                Ok(None) => {
                    self.threads.remove(tid);
                }
                Err(error) => done = Err(error),
            }
        }
        done
    }

    /// Lets the threads go on. Returns how long a thread was stopped at most.
    pub fn go_on(mut self) -> Duration {
        self.release()
    }

    fn release(&mut self) -> Duration {
        let mut most = Duration::ZERO;
        for (tid, thread) in std::mem::take(&mut self.threads) {
            let _ = ptrace(libc::PTRACE_DETACH, tid, thread.signal as usize);
            most = most.max(thread.since.elapsed());
        }
        most
    }

    /// Whether the thread stopped for us, not for a signal.
    pub fn is_quiet(&self, tid: i32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.signal == 0)
    }

    /// The threads that stopped for us.
    pub fn quiet(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.keys().copied().filter(|tid| self.is_quiet(*tid))
    }

    /// Of a thread that is stopped.
    pub fn signal_of(&mut self, tid: i32) -> &mut i32 {
        &mut self.threads.get_mut(&tid).expect("it is stopped").signal
    }

    pub fn registers(&self) -> Vec<Registers> {
        let mut room = [0; SET_WORDS];
        self.threads.keys().map(|tid| registers(*tid, &mut room)).collect()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.release();
    }
}

/// Room for a set of registers.
const SET_WORDS: usize = 2048;

/// Reads a set of registers. Returns its words.
fn read_set(tid: i32, set: usize, room: &mut [u64; SET_WORDS]) -> &[u64] {
    let mut area = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: SET_WORDS * 8 };
    // SAFETY: the kernel writes at most iov_len bytes to `room`.
    let answer = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, set, &mut area) };
    &room[..if answer == -1 { 0 } else { area.iov_len / 8 }]
}

/// A set of registers, as words.
pub fn register_set(tid: i32, set: usize) -> Vec<u64> {
    read_set(tid, set, &mut [0; SET_WORDS]).to_vec()
}

/// Those words that may be addresses. Most registers for vectors are zero.
fn addresses(words: &[u64]) -> impl Iterator<Item = u64> + '_ {
    const LEAST: u64 = 4096;
    words.iter().copied().filter(|word| *word >= LEAST)
}

pub const NT_PRSTATUS: usize = 1;
const NT_PRFPREG: usize = 2;

#[cfg(target_arch = "x86_64")]
fn registers(tid: i32, room: &mut [u64; SET_WORDS]) -> Registers {
    // Places in user_regs_struct.
    const RSP: usize = 19;
    const FS_BASE: usize = 21;
    const NT_X86_XSTATE: usize = 0x202; // with the upper halves of the vector registers
    let general = read_set(tid, NT_PRSTATUS, room);
    let at = |i: usize| general.get(i).copied().unwrap_or(0);
    let (stack_pointer, thread_pointer) = (at(RSP), at(FS_BASE));
    let mut words: Vec<u64> = addresses(general).collect();
    let vectors = read_set(tid, NT_X86_XSTATE, room);
    words.extend(addresses(vectors));
    if vectors.is_empty() {
        words.extend(addresses(read_set(tid, NT_PRFPREG, room)));
    }
    Registers { stack_pointer, thread_pointer, words }
}

#[cfg(not(target_arch = "x86_64"))]
fn registers(tid: i32, room: &mut [u64; SET_WORDS]) -> Registers {
    // user_pt_regs of 64-bit Arm: x0 to x30, then sp.
    const SP: usize = 31;
    const NT_ARM_TLS: usize = 0x401;
    let general = read_set(tid, NT_PRSTATUS, room);
    let stack_pointer = general.get(SP).copied().unwrap_or(0);
    let mut words: Vec<u64> = addresses(general).collect();
    let thread_pointer = read_set(tid, NT_ARM_TLS, room).first().copied().unwrap_or(0);
    words.extend(addresses(read_set(tid, NT_PRFPREG, room)));
    words.push(thread_pointer);
    Registers { stack_pointer, thread_pointer, words }
}
