//! Signals that the command forwards to its program, and Ctrl-C in a comparison.
//!
//! We forward the first INT, TERM or HUP to the running program and remember it. `compare` then stops, prints the
//! complete rounds, and ends by that signal. A second signal ends it at once.

use crate::stop::Ending;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// The program that runs now; 0 between runs.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// The signal that came; 0 before.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

pub type Handler = extern "C" fn(libc::c_int, *const libc::siginfo_t, *const libc::c_void);

/// Installs `handler` for the signal and returns true. System calls that the signal interrupts are restarted. Returns
/// false, and changes nothing, if the signal is ignored (nohup, a shell's `&`) and `ignored` is false.
pub fn handle(signal: libc::c_int, handler: Handler, flags: libc::c_int, ignored: bool) -> bool {
    // SAFETY: both structs are ours; the callers' handlers use atomics and async-signal-safe calls only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut action);
        if action.sa_sigaction == libc::SIG_IGN && !ignored {
            return false;
        }
        action = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | flags;
        libc::sigaction(signal, &action, ptr::null_mut()) == 0
    }
}

/// Forwards a signal to our child, unless the child has it already or sent it. We can know two cases:
///
///   - The kernel is the sender: the terminal sends to the whole group, and the child is in it.
///   - The child is the sender: it signals its group, or its parent.
///
/// We cannot know a third: a signal by kill or sigqueue from another process looks the same whether it was sent to us
/// or to our group. We forward it. So a `kill -TERM -- -GROUP` reaches the program twice. The alternative would lose
/// the signals of a supervisor, which sends to us alone.
///
/// # Safety
/// Called by a handler, with the kernel's `info`.
pub unsafe fn hand_on(child: i32, signal: libc::c_int, info: *const libc::siginfo_t) {
    let errno = *libc::__errno_location();
    let sent_by_process = (*info).si_code != libc::SI_KERNEL && (*info).si_pid() != child;
    if child > 0 && sent_by_process {
        libc::kill(child, signal);
    }
    *libc::__errno_location() = errno;
}

extern "C" fn remember(
    signal: libc::c_int,
    info: *const libc::siginfo_t,
    _context: *const libc::c_void,
) {
    SIGNAL.store(signal, Ordering::SeqCst);
    // SAFETY: the kernel filled the struct in, and the id is our unreaped child's.
    unsafe { hand_on(CHILD.load(Ordering::SeqCst), signal, info) };
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
        handle(signal, remember, libc::SA_RESETHAND, false);
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
