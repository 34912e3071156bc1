//! Ctrl-C and Ctrl-Break, which the console sends to the program as well.
//!
//! `run` stays until the program has ended, however the program handles them. `compare` remembers the first, stops
//! after the run that it ended, prints the complete rounds, and ends in the same way. A second one ends `compare` at
//! once.

use crate::stop::Ending;
use std::sync::atomic::{AtomicBool, Ordering};
use windows_sys::core::BOOL;
use windows_sys::Win32::Foundation::{STATUS_CONTROL_C_EXIT, TRUE};
use windows_sys::Win32::System::Console::{
    SetConsoleCtrlHandler, CTRL_BREAK_EVENT, CTRL_C_EVENT, PHANDLER_ROUTINE,
};

static CAUGHT: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C and Ctrl-Break do not end this command.
pub fn outlive() {
    handle(Some(pass_over));
}

/// From now on we remember the first Ctrl-C or Ctrl-Break.
pub fn listen() {
    handle(Some(remember));
}

/// How this command must end, if one came.
pub fn caught() -> Option<Ending> {
    CAUGHT.load(Ordering::SeqCst).then_some(Ending::Exit(STATUS_CONTROL_C_EXIT))
}

/// Installs a handler, which children do not inherit. Ignoring Ctrl-C without a handler would be inherited.
fn handle(routine: PHANDLER_ROUTINE) {
    // SAFETY: the routines only use an atomic.
    unsafe { SetConsoleCtrlHandler(routine, TRUE) };
}

unsafe extern "system" fn pass_over(event: u32) -> BOOL {
    BOOL::from(matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT))
}

unsafe extern "system" fn remember(event: u32) -> BOOL {
    BOOL::from(pass_over(event) == TRUE && !CAUGHT.swap(true, Ordering::SeqCst))
}
