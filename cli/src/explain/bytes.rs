//! Numbers in copied memory, and copies of another process's memory.

use crate::system::live::Reader;
use std::collections::HashMap;
use std::io;

pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_ne_bytes(two.try_into().unwrap()))
}
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |four| u32::from_ne_bytes(four.try_into().unwrap()))
}
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |eight| u64::from_ne_bytes(eight.try_into().unwrap()))
}

/// Copies a range, however long.
pub fn copy(memory: &impl Reader, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    const STEP: usize = 4 << 20;
    let mut all = vec![0; bytes as usize];
    for (i, part) in all.chunks_mut(STEP).enumerate() {
        memory.fill(at + (i * STEP) as u64, part)?;
    }
    Ok(all)
}

/// Words of another process, read by the slice.
pub struct Pages<'a, R> {
    memory: &'a R,
    kept: HashMap<u64, Vec<u8>>,
}

impl<R: Reader> Pages<'_, R> {
    const BYTES: u64 = 1 << 14;

    pub fn new(memory: &R) -> Pages<'_, R> {
        Pages { memory, kept: HashMap::new() }
    }

    /// The word at an address; 0 if it cannot be read.
    pub fn word(&mut self, address: u64) -> u64 {
        let start = address & !(Self::BYTES - 1);
        let memory = self.memory;
        let bytes = self
            .kept
            .entry(start)
            .or_insert_with(|| copy(memory, start, Self::BYTES).unwrap_or_default());
        u64_at(bytes, (address - start) as usize)
    }
}
