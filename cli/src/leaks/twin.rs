//! A copy of a process, to be read while the process goes on.
//!
//! ```text
//!   stop all threads ─▶ their registers ─▶ one of them makes a clone ─▶ all go on        the clone never runs
//!   read the clone's memory ─▶ kill it ─▶ stop one thread for a moment: it waits for the clone, so no zombie is left
//! ```
//!
//! 1. The clone sends no signal at its end, and the program's wait() does not see it.
//! 2. The clone is traced before its first instruction, and ends with this command. It shares the table of descriptors,
//!    so what the program closes is closed.
//! 3. Signals do not end this command while a thread is in a call of ours.

use super::inject::{call, fitting, instruction, is_instruction};
use super::stop::{ptrace, stop, stop_thread, Registers, Steady};
use crate::explain::process::{group_left, status_bytes};
use crate::size::amount;
use crate::system::live::{maps_of, runs, threads_of, Memory};
use crate::words::say;
use anyhow::Result;
use std::fs;
use std::io;
use std::time::Duration;

pub struct Twin {
    pub pid: i32,
    /// Of the process, at the moment of the copy.
    pub threads: Vec<Registers>,
    pub stopped: Duration,
    of: i32,
    /// Its number as the process knows it.
    number: u64,
    /// The address of a system call instruction.
    at: u64,
}

/// Copies the process. Returns why not, if that cannot be done without harm to it.
pub fn make(pid: i32, maps: &str) -> Result<Result<Twin, String>> {
    if let Err(why) = suffices(pid) {
        return Ok(Err(why));
    }
    let Some(at) = instruction(&Memory { pid }, maps) else {
        return Ok(Err("it has no system call instruction that can be read".into()));
    };
    let _steady = Steady::new();
    let mut stopped = stop(pid)?;
    let threads = stopped.registers();
    let tid = match fitting(pid, stopped.quiet()) {
        Ok(tid) => tid,
        Err(why) => return Ok(Err(why)),
    };
    let clone = (libc::SYS_clone, [libc::CLONE_FILES as u64, 0, 0, 0]);
    let answer = call(pid, tid, at, clone, stopped.signal_of(tid))?;
    let stopped = stopped.go_on();
    let Some(child) = answer.child.filter(|_| answer.value > 0) else {
        let error = io::Error::from_raw_os_error(-answer.value as i32);
        return Ok(Err(format!("clone: {error}")));
    };
    let number = answer.value as u64;
    // SAFETY: waits for a process that we trace.
    unsafe { libc::waitpid(child, &mut 0, libc::__WALL) };
    let _ = ptrace(libc::PTRACE_SETOPTIONS, child, libc::PTRACE_O_EXITKILL as usize);
    Ok(Ok(Twin { pid: child, threads, stopped, of: pid, number, at }))
}

/// Whether memory suffices for a copy of each page: of those that the program writes meanwhile, and in this command.
pub fn suffices(pid: i32) -> Result<(), String> {
    let needed = status_bytes(pid, "VmRSS").unwrap_or(0);
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let free = kib.map_or(u64::MAX, |kib| (kib * 1024).saturating_sub(needed));
    let left = group_left(pid).unwrap_or(u64::MAX).min(free);
    match left < needed {
        true => Err(format!("of {} for it, {} are left", amount(needed), amount(left))),
        false => Ok(()),
    }
}

impl Drop for Twin {
    /// Ends the copy, and leaves no zombie.
    fn drop(&mut self) {
        let _steady = Steady::new();
        let mut status = 0;
        // SAFETY: the number is that of a process that we trace.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            while libc::waitpid(self.pid, &mut status, libc::__WALL) == self.pid
                && libc::WIFSTOPPED(status)
            {}
        }
        if !threads_of(self.of).iter().any(|tid| self.is_reaped_by(*tid).unwrap_or(false)) {
            let (of, pid) = (self.of, self.pid);
            if runs(of) {
                say(format!("note: process {pid}, the ended copy, stays until process {of} ends"));
            }
        }
    }
}

impl Twin {
    /// Lets a thread of the process wait for the ended copy.
    fn is_reaped_by(&self, tid: i32) -> Result<bool> {
        let options = (libc::WNOHANG | libc::__WALL) as u64;
        let mut stopped = stop_thread(self.of, tid)?;
        if !stopped.is_quiet(tid) || fitting(self.of, std::iter::once(tid)).is_err() {
            return Ok(false);
        }
        let memory = Memory { pid: self.of };
        let at = match is_instruction(&memory, self.at) {
            true => Some(self.at),
            false => instruction(&memory, &maps_of(self.of)?), // it executes another program
        };
        let Some(at) = at else { return Ok(false) };
        let wait = (libc::SYS_wait4, [self.number, 0, options, 0]);
        let answer = call(self.of, tid, at, wait, stopped.signal_of(tid))?;
        Ok(answer.value == self.number as i64 || answer.value == -i64::from(libc::ECHILD))
    }
}
