//! Regions on operating systems: address space from `mmap`, which takes memory only when touched, or chunks from the C
//! library if `mmap`'s constants are not known here.

use super::Word;
use core::ptr::null_mut;

/// True if other threads may allocate at the same time.
pub const SHARED: bool = true;

pub static TOP: Word = Word::new(null_mut());
pub static END: Word = Word::new(null_mut());

pub fn first_base() -> usize {
    0
}

const STEP: usize = 1 << 16;

pub fn reach(_end: *mut u8) {}

/// The system gives memory as it is touched; assume that it does so in steps of STEP bytes.
pub fn costs(size: usize, top: *mut u8, _end: *mut u8) -> bool {
    (top as usize ^ (top as usize).wrapping_add(size)) >= STEP
}

/// Makes a region with room for `need` bytes after any padding to `align`, unless another thread was faster; the caller
/// looks again. Null: there is no memory.
#[cold]
#[inline(never)]
pub fn grow(need: usize, align: usize, top: *mut u8, end: *mut u8) -> *mut u8 {
    let _held = super::GROWING.hold();
    if TOP.load() != top || END.load() != end {
        return TOP.load(); // another thread was here meanwhile
    }
    // need + align does not overflow: each is at most isize::MAX + 1, and only one of them can be.
    let least = match (need + align).checked_add(STEP - 1) {
        Some(sum) if sum <= isize::MAX as usize => sum & !(STEP - 1),
        _ => return null_mut(),
    };
    let mut bytes = if least > region::FIRST { least } else { region::FIRST };
    loop {
        let start = region::map(bytes);
        if !start.is_null() {
            super::switch(start, start.wrapping_add(bytes));
            return start;
        }
        if bytes == least {
            return start;
        }
        // Limits of address space (RLIMIT_AS, strict overcommit): ask for less.
        bytes = if bytes / 16 > least { bytes / 16 } else { least };
    }
}

#[cfg(glebe_mmap)]
mod region {
    use core::ffi::{c_int, c_long, c_void};

    /// More than a program will need, so that there is one region. Untouched address space costs nothing.
    pub const FIRST: usize = if cfg!(miri) {
        1 << 20
    } else if cfg!(target_pointer_width = "64") {
        1 << 36
    } else {
        1 << 28
    };

    const PROT_READ_WRITE: c_int = 1 | 2;
    const MAP_PRIVATE: c_int = 2;
    const MAP_ANONYMOUS: c_int = if cfg!(target_vendor = "apple") { 0x1000 } else { 0x20 };
    const MAP_NORESERVE: c_int = if cfg!(target_vendor = "apple") { 0x40 } else { 0x4000 };
    const FLAGS: c_int = MAP_PRIVATE | MAP_ANONYMOUS | if cfg!(miri) { 0 } else { MAP_NORESERVE };

    extern "C" {
        fn mmap(
            at: *mut c_void,
            bytes: usize,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: c_long,
        ) -> *mut c_void;
    }

    /// Zeroed memory aligned to OS pages, or null.
    pub fn map(bytes: usize) -> *mut u8 {
        // SAFETY: a new anonymous mapping, which changes no other.
        let start = unsafe { mmap(core::ptr::null_mut(), bytes, PROT_READ_WRITE, FLAGS, -1, 0) };
        if start as isize == -1 {
            core::ptr::null_mut()
        } else {
            start.cast()
        }
    }
}

#[cfg(not(glebe_mmap))]
mod region {
    use core::ffi::c_void;

    #[cfg(target_os = "none")]
    compile_error!("glebe::Bump needs an operating system or WebAssembly to take memory from");

    /// Small, since on some systems calloc touches the whole chunk.
    pub const FIRST: usize = 1 << 20;

    extern "C" {
        fn calloc(count: usize, bytes: usize) -> *mut c_void;
    }

    /// Zeroed memory, or null.
    pub fn map(bytes: usize) -> *mut u8 {
        // SAFETY: the C library's function has no preconditions.
        unsafe { calloc(1, bytes).cast() }
    }
}
