//! An address that threads share. Without threads it is ordinary memory, which compilers may keep in a register from
//! one block to the next.

use super::source::SHARED;
use core::sync::atomic::{AtomicPtr, Ordering};

pub struct Word(AtomicPtr<u8>);

impl Word {
    pub const fn new(address: *mut u8) -> Self {
        Word(AtomicPtr::new(address))
    }

    #[inline(always)]
    pub fn load(&self) -> *mut u8 {
        if SHARED {
            self.0.load(Ordering::Acquire)
        } else {
            // SAFETY: there are no threads.
            unsafe { self.0.as_ptr().read() }
        }
    }

    #[inline(always)]
    pub fn store(&self, address: *mut u8) {
        if SHARED {
            self.0.store(address, Ordering::Release);
        } else {
            // SAFETY: as above.
            unsafe { self.0.as_ptr().write(address) };
        }
    }

    /// Stores `to` if the address is still `from`. False: another thread stored something else.
    #[inline(always)]
    pub fn swap(&self, from: *mut u8, to: *mut u8) -> bool {
        if SHARED {
            self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        } else {
            self.store(to);
            true
        }
    }
}
