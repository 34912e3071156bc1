//! Who may grow: a lock that spins, since it is held for one system call, and taken once for many blocks.

use core::sync::atomic::{AtomicBool, Ordering};

static TAKEN: AtomicBool = AtomicBool::new(false);

pub struct Guard;

pub fn take() -> Guard {
    while TAKEN.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        core::hint::spin_loop();
    }
    Guard
}

impl Drop for Guard {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}
