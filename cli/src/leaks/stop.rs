//! Stops all threads of a process, and tells their registers. They go on when this is dropped, or if this command dies.
//!
//! ```text
//!   each thread of /proc/PID/task, until no new one appears:   PTRACE_SEIZE, PTRACE_INTERRUPT, wait
//! ```
//!
//! A thread may stop for a signal that just came instead of for us; it gets that signal when it goes on.

use crate::system::live::denied;
use anyhow::{bail, Result};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ptr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A thread that does not stop within this time waits in the kernel, mostly for a disk.
const PATIENCE: Duration = Duration::from_secs(2);

pub struct Stopped {
    /// The threads, and the signal that each gets when it goes on.
    threads: BTreeMap<i32, i32>,
    pub since: Instant,
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
    let mut stopped = Stopped { threads: BTreeMap::new(), since: Instant::now() };
    loop {
        let new: Vec<i32> =
            threads_of(pid).into_iter().filter(|tid| !stopped.threads.contains_key(tid)).collect();
        if new.is_empty() {
            break;
        }
        for tid in &new {
            seize(pid, *tid)?;
            stopped.threads.insert(*tid, 0);
        }
        for tid in new {
            match wait(pid, tid)? {
                Some(signal) => stopped.threads.insert(tid, signal),
                None => stopped.threads.remove(&tid),
            };
        }
    }
    if stopped.threads.is_empty() {
        bail!("process {pid} has ended");
    }
    Ok(stopped)
}

fn threads_of(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// C libraries differ in the type of ptrace's requests.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

fn ptrace(request: Request, tid: i32, data: usize) -> io::Result<()> {
    // SAFETY: the requests used here read and write no memory of ours.
    match unsafe { libc::ptrace(request, tid, ptr::null_mut::<libc::c_void>(), data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn seize(pid: i32, tid: i32) -> Result<()> {
    match ptrace(libc::PTRACE_SEIZE, tid, 0) {
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
        Err(e) => return Err(denied(pid, &e)),
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
        if begun.elapsed() > PATIENCE {
            bail!("thread {tid} of process {pid} does not stop: it waits in the kernel");
        }
        sleep(Duration::from_micros(20));
    }
}

impl Stopped {
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
fn register_set(tid: i32, set: usize) -> Vec<u64> {
    let mut words = vec![0u64; 1024];
    let mut area = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: words.len() * 8 };
    // SAFETY: the kernel writes at most iov_len bytes to `words`.
    let answer = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, set, &mut area) };
    words.truncate(if answer == -1 { 0 } else { area.iov_len / 8 });
    words
}

const NT_PRSTATUS: usize = 1;
const NT_PRFPREG: usize = 2;

#[cfg(target_arch = "x86_64")]
fn registers(tid: i32) -> Registers {
    // Places in user_regs_struct.
    const RSP: usize = 19;
    const FS_BASE: usize = 21;
    let mut words = register_set(tid, NT_PRSTATUS);
    let at = |i: usize| words.get(i).copied().unwrap_or(0);
    let (stack_pointer, thread_pointer) = (at(RSP), at(FS_BASE));
    words.extend(register_set(tid, NT_PRFPREG));
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
