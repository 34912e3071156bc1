//! Three programs that only allocate, with the allocator that a feature selects.
//!
//! `edge_cases` makes the requests of mini-alloc's test of that name. It is written from scratch, without the test's
//! assertions, which hold only for a bump allocator. `trace` and `vectors` do the same with each allocator.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

use alloc::alloc::{alloc, alloc_zeroed, dealloc, Layout};
use alloc::vec::Vec;
use core::arch::wasm32::memory_size;

#[cfg(feature = "glebe")]
#[global_allocator]
static ALLOC: glebe::Bump = glebe::Bump::INIT;

#[cfg(feature = "glebe-freelist")]
#[global_allocator]
static ALLOC: glebe::FreeList = glebe::FreeList::INIT;

#[cfg(feature = "mini-alloc")]
#[global_allocator]
static ALLOC: mini_alloc::MiniAlloc = mini_alloc::MiniAlloc::INIT;

#[cfg(feature = "wee_alloc")]
#[global_allocator]
static ALLOC: wee_alloc::WeeAlloc = wee_alloc::WeeAlloc::INIT;

/// For the cost of `trace` by itself: every block is the same one.
#[cfg(feature = "nothing")]
mod nothing {
    use core::alloc::{GlobalAlloc, Layout};
    use core::cell::UnsafeCell;

    #[repr(align(4096))]
    struct Nothing(UnsafeCell<[u8; 16384]>);

    // SAFETY: there are no threads.
    unsafe impl Sync for Nothing {}

    // SAFETY: it breaks the contract of an allocator, but `trace` works with it.
    unsafe impl GlobalAlloc for Nothing {
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            self.0.get().cast()
        }
        unsafe fn alloc_zeroed(&self, _: Layout) -> *mut u8 {
            self.0.get().cast()
        }
        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
    }

    #[global_allocator]
    static ALLOC: Nothing = Nothing(UnsafeCell::new([0; 16384]));
}

#[cfg(not(feature = "std"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

const PAGE: usize = 1 << 16;

fn memory_bytes() -> usize {
    memory_size::<0>() * PAGE
}

/// Blocks of 0 bytes to hundreds of pages, until memory has half of its maximum of pages. Sizes depend on addresses in
/// two places: the distance from a new block to the end of memory, and in every fourth turn a block's own address. The
/// program reads each block's first byte, since a compiler removes blocks that are never read.
#[no_mangle]
pub extern "C" fn edge_cases(zeroed: bool) {
    let next = |bytes: usize| -> usize {
        let layout = Layout::from_size_align(bytes, 1).unwrap();
        // SAFETY: the program does not touch a block that is null or empty.
        (unsafe {
            if zeroed {
                alloc_zeroed(layout)
            } else {
                alloc(layout)
            }
        }) as usize
    };
    let check = |block: usize| assert!(block <= memory_bytes());
    // 0 bytes, twice; the rest of the first page; one byte of the second; the rest of that; four pages at once.
    let start = next(0);
    check(next(0));
    check(next(memory_bytes().wrapping_sub(start)));
    let first = next(1);
    check(next(memory_bytes().wrapping_sub(first + 1)));
    check(next(4 * PAGE));
    let mut random = 0usize;
    while memory_size::<0>() < 32768 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let below_4_gib = next(0).wrapping_neg();
        let bytes = match random % 4 {
            0 => random % 1024,
            1 => random % PAGE,
            2 => next(memory_bytes().wrapping_sub(next(0))),
            _ => random % (200 * PAGE),
        };
        check(next(bytes.min(below_4_gib)));
    }
}

const STEPS: usize = 1000;
const LIVE: usize = 16;

/// A thousand blocks of typical sizes and alignments, most of them small; the newest sixteen live, older ones are
/// freed. It writes the first and the last byte of each. Returns how many blocks were null, not aligned, or not zero
/// although requested so.
#[no_mangle]
pub extern "C" fn trace(zeroed: bool) -> usize {
    let mut live = [(core::ptr::null_mut::<u8>(), Layout::new::<u8>()); LIVE];
    let mut random = 2_463_534_242u32;
    let mut wrong = 0;
    for step in 0..STEPS {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let kind = random >> 28;
        let most = match kind {
            0..=9 => 64,
            10..=13 => 512,
            14 => 2048,
            _ => 8192,
        };
        let bytes = 1 + (random as usize & (most - 1));
        let align = 1 << [0, 3, 2, 3, 3, 4, 2, 5][random as usize >> 20 & 7];
        // SAFETY: the alignment is a power of two and the size small; a block that is not null has as many bytes.
        unsafe {
            let layout = Layout::from_size_align_unchecked(bytes, align);
            let block = if zeroed { alloc_zeroed(layout) } else { alloc(layout) };
            if block.is_null() || block as usize & (align - 1) != 0 {
                wrong += 1;
                continue;
            }
            if zeroed {
                wrong += usize::from(*block | *block.add(bytes - 1) != 0);
            }
            *block = 1;
            *block.add(bytes - 1) = 1;
            let (old, layout) = core::mem::replace(&mut live[step % LIVE], (block, layout));
            if !old.is_null() {
                dealloc(old, layout);
            }
        }
    }
    wrong
}

/// Forty vectors that grow by one number at a time, to lengths from 4 to 160. Returns how many have wrong contents.
#[no_mangle]
pub extern "C" fn vectors() -> usize {
    let mut wrong = 0;
    for length in (4..164).step_by(4) {
        let mut numbers = Vec::new();
        for n in 0..length {
            numbers.push(core::hint::black_box(n as u64));
        }
        wrong += usize::from(numbers.iter().sum::<u64>() != (length * (length - 1) / 2) as u64);
    }
    wrong
}
