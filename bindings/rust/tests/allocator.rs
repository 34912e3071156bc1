//! `OwnedHeap` through allocator-api2's trait: resizing between every pair of layouts, and containers.

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use glebe::OwnedHeap;
use std::alloc::Layout;
use std::ptr::NonNull;

const SIZES: [usize; 8] = [0, 1, 20, 40, 100, 2048, 5000, 65_537];
const ALIGNMENTS: [usize; 6] = [1, 8, 16, 32, 256, 65_536];

fn layouts() -> impl Iterator<Item = Layout> {
    SIZES.into_iter().flat_map(|size| {
        ALIGNMENTS.into_iter().map(move |align| Layout::from_size_align(size, align).unwrap())
    })
}

/// True if the block fits the layout, and its first `bytes` bytes are all `with`.
fn holds(block: NonNull<[u8]>, layout: Layout, with: u8, bytes: usize) -> bool {
    let start = block.cast::<u8>().as_ptr();
    // SAFETY: callers pass blocks of which so many bytes were written.
    let text = unsafe { std::slice::from_raw_parts(start, bytes) };
    block.len() == layout.size()
        && start as usize % layout.align() == 0
        && text.iter().all(|&byte| byte == with)
}

#[test]
fn every_pair_of_layouts() {
    let heap = OwnedHeap::new().unwrap();
    for old in layouts() {
        for new in layouts() {
            // SAFETY: blocks are resized and freed once, with their layouts.
            unsafe {
                let block = heap.allocate(old).unwrap();
                block.cast::<u8>().as_ptr().write_bytes(7, old.size());
                let kept = old.size().min(new.size());
                let resized = if new.size() >= old.size() {
                    let grown = heap.grow_zeroed(block.cast(), old, new).unwrap();
                    let rest = &grown.as_ref()[kept..];
                    assert!(rest.iter().all(|&byte| byte == 0), "{old:?} {new:?}");
                    grown
                } else {
                    heap.shrink(block.cast(), old, new).unwrap()
                };
                assert!(holds(resized, new, 7, kept), "{old:?} {new:?}");
                resized.cast::<u8>().as_ptr().write_bytes(8, new.size());
                heap.deallocate(resized.cast(), new);
            }
        }
        // SAFETY: the same.
        unsafe {
            let block = heap.allocate_zeroed(old).unwrap();
            assert!(holds(block, old, 0, old.size()), "{old:?}");
            let grown = heap.grow(block.cast(), old, Layout::new::<[u64; 500_000]>());
            heap.deallocate(grown.unwrap().cast(), Layout::new::<[u64; 500_000]>());
        }
    }
    assert_eq!(heap.check(), 0);
}

#[test]
fn containers_live_in_a_heap() {
    let heap = OwnedHeap::with_limit(8 << 20).unwrap();
    let before = heap.bytes();
    let mut words = Vec::new_in(&heap);
    for i in 0..10_000u32 {
        words.push(Box::new_in(i, &heap));
    }
    assert!(words.iter().enumerate().all(|(i, word)| **word == i as u32));
    assert!(heap.bytes() > before + 10_000 * 12);
    assert!(words.try_reserve(8 << 20).is_err(), "beyond the limit");
    assert_eq!(words.len(), 10_000);
    drop(words);
    assert_eq!(heap.check(), 0);
}

#[test]
fn a_container_may_own_its_heap() {
    let mut numbers = Vec::new_in(OwnedHeap::with_limit(8 << 20).unwrap());
    numbers.extend(0..100_000u32);
    let numbers = std::thread::spawn(move || numbers).join().unwrap();
    assert_eq!(numbers.iter().map(|&n| u64::from(n)).sum::<u64>(), 4_999_950_000);
    assert_eq!(numbers.allocator().check(), 0);
}
