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

/// Copies a range, however long. A length that is wrong allocates little more than what can be read.
pub fn copy(memory: &impl Reader, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    const STEP: u64 = 4 << 20;
    let mut all = Vec::new();
    let mut done = 0;
    while done < bytes {
        let step = STEP.min(bytes - done);
        all.resize((done + step) as usize, 0);
        memory.fill(at + done, &mut all[done as usize..])?;
        done += step;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes from address 0 on.
    struct First(u64);

    impl Reader for First {
        fn fill(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
            let is_there = address + bytes.len() as u64 <= self.0;
            bytes.fill((address >> 20) as u8);
            is_there.then_some(()).ok_or(io::ErrorKind::UnexpectedEof.into())
        }
    }

    #[test]
    fn a_copy_is_as_long_as_asked_or_an_error() {
        let memory = First(9 << 20);
        assert!(copy(&memory, 100, 0).unwrap().is_empty());
        let all = copy(&memory, 0, 9 << 20).unwrap();
        assert_eq!((all.len(), all[0], all[9 << 20 >> 1], all[8 << 20]), (9 << 20, 0, 4, 8));
        assert!(copy(&memory, 0, u64::MAX).is_err());
    }
}
