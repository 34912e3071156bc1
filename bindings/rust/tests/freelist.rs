//! `FreeList` on operating systems. test/crate has the same tests for WebAssembly.
//!
//! All its values are one allocator over the one `Bump`, so the tests take turns.

mod trace;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, MutexGuard};
use trace::{trace, Random};

static LIST: glebe::FreeList = glebe::FreeList::INIT;
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Miri is some hundred times slower.
const STEPS: usize = if cfg!(miri) { 400 } else { 20_000 };

/// Every block that was taken and freed is in the lists. If memory comes in chunks, the lists have blocks of earlier
/// chunks too.
fn nothing_is_lost() {
    let (heap, free) = (LIST.heap_bytes(), LIST.free_bytes());
    assert!(
        if cfg!(glebe_mmap) { free == heap } else { free >= heap },
        "{heap} bytes, of which {free} are free"
    );
}

fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes, align).unwrap()
}

#[test]
fn a_trace_ends_as_it_does_elsewhere() {
    let _turn = turn();
    for seed in 0..if cfg!(miri) { 1 } else { 8 } {
        let expected = trace(&System, seed, STEPS);
        assert_eq!(trace(&LIST, seed, STEPS), expected, "seed {seed}");
        #[cfg(all(feature = "heap", not(miri)))]
        assert_eq!(trace(&glebe::Heap::new(), seed, STEPS), expected, "seed {seed}");
        nothing_is_lost();
    }
}

#[test]
fn the_same_work_again_takes_no_more_memory() {
    let _turn = turn();
    trace(&LIST, 7, STEPS);
    let before = LIST.heap_bytes();
    for _ in 0..if cfg!(miri) { 1 } else { 3 } {
        trace(&LIST, 7, STEPS);
    }
    // Lists are gathered only after the memory that the host gave is used up, or some chunks of it.
    let ahead = if cfg!(glebe_mmap) { 1 << 16 } else { 3 << 17 };
    assert!(
        LIST.heap_bytes() <= before + (before / 4).max(ahead),
        "{before} bytes at first, {} now",
        LIST.heap_bytes()
    );
}

#[test]
fn threads_share_it() {
    let _turn = turn();
    let threads: Vec<_> =
        (0..4).map(|seed| std::thread::spawn(move || trace(&LIST, 50 + seed, STEPS / 4))).collect();
    for (thread, seed) in threads.into_iter().zip(50..) {
        assert_eq!(thread.join().unwrap(), trace(&System, seed, STEPS / 4));
    }
    nothing_is_lost();
}

#[test]
fn a_freed_block_is_the_next_of_its_size() {
    let _turn = turn();
    for bytes in [1, 8, 100, 512, 1024, 1025, 5000, if cfg!(miri) { 20_000 } else { 100_000 }] {
        // SAFETY: layouts are not empty, and blocks are not used after they were freed.
        unsafe {
            let block = LIST.alloc(layout(bytes, 8));
            block.write_bytes(0xff, bytes);
            LIST.dealloc(block, layout(bytes, 8));
            let again = LIST.alloc_zeroed(layout(bytes, 8));
            assert_eq!(again, block, "{bytes} bytes");
            assert!((0..bytes).all(|i| again.add(i).read() == 0), "{bytes} bytes");
            LIST.dealloc(again, layout(bytes, 8));
        }
    }
}

#[test]
fn neighbours_become_one_before_memory_grows() {
    let _turn = turn();
    let mut random = Random(3);
    let mut blocks: Vec<*mut u8> = Vec::new();
    // SAFETY: layouts are not empty, and each block is freed once.
    unsafe {
        for _ in 0..4000 {
            blocks.push(LIST.alloc(layout(100, 8)));
        }
        while !blocks.is_empty() {
            LIST.dealloc(blocks.swap_remove(random.below(blocks.len())), layout(100, 8));
        }
        let before = LIST.heap_bytes();
        let large = LIST.alloc(layout(300_000, 8));
        let merged = LIST.heap_bytes() < before + 100_000;
        assert!(merged || !cfg!(glebe_mmap), "small ones were not merged");
        LIST.dealloc(large, layout(300_000, 8));
    }
}

#[test]
fn shrinking_gives_the_rest_back() {
    let _turn = turn();
    // SAFETY: as above.
    unsafe {
        let block = LIST.alloc(layout(10_000, 8));
        let free = LIST.free_bytes();
        assert_eq!(LIST.realloc(block, layout(10_000, 8), 100), block);
        assert!(LIST.free_bytes() >= free + 9_800);
        LIST.dealloc(block, layout(100, 8));
    }
}

#[test]
#[cfg(not(miri))]
fn what_cannot_be_served_is_null() {
    let _turn = turn();
    for align in [1, 8, 1 << 12, 1 << 30] {
        let most = isize::MAX as usize & !(align - 1);
        // SAFETY: layouts are not empty, and `most` is a valid size for the alignment.
        unsafe {
            assert!(LIST.alloc(layout(most, align)).is_null());
            assert!(LIST.alloc_zeroed(layout(most, align)).is_null());
            let block = LIST.alloc(layout(8, 8));
            block.write_bytes(7, 8);
            assert!(LIST.realloc(block, layout(8, 8), isize::MAX as usize & !7).is_null());
            assert_eq!(block.read(), 7);
            LIST.dealloc(block, layout(8, 8));
        }
    }
}
