//! A system call that a stopped thread of another process makes for us.
//!
//! ```text
//!   registers and signal mask are kept; all signals blocked; registers of the call, at a system call instruction
//!   PTRACE_SYSCALL ─▶ entry ─▶ (a clone's child, which is traced from its first instruction) ─▶ exit: the answer
//!   PTRACE_INTERRUPT, PTRACE_CONT ─▶ the stop in which it was before; registers and mask as they were
//! ```
//!
//! 1. The last stop must be of the same kind as the first. There the kernel finds that the thread waits in a system
//!    call, and starts that call again; behind the exit of a call it would not.
//! 2. No signal is used: a SIGTRAP that is blocked would take the program's handler away.
//! 3. A thread is left alone if a call may harm it: see `fits`.

use super::stop::{ptrace, register_set, Request, NT_PRSTATUS};
use crate::explain::process::status_word;
use crate::system::live::{Memory, Reader};
use anyhow::{bail, Result};
use std::fs;
use std::io;

/// What a call has come to.
pub struct Answer {
    /// As the kernel returns it: an error is negative.
    pub value: i64,
    /// The child that it made, by its number here.
    pub child: Option<i32>,
}

/// Not in the crate libc for all targets.
const SETREGSET: Request = 0x4205;
const GETSIGMASK: Request = 0x420a;
const SETSIGMASK: Request = 0x420b;
const GET_RSEQ_CONFIGURATION: Request = 0x420f;
const GET_USER_DISPATCH: Request = 0x4210;

#[cfg(target_arch = "x86_64")]
mod machine {
    /// The instruction.
    pub const CALL: &[u8] = &[0x0f, 0x05];
    pub const STEP: usize = 1;
    const RAX: usize = 10;
    const ORIG_RAX: usize = 15;
    const RIP: usize = 16;
    const CS: usize = 17;
    const CS_64_BIT: u64 = 0x33;

    /// Places in user_regs_struct: rdi, rsi, rdx, r10.
    pub const ARGUMENTS: [usize; 4] = [14, 13, 12, 7];
    pub const ANSWER: usize = RAX;

    pub fn is_known(words: &[u64]) -> bool {
        words.len() > CS && words[CS] == CS_64_BIT
    }

    /// Whether the thread is in a system call.
    pub fn in_call(words: &[u64]) -> bool {
        words[ORIG_RAX] as i64 >= 0
    }

    pub fn prepare(words: &mut [u64], at: u64, number: u64) {
        words[RIP] = at;
        words[RAX] = number;
        words[ORIG_RAX] = !0; // no call to start again
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod machine {
    /// `svc #0`
    pub const CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4];
    pub const STEP: usize = 4;
    const X8: usize = 8;
    const PC: usize = 32;
    const WORDS: usize = 34;

    /// Places in user_pt_regs.
    pub const ARGUMENTS: [usize; 4] = [0, 1, 2, 3];
    pub const ANSWER: usize = 0;

    pub fn is_known(words: &[u64]) -> bool {
        words.len() == WORDS
    }

    /// The kernel has taken the call back when it tells a tracer of the stop.
    pub fn in_call(_words: &[u64]) -> bool {
        false
    }

    pub fn prepare(words: &mut [u64], at: u64, number: u64) {
        words[PC] = at;
        words[X8] = number;
    }
}

/// The address of a system call instruction in the process: in the kernel's own code there, else in any.
pub fn instruction(memory: &Memory, maps: &str) -> Option<u64> {
    let mut code: Vec<(u64, u64, bool)> = maps.lines().filter_map(code_of).collect();
    code.sort_by_key(|(.., is_kernels)| !is_kernels);
    code.into_iter().find_map(|(start, end, _)| {
        const MOST_BYTES: u64 = 4 << 20;
        let mut bytes = vec![0; (end - start).min(MOST_BYTES) as usize];
        memory.fill(start, &mut bytes).ok()?;
        let mut places = bytes.windows(machine::CALL.len()).enumerate().step_by(machine::STEP);
        places.find(|(_, place)| *place == machine::CALL).map(|(at, _)| start + at as u64)
    })
}

/// Code that can be read, and whether it is the kernel's.
fn code_of(line: &str) -> Option<(u64, u64, bool)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let fits = rest.starts_with("r-x") && !rest.ends_with("[vsyscall]");
    fits.then_some((hex(start)?, hex(end)?, rest.ends_with("[vdso]")))
}

