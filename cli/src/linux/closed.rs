//! Standard streams that were closed when this command started.
//!
//! Rust opens /dev/null for them before `main`, since a file that is opened later would get their number. A program
//! must not see that: `ls >&-` fails, and so must `glebe run -- ls >&-`. So we note which ones were closed before Rust
//! starts, and close them again in the process that becomes the program.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// A bit for each of the descriptors 0, 1 and 2.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// The C library calls it before `main`.
#[used]
#[link_section = ".init_array"]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    for descriptor in 0..3 {
        // SAFETY: only reads the flags of a descriptor.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

/// True if this standard stream was closed when the command started.
pub fn is_closed(descriptor: RawFd) -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << descriptor) != 0
}

/// Closes them again. Async-signal-safe.
pub fn close_again(except: impl Fn(RawFd) -> bool) {
    for descriptor in (0..3).filter(|descriptor| is_closed(*descriptor) && !except(*descriptor)) {
        // SAFETY: nothing in this process uses the descriptor, which is open on /dev/null.
        unsafe { libc::close(descriptor) };
    }
}
