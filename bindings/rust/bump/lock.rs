//! A spin lock, held for one system call or a few instructions. Without threads it does nothing.

use super::source::SHARED;
use core::sync::atomic::{AtomicBool, Ordering};

pub struct Lock(AtomicBool);

/// While one exists, no other thread holds the lock.
pub struct Held<'a>(&'a Lock);

impl Lock {
    pub const fn new() -> Self {
        Lock(AtomicBool::new(false))
    }

    #[inline(always)]
    pub fn hold(&self) -> Held<'_> {
        while SHARED
            && self
                .0
                .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            core::hint::spin_loop();
        }
        Held(self)
    }
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if SHARED {
            self.0 .0.store(false, Ordering::Release);
        }
    }
}
