//! Random numbers for the seeds of Rust's hash tables.
//!
//! The standard library takes them from bcryptprimitives.dll, which Wine has from version 9 on: an
//! import that keeps the command from starting under Wine 8 (Debian 12). What is defined here comes
//! first for the linker, so that import is never made. SystemFunction036 is RtlGenRandom, which
//! every Windows has.

use windows_sys::core::BOOL;
use windows_sys::Win32::Security::Authentication::Identity::RtlGenRandom;

#[no_mangle]
unsafe extern "system" fn ProcessPrng(data: *mut u8, bytes: usize) -> BOOL {
    let Ok(bytes) = u32::try_from(bytes) else { return 0 };
    BOOL::from(RtlGenRandom(data.cast(), bytes))
}

/// The pointer through which functions of other libraries are called.
#[no_mangle]
static __imp_ProcessPrng: unsafe extern "system" fn(*mut u8, usize) -> BOOL = ProcessPrng;
