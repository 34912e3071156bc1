//! Signals that the command forwards to its program, and Ctrl-C in a comparison.
//!
//! We forward the first INT, TERM or HUP to the running program and remember it. `compare` then stops, prints the
//! complete rounds, and ends by that signal. A second signal ends it at once, unless it comes with the first, as from
//! timeout(1), which signals its child and then the group.

use super::launch::clock_s;
use super::sentinel;
use crate::stop::Ending;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The program that runs now; 0 between runs.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// The signal that came; 0 before.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// When it came, in ms of CLOCK_MONOTONIC.
static CAME_MS: AtomicU64 = AtomicU64::new(0);
/// A signal that follows the first one sooner than this is the same request.
const SAME_MS: u64 = 300;

pub type Handler = extern "C" fn(libc::c_int, *const libc::siginfo_t, *const libc::c_void);

/// Installs `handler` for the signal and returns true. The handler blocks all signals; system calls that the signal
/// interrupts are restarted. Returns false, and changes nothing, if the signal is ignored (nohup, a shell's `&`) and
/// `ignored` is false.
pub fn handle(signal: libc::c_int, handler: Handler, ignored: bool) -> bool {
    // SAFETY: both structs are ours; the callers' handlers use atomics and async-signal-safe calls only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut action);
        if action.sa_sigaction == libc::SIG_IGN && !ignored {
            return false;
        }
        action = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(signal, &action, ptr::null_mut()) == 0
    }
}

/// Forwards a signal to our child, unless the child has it already or sent it:
///
///   - The kernel is the sender: the terminal sends to the whole group, and the child is in it.
///   - The child is the sender: it signals its group, or its parent.
///   - The sentinel has it too: another process sent it to the group, and the child is still in it.
///
/// # Safety
/// Called by a handler that blocks all signals, with the kernel's `info`.
pub unsafe fn hand_on(child: i32, signal: libc::c_int, info: *const libc::siginfo_t) {
    let errno = *libc::__errno_location();
    let came_to_group = sentinel::has_got(signal); // asked each time, since an answer is about the next signal
    let has_it = (*info).si_code == libc::SI_KERNEL
        || (*info).si_pid() == child
        || (came_to_group && libc::getpgid(child) == libc::getpgrp());
    if child > 0 && !has_it {
        libc::kill(child, signal);
    }
    *libc::__errno_location() = errno;
}

extern "C" fn remember(
    signal: libc::c_int,
    info: *const libc::siginfo_t,
    _context: *const libc::c_void,
) {
    let now_ms = (clock_s() * 1000.0) as u64;
    if SIGNAL.swap(signal, Ordering::SeqCst) == 0 {
        CAME_MS.store(now_ms, Ordering::SeqCst);
        // SAFETY: the kernel filled the struct in, and the id is our unreaped child's.
        unsafe { hand_on(CHILD.load(Ordering::SeqCst), signal, info) };
    } else if now_ms - CAME_MS.load(Ordering::SeqCst) > SAME_MS {
        // SAFETY: both are async-signal-safe; the signal arrives when this handler returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

/// Sends the current child a signal that came before it started.
fn catch_up() {
    let (child, signal) = (CHILD.load(Ordering::SeqCst), SIGNAL.load(Ordering::SeqCst));
    if child > 0 && signal > 0 {
        // SAFETY: kill is async-signal-safe, and the id is our unreaped child's.
        unsafe { libc::kill(child, signal) };
    }
}

/// Starts to handle signals. A signal that was ignored (nohup, a shell's `&`) stays ignored.
pub fn listen() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        handle(signal, remember, false);
    }
}

/// The program has started. A signal that came meanwhile reaches it now.
pub fn started(child: i32) {
    CHILD.store(child, Ordering::SeqCst);
    catch_up();
}

/// The program has ended, and is about to be reaped.
pub fn ended() {
    CHILD.store(0, Ordering::SeqCst);
}

/// How this command must end: by the signal that came, if one did.
pub fn caught() -> Option<Ending> {
    Some(SIGNAL.load(Ordering::SeqCst)).filter(|signal| *signal > 0).map(Ending::Signal)
}
