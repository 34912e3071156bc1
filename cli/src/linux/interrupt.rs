//! Ctrl-C in a comparison: the program that runs ends too, and whole rounds count.
//!
//! We hand the first INT, TERM or HUP on to the running program and remember it. `compare` then stops, prints what it
//! has, and ends by that signal. A second signal ends it at once.

use crate::stop::Ending;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// The program that runs now; 0 between runs.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// The signal that came; 0 before.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn remember(signal: libc::c_int) {
    SIGNAL.store(signal, Ordering::SeqCst);
    hand_on();
}

fn hand_on() {
    let (child, signal) = (CHILD.load(Ordering::SeqCst), SIGNAL.load(Ordering::SeqCst));
    if child > 0 && signal > 0 {
        // SAFETY: kill is async-signal-safe, and the id is our unreaped child's.
        unsafe { libc::kill(child, signal) };
    }
}

/// Starts to handle signals. A signal that was ignored (nohup, a shell's `&`) stays ignored.
pub fn listen() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler uses atomics and kill only; both structs are ours.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, ptr::null(), &mut before);
            if before.sa_sigaction != libc::SIG_IGN {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = remember as *const () as libc::sighandler_t;
                action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
                libc::sigaction(signal, &action, ptr::null_mut());
            }
        }
    }
}

/// The program has started. A signal that came meanwhile reaches it now.
pub fn started(child: i32) {
    CHILD.store(child, Ordering::SeqCst);
    hand_on();
}

/// The program has ended, and is about to be reaped.
pub fn ended() {
    CHILD.store(0, Ordering::SeqCst);
}

/// How this command must end: by the signal that came, if one did.
pub fn caught() -> Option<Ending> {
    Some(SIGNAL.load(Ordering::SeqCst)).filter(|signal| *signal > 0).map(Ending::Signal)
}
