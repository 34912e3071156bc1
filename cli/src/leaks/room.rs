//! Memory for a copy: zero, and none until it is written to.

use anyhow::{Context, Result};
use std::io;
use std::ptr;

pub struct Room {
    memory: *mut u8,
    length: usize,
}

impl Room {
    pub fn new(length: usize) -> Result<Room> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let length = length.max(1);
        // SAFETY: asks for new memory.
        match unsafe { libc::mmap(ptr::null_mut(), length, rights, kind, -1, 0) } {
            libc::MAP_FAILED => Err(io::Error::last_os_error()).context("no memory for a copy"),
            memory => Ok(Room { memory: memory.cast(), length }),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has these bytes, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.memory, self.length) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is not shared.
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.length) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        unsafe { libc::munmap(self.memory.cast(), self.length) };
    }
}
