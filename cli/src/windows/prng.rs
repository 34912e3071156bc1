//! Random numbers for the seeds of Rust's hash tables.
//!
//! The standard library takes them from bcryptprimitives.dll. Wine has that only from version 9 on, so the import would
//! keep the command from starting under Wine 8 (Debian 12). The linker prefers the definitions here, so there is no
//! such import. SystemFunction036 is RtlGenRandom, which every Windows has.

use windows_sys::core::BOOL;
use windows_sys::Win32::Security::Authentication::Identity::RtlGenRandom;

#[no_mangle]
unsafe extern "system" fn ProcessPrng(data: *mut u8, bytes: usize) -> BOOL {
    let Ok(bytes) = u32::try_from(bytes) else { return 0 };
    BOOL::from(RtlGenRandom(data.cast(), bytes))
}

/// The import pointer through which a function of another library is called.
#[no_mangle]
static __imp_ProcessPrng: unsafe extern "system" fn(*mut u8, usize) -> BOOL = ProcessPrng;
