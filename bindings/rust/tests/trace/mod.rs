//! The same work for every allocator: a fixed sequence allocates, resizes and frees blocks, and writes and checks
//! their bytes. The result depends only on the seed, so allocators with the same result serve the same requests and
//! lose nothing.
//!
//! It does not use `std`, for the tests in WebAssembly.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;

/// Few bytes for Miri, which keeps data about each byte that is read.
const SLOTS: usize = if cfg!(miri) { 40 } else { 400 };
const SMALLER: usize = if cfg!(miri) { 10 } else { 1 };

#[derive(Clone, Copy)]
struct Slot {
    at: *mut u8,
    layout: Layout,
    mark: u8,
}

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }

    /// Mostly small, some large, few huge.
    fn size(&mut self) -> usize {
        let most = match self.below(40) {
            0 => 100_000,
            1..=3 => 6_000,
            4..=11 => 700,
            _ => 130,
        };
        1 + self.below(most / SMALLER)
    }

    fn layout(&mut self) -> Layout {
        let align = if self.below(30) == 0 { self.below(13) } else { self.below(5) };
        Layout::from_size_align(self.size(), 1 << align).unwrap()
    }
}

/// The bytes of a block that are written: all of a short one; both ends of a long one, and some between.
fn places(size: usize) -> impl Iterator<Item = usize> {
    let middle = (64..size).step_by(509);
    (0..size.min(64)).chain(middle).chain(size.saturating_sub(64)..size)
}

impl Slot {
    unsafe fn write(&self) {
        for i in places(self.layout.size()) {
            // SAFETY: within the block.
            unsafe { self.at.add(i).write(self.mark ^ i as u8) };
        }
    }

    /// True if its first `kept` bytes have not changed since they were written.
    unsafe fn holds(&self, kept: usize) -> bool {
        // SAFETY: as above.
        let held = |i: usize| unsafe { self.at.add(i).read() } == self.mark ^ i as u8;
        places(self.layout.size()).filter(|&i| i < kept).all(held)
    }
}

/// Runs `steps` steps, then frees everything. Panics if a block has lost its content.
pub fn trace<A: GlobalAlloc>(allocator: &A, seed: u64, steps: usize) -> u64 {
    let mut random = Random(seed);
    let empty = Slot { at: null_mut(), layout: Layout::new::<u8>(), mark: 0 };
    let mut slots = [empty; SLOTS];
    let mut sum = 0u64;
    for step in 0..steps + SLOTS {
        // Phases of mostly frees alternate with mixed ones; in the end every block is freed.
        let slot = &mut slots[if step < steps { random.below(SLOTS) } else { step - steps }];
        let ends = step >= steps || step / (SLOTS * 5 / 2) % 4 == 3;
        // SAFETY: each block is used with its layout, and not after it was freed.
        unsafe {
            if slot.at.is_null() {
                if ends {
                    continue;
                }
                let (layout, zeroed) = (random.layout(), random.below(3) == 0);
                let at =
                    if zeroed { allocator.alloc_zeroed(layout) } else { allocator.alloc(layout) };
                assert!(
                    !at.is_null() && at as usize % layout.align() == 0,
                    "no block, or not aligned"
                );
                let bytes = core::slice::from_raw_parts(at, if zeroed { layout.size() } else { 0 });
                assert!(bytes.iter().all(|&byte| byte == 0), "not zero");
                *slot = Slot { at, layout, mark: random.below(256) as u8 };
                slot.write();
                continue;
            }
            assert!(slot.holds(slot.layout.size()), "bytes of another block");
            sum = sum
                .wrapping_mul(31)
                .wrapping_add(slot.layout.size() as u64 ^ slot.at.read() as u64);
            if ends || random.below(3) > 0 {
                allocator.dealloc(slot.at, slot.layout);
                slot.at = null_mut();
            } else {
                let (old, size) = (*slot, random.size());
                slot.at = allocator.realloc(old.at, old.layout, size);
                slot.layout = Layout::from_size_align(size, old.layout.align()).unwrap();
                assert!(!slot.at.is_null() && slot.at as usize % old.layout.align() == 0);
                let moved = Slot { at: slot.at, ..old };
                assert!(moved.holds(size.min(old.layout.size())), "bytes are lost in a resize");
                slot.write();
            }
        }
    }
    sum
}
