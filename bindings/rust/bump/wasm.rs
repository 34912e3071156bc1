//! Regions on wasm32: the rest of the initial memory, then `memory.grow`.
//!
//! The linker defines both ends of that rest. So nothing is computed at the start, and pages that other code took
//! before our first block are not mistaken for ours. The last 64 KiB below 4 GiB stay unused: a block that ends at 4
//! GiB would end at address 0.

use super::Word;
use core::arch::wasm32::{memory_grow, memory_size};

/// True if other threads may allocate at the same time.
pub const SHARED: bool = cfg!(glebe_threads);

const PAGE_LOG2: usize = 16;

#[cfg(not(target_os = "wasi"))]
#[allow(unused_unsafe)] // before Rust 1.82 it is needed
mod start {
    use super::Word;
    use core::ptr::addr_of;
    extern "C" {
        static __heap_base: [u8; 0];
        static __heap_end: [u8; 0];
    }
    // SAFETY: only the address of the linker's symbol is taken.
    pub static TOP: Word = Word::new(unsafe { addr_of!(__heap_base) as *mut u8 });
    // SAFETY: as above.
    pub static END: Word = Word::new(unsafe { addr_of!(__heap_end) as *mut u8 });
    pub fn first_base() -> usize {
        // SAFETY: as above.
        unsafe { addr_of!(__heap_base) as usize }
    }
}

/// No initial region: the C library's malloc starts in the same place, and Rust's standard library calls it.
#[cfg(target_os = "wasi")]
#[allow(unused_unsafe)] // before Rust 1.82 it is needed
mod start {
    use super::Word;
    pub static TOP: Word = Word::new(core::ptr::null_mut());
    pub static END: Word = Word::new(core::ptr::null_mut());
    pub fn first_base() -> usize {
        0
    }
}

pub use start::{first_base, END, TOP};

/// Makes memory up to `end`, which another thread may have grown, usable in this thread. V8 caches the length for each
/// thread and updates it only when the thread asks; until then `memory.fill` and `memory.copy` trap.
#[inline(always)]
pub fn reach(end: *mut u8) {
    if SHARED && (end as usize - 1) >> PAGE_LOG2 >= memory_size::<0>() {
        memory_grow::<0>(0);
    }
}

/// True if `size` bytes more need another page.
#[inline(always)]
pub fn costs(size: usize, top: *mut u8, end: *mut u8) -> bool {
    size > super::room(top, end)
}

/// Adds the pages that `need` lacks to the room between `top` and `end`, there or elsewhere. Returns where they begin;
/// null if there is no memory.
#[inline(always)]
pub fn grow(need: usize, _align: usize, top: *mut u8, end: *mut u8) -> *mut u8 {
    let _held = super::GROWING.hold();
    if SHARED && (TOP.load() != top || END.load() != end) {
        return TOP.load(); // another thread was here meanwhile
    }
    let pages = ((need - super::room(top, end) - 1) >> PAGE_LOG2) + 1;
    let first = memory_grow::<0>(pages);
    let start = (first << PAGE_LOG2) as *mut u8;
    let new_end = start.wrapping_add(pages << PAGE_LOG2);
    // One compare finds both a failure (page usize::MAX) and an end at 4 GiB: in both new_end has wrapped.
    if new_end <= start {
        return core::ptr::null_mut();
    }
    if start == end {
        END.store(new_end);
    } else {
        super::switch(start, new_end);
    }
    super::not_null(start)
}