/// A thread that can make a call for us, if possible one that waits in a call; else why there is none. All stand still
/// while we search, so it ends with the first, and where so many do not fit.
pub fn fitting(pid: i32, threads: impl Iterator<Item = i32>) -> Result<i32, String> {
    const THREADS_MOST: usize = 256;
    let mut why = "no thread of 64 bits stopped".to_string();
    let mut running = Vec::new();
    for tid in threads.take(THREADS_MOST) {
        let words = register_set(tid, NT_PRSTATUS);
        if !machine::is_known(&words) {
            continue;
        }
        if !machine::in_call(&words) {
            running.push(tid);
            continue;
        }
        match fits(pid, tid, true) {
            Ok(()) => return Ok(tid),
            Err(reason) => why = reason.into(),
        }
    }
    for tid in running {
        match fits(pid, tid, false) {
            Ok(()) => return Ok(tid),
            Err(reason) => why = reason.into(),
        }
    }
    Err(why)
}

/// Whether the stopped thread can make a call without harm.
///
/// - A seccomp filter may end a process for the call. Filters that it shares with us are those of our container, whose
///   programs may fork.
/// - System calls may be dispatched to the program, as under Wine.
/// - A restartable sequence (rseq) must not be left without its end: the kernel forgets it when the thread goes
///   elsewhere. No call is in one.
fn fits(pid: i32, tid: i32, in_call: bool) -> Result<(), &'static str> {
    if is_filtered(tid) && !same_filters(pid, tid) {
        return Err("a seccomp filter checks its system calls");
    }
    let mut dispatch = [0u64; 4];
    if get(GET_USER_DISPATCH, tid, &mut dispatch) && dispatch[0] != 0 {
        return Err("its system calls are dispatched");
    }
    let mut rseq = [0u64; 3];
    let memory = Memory { pid };
    if !in_call
        && get(GET_RSEQ_CONFIGURATION, tid, &mut rseq)
        && rseq[0] != 0
        && memory.u64(rseq[0] + 8).unwrap_or(1) != 0
    {
        return Err("its threads are in restartable sequences");
    }
    Ok(())
}

/// Whether a seccomp filter checks the calls of the thread.
pub fn is_filtered(tid: i32) -> bool {
    filters(tid) != Some((0, 0))
}

/// The seccomp mode of a thread, and how many filters it has.
fn filters(tid: i32) -> Option<(u64, u64)> {
    let number = |name| status_word(tid, name)?.parse().ok();
    number("Pid")?; // the thread is there
    let mode = number("Seccomp").unwrap_or(0); // a kernel without
    Some((mode, number("Seccomp_filters").unwrap_or(if mode == 0 { 0 } else { u64::MAX })))
}

fn same_filters(pid: i32, tid: i32) -> bool {
    const BY_FILTER: u64 = 2;
    let own = std::process::id() as i32;
    let place = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let (theirs, ours) = (filters(tid), filters(own));
    theirs.is_some_and(|(mode, count)| mode == BY_FILTER && count != u64::MAX)
        && theirs == ours
        && place(pid).is_some()
        && place(pid) == place(own)
}

/// Requests that take the size of what they fill. Returns whether the kernel knows the request.
fn get(request: Request, tid: i32, words: &mut [u64]) -> bool {
    let bytes = std::mem::size_of_val(words);
    // SAFETY: the kernel writes at most `bytes` to `words`.
    unsafe { libc::ptrace(request, tid, bytes, words.as_mut_ptr()) != -1 }
}

