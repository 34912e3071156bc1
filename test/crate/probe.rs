//! A WebAssembly module with only an allocator, for test_bump.py: exports to call the allocator, and fixed work.
#![no_std]

extern crate alloc;

use alloc::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use alloc::{boxed::Box, string::String, vec::Vec};

#[cfg(not(any(feature = "mini", feature = "freelist", feature = "heap")))]
#[global_allocator]
static ALLOC: glebe::Bump = glebe::Bump::INIT;

#[cfg(feature = "freelist")]
#[global_allocator]
static ALLOC: glebe::FreeList = glebe::FreeList::INIT;

#[cfg(feature = "heap")]
#[global_allocator]
static ALLOC: glebe::Heap = glebe::Heap::new();

#[cfg(feature = "mini")]
#[global_allocator]
static ALLOC: mini_alloc::MiniAlloc = mini_alloc::MiniAlloc::INIT;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

unsafe fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align_unchecked(bytes, align)
}

#[no_mangle]
pub unsafe extern "C" fn take(bytes: usize, align: usize) -> *mut u8 {
    alloc(layout(bytes, align))
}

#[cfg(any(feature = "family", feature = "trace", feature = "all"))]
mod family {
    use super::*;

    #[no_mangle]
    pub unsafe extern "C" fn take_zeroed(bytes: usize, align: usize) -> *mut u8 {
        alloc_zeroed(layout(bytes, align))
    }

    #[no_mangle]
    pub unsafe extern "C" fn resize(block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        realloc(block, layout(old, align), new)
    }

    #[no_mangle]
    pub unsafe extern "C" fn give(block: *mut u8, bytes: usize, align: usize) {
        dealloc(block, layout(bytes, align))
    }
}

#[cfg(feature = "trace")]
#[path = "../../bindings/rust/tests/trace/mod.rs"]
mod trace;

/// The work that every allocator's tests share; then the bytes of the heap.
#[cfg(feature = "trace")]
#[no_mangle]
pub extern "C" fn work_of_all(seed: u32, steps: usize) -> u32 {
    trace::trace(&ALLOC, seed as u64, steps) as u32
}

#[cfg(all(feature = "freelist", feature = "trace"))]
#[no_mangle]
pub extern "C" fn heap_bytes() -> usize {
    ALLOC.heap_bytes()
}

#[cfg(all(feature = "freelist", feature = "trace"))]
#[no_mangle]
pub extern "C" fn free_bytes() -> usize {
    ALLOC.free_bytes()
}

/// Boxes, growing vectors and strings, as a contract makes them.
#[cfg(any(feature = "work", feature = "all"))]
#[no_mangle]
pub extern "C" fn work(rounds: u32) -> usize {
    let mut sum = 0;
    for round in 0..rounds {
        sum += *core::hint::black_box(Box::new(round)) as usize;
        let mut bytes = Vec::new();
        for i in 0..round % 50 {
            bytes.push(i as u8);
        }
        sum += core::hint::black_box(bytes).len();
        sum += core::hint::black_box(String::with_capacity(33)).capacity();
    }
    sum
}

/// `count` blocks of fixed sizes, plain or zeroed.
#[cfg(feature = "all")]
#[no_mangle]
pub unsafe extern "C" fn blocks(count: usize, zeroed: bool) {
    for i in 0..count {
        let layout = layout(1 + i * 37 % 300, 1 << (i % 5));
        core::hint::black_box(if zeroed { alloc_zeroed(layout) } else { alloc(layout) });
    }
}

#[cfg(feature = "all")]
mod checkpoint {
    use super::ALLOC;

    static mut PLACES: [Option<glebe::Checkpoint>; 16] = [None; 16];

    #[no_mangle]
    pub unsafe extern "C" fn checkpoint(which: usize) {
        PLACES[which] = Some(ALLOC.checkpoint());
    }

    #[no_mangle]
    pub unsafe extern "C" fn reset(which: usize) {
        ALLOC.reset(PLACES[which].unwrap());
    }
}

/// One thread of test_bump.py's threads: takes `count` blocks, fills each with `mark`, then checks that all still hold
/// it.
#[cfg(feature = "threads")]
#[no_mangle]
pub unsafe extern "C" fn share(mark: u8, count: usize) -> usize {
    let list = alloc(layout(count * 4, 4)) as *mut *mut u8;
    let size = |i: usize| 1 + (i * 7919 + mark as usize * 31) % 200;
    for i in 0..count {
        let block = alloc_zeroed(layout(size(i), 1 << (i % 6)));
        for byte in 0..size(i) {
            if block.add(byte).read_volatile() != 0 {
                return usize::MAX; // it was written to before it was ours
            }
        }
        block.write_bytes(mark, size(i));
        list.add(i).write(block);
    }
    let mut wrong = 0;
    for i in 0..count {
        let block = list.add(i).read();
        wrong += (0..size(i)).any(|byte| block.add(byte).read_volatile() != mark) as usize;
    }
    wrong
}