fn set_registers(tid: i32, words: &[u64]) -> io::Result<()> {
    let mut area = libc::iovec {
        iov_base: words.as_ptr() as *mut libc::c_void,
        iov_len: std::mem::size_of_val(words),
    };
    // SAFETY: the kernel reads `words`.
    match unsafe { libc::ptrace(SETREGSET, tid, NT_PRSTATUS, &mut area) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn mask(request: Request, tid: i32, mask: &mut u64) -> io::Result<()> {
    // SAFETY: the kernel reads or writes the 8 bytes of `mask`.
    match unsafe { libc::ptrace(request, tid, 8usize, mask as *mut u64) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

enum Stop {
    /// At the entry or the exit of a system call.
    Call,
    Event(i32),
    Signal(i32),
}

/// Waits until the thread stops; an error if it has ended.
fn next(pid: i32, tid: i32) -> Result<Stop> {
    let mut status = 0;
    // SAFETY: waitpid writes to the place that it is given.
    while unsafe { libc::waitpid(tid, &mut status, libc::__WALL) } == -1 {
        if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            bail!("process {pid} has ended");
        }
    }
    match libc::WIFSTOPPED(status) {
        true if status >> 16 != 0 => Ok(Stop::Event(status >> 16)),
        true if libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 => Ok(Stop::Call),
        true => Ok(Stop::Signal(libc::WSTOPSIG(status))),
        false => bail!("process {pid} has ended"),
    }
}

/// Whether a system call instruction is at the address. The process may execute another program after it was found.
pub fn is_instruction(memory: &Memory, at: u64) -> bool {
    let mut bytes = [0; machine::CALL.len()];
    memory.fill(at, &mut bytes).is_ok() && bytes == machine::CALL
}

/// Lets the stopped thread make a system call. `at`: its instruction. Returns after the thread is as it was, with the
/// signal that came meanwhile in `signal`; SIGSTOP is the only one that can.
pub fn call(
    pid: i32,
    tid: i32,
    at: u64,
    (number, arguments): (i64, [u64; 4]),
    signal: &mut i32,
) -> Result<Answer> {
    if !is_instruction(&Memory { pid }, at) {
        bail!("process {pid} has executed another program");
    }
    let before = register_set(tid, NT_PRSTATUS);
    let mut blocked = 0;
    mask(GETSIGMASK, tid, &mut blocked)?;
    let mut words = before.clone();
    machine::prepare(&mut words, at, number as u64);
    for (place, argument) in machine::ARGUMENTS.iter().zip(arguments) {
        words[*place] = argument;
    }
    ptrace(
        libc::PTRACE_SETOPTIONS,
        tid,
        (libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACESYSGOOD) as usize,
    )?;
    mask(SETSIGMASK, tid, &mut !0)?;
    let answer = match set_registers(tid, &words) {
        Ok(()) => make(pid, tid, signal),
        Err(e) => Err(e.into()),
    };
    // If the process has ended, none of these can be done, and `answer` says so.
    let _ = set_registers(tid, &before);
    let _ = mask(SETSIGMASK, tid, &mut blocked);
    let _ = ptrace(libc::PTRACE_SETOPTIONS, tid, 0);
    answer
}

fn make(pid: i32, tid: i32, signal: &mut i32) -> Result<Answer> {
    let mut answer = Answer { value: 0, child: None };
    let mut entered = false;
    loop {
        ptrace(libc::PTRACE_SYSCALL, tid, 0)?;
        match next(pid, tid)? {
            Stop::Call if entered => break,
            Stop::Call => entered = true,
            Stop::Event(libc::PTRACE_EVENT_CLONE) => {
                let mut child: libc::c_ulong = 0;
                ptrace(libc::PTRACE_GETEVENTMSG, tid, &mut child as *mut _ as usize)?;
                answer.child = Some(child as i32);
            }
            Stop::Event(_) => {}
            Stop::Signal(libc::SIGSTOP) => *signal = libc::SIGSTOP,
            // A fault, which cannot be blocked: it would come again without end.
            Stop::Signal(came) => bail!("process {pid} cannot make a system call (signal {came})"),
        }
    }
    answer.value = register_set(tid, NT_PRSTATUS)
        .get(machine::ANSWER)
        .map_or(-i64::from(libc::ESRCH), |word| *word as i64);
    ptrace(libc::PTRACE_INTERRUPT, tid, 0)?;
    loop {
        ptrace(libc::PTRACE_CONT, tid, 0)?;
        match next(pid, tid)? {
            Stop::Event(_) => return Ok(answer),
            Stop::Call => {}
            Stop::Signal(libc::SIGSTOP) => *signal = libc::SIGSTOP,
            Stop::Signal(came) => bail!("process {pid} cannot go on (signal {came})"),
        }
    }
}
