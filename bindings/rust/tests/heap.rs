//! `Heap` as this program's allocator, and `OwnedHeap`.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

#[global_allocator]
static ALLOC: glebe::Heap = glebe::Heap::new();

/// Statistics count for the whole process, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn layouts() -> impl Iterator<Item = Layout> {
    let sizes =
        [1, 7, 8, 16, 100, 1000, 2048, 2049, 5000, 65_536, 65_537, 300_000, 1 << 20, 3 << 20];
    (0..=16)
        .flat_map(move |log2| sizes.map(|size| Layout::from_size_align(size, 1 << log2).unwrap()))
}

fn filled(block: NonNull<u8>, bytes: usize, with: u8) -> bool {
    // SAFETY: callers pass blocks that have these bytes, all written.
    unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) }.iter().all(|&byte| byte == with)
}

#[test]
fn the_program_runs_on_it() {
    let _turn = turn();
    let before = glebe::stats();
    let map: HashMap<usize, String> = (0..50_000).map(|i| (i, "x".repeat(i % 100))).collect();
    assert!(glebe::stats().used_bytes > before.used_bytes + 50_000 * 50, "not glebe's memory");
    let sorted: BTreeMap<_, _> = map.iter().collect();
    assert_eq!(sorted.len(), 50_000);
    let threads: Vec<_> = (0..4)
        .map(|n| {
            std::thread::spawn(move || {
                (0..20_000).map(|i| vec![n as u8; i % 200]).collect::<Vec<_>>()
            })
        })
        .collect();
    for (n, thread) in threads.into_iter().enumerate() {
        let vectors = thread.join().unwrap(); // and freed here
        assert!(vectors
            .iter()
            .enumerate()
            .all(|(i, v)| v.len() == i % 200 && v.iter().all(|&b| b == n as u8)));
    }
    drop(map);
    ALLOC.trim();
    assert!(ALLOC.thread_bytes() > 0);
}

#[test]
fn every_layout_globally() {
    let _turn = turn();
    for layout in layouts() {
        // SAFETY: layouts are not empty; blocks are freed once with their layouts.
        unsafe {
            // Write dirt first, so that a reused block is not zero by chance.
            let dirt = ALLOC.alloc(layout);
            dirt.write_bytes(0xdd, layout.size());
            ALLOC.dealloc(dirt, layout);

            let block = NonNull::new(ALLOC.alloc_zeroed(layout)).unwrap();
            assert!(block.as_ptr() as usize % layout.align() == 0, "{layout:?}");
            assert!(filled(block, layout.size(), 0), "{layout:?}");
            block.as_ptr().write_bytes(1, layout.size());
            let larger = layout.size() * 3;
            let block = NonNull::new(ALLOC.realloc(block.as_ptr(), layout, larger)).unwrap();
            assert!(
                block.as_ptr() as usize % layout.align() == 0 && filled(block, layout.size(), 1),
                "{layout:?}"
            );
            let layout = Layout::from_size_align(larger, layout.align()).unwrap();
            let smaller = larger.div_ceil(7);
            let block = NonNull::new(ALLOC.realloc(block.as_ptr(), layout, smaller)).unwrap();
            assert!(block.as_ptr() as usize % layout.align() == 0);
            assert!(filled(block, smaller.min(larger / 3), 1), "{layout:?}");
            ALLOC
                .dealloc(block.as_ptr(), Layout::from_size_align(smaller, layout.align()).unwrap());
        }
    }
}

#[test]
fn every_layout_in_a_heap() {
    let _turn = turn();
    let heap = glebe::OwnedHeap::new().unwrap();
    for layout in layouts() {
        // SAFETY: layouts are not empty; blocks are freed once with their layouts.
        unsafe {
            let dirt = heap.alloc(layout).unwrap();
            dirt.as_ptr().write_bytes(0xdd, layout.size());
            heap.dealloc(dirt, layout);
            let block = heap.alloc_zeroed(layout).unwrap();
            assert!(
                block.as_ptr() as usize % layout.align() == 0 && filled(block, layout.size(), 0),
                "{layout:?}"
            );
            block.as_ptr().write_bytes(1, layout.size());
            let block = heap.realloc(block, layout, layout.size() + 500).unwrap();
            assert!(
                block.as_ptr() as usize % layout.align() == 0 && filled(block, layout.size(), 1),
                "{layout:?}"
            );
            heap.dealloc(
                block,
                Layout::from_size_align(layout.size() + 500, layout.align()).unwrap(),
            );
        }
    }
    assert_eq!(heap.check(), 0);
}

#[test]
fn a_heap_ends_at_its_limit_and_at_once() {
    let _turn = turn();
    let heap = glebe::OwnedHeap::with_limit(64 << 20).unwrap();
    let mut count = 0;
    while let Some(block) = heap.alloc_value([count; 100]) {
        block[0] += 1;
        count += 1;
    }
    assert!(count > 100_000 && heap.bytes() <= 64 << 20, "{count} values, {heap:?}");
    assert_eq!(heap.limit(Some(1)), Err(glebe::LimitError::HoldsMore));
    assert_eq!(heap.limit(None), Ok(()));
    let numbers = heap.alloc_slice_copy(&[1u64, 2, 3]).unwrap();
    let text = heap.alloc_str("glebe").unwrap();
    text.make_ascii_uppercase();
    assert!(numbers == [1, 2, 3] && text == "GLEBE" && heap.alloc_value(()).is_some());
    assert_eq!(heap.check(), 0);

    let held = heap.bytes() as u64;
    let before = glebe::stats().used_bytes;
    // A heap may move to another thread and end there.
    std::thread::spawn(move || drop(heap)).join().unwrap();
    assert!(held >= 60 << 20 && glebe::stats().used_bytes < before - held / 2, "nothing came back");
}

#[test]
fn limits_say_what_they_cannot() {
    let _turn = turn();
    std::thread::spawn(|| {
        let block = vec![1u8; 1 << 20];
        assert_eq!(ALLOC.limit_thread(Some(1000)), Err(glebe::LimitError::HoldsMore));
        assert_eq!(ALLOC.limit_thread(Some(64 << 20)), Ok(()));
        assert!(Vec::<u8>::new().try_reserve(100 << 20).is_err());
        assert_eq!(ALLOC.limit_thread(None), Ok(()));
        assert!(Vec::<u8>::new().try_reserve(100 << 20).is_ok());
        drop(block);
    })
    .join()
    .unwrap();
    let long = "x".repeat(100);
    assert_eq!(glebe::option("purge_ms", "soon"), Err(glebe::OptionError::Value));
    assert_eq!(glebe::option("purge_ms", ""), Err(glebe::OptionError::Value));
    assert_eq!(glebe::option("purge_ms", "1\0"), Err(glebe::OptionError::Value));
    assert_eq!(glebe::option("purge_ms", &long), Err(glebe::OptionError::Value));
    for name in ["soon", "", "purge_ms\0", &long] {
        assert_eq!(glebe::option(name, &long), Err(glebe::OptionError::Unknown));
    }
    assert_eq!(glebe::option("purge_ms", "250"), Ok(()));
}

/// `?` passes the errors on, and each has a message.
#[test]
fn errors_are_errors() {
    fn fails() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        glebe::option("purge_ms", "soon")?;
        Ok(())
    }
    assert_eq!(fails().unwrap_err().to_string(), "the value does not parse");
    let error: Box<dyn std::error::Error> = Box::new(glebe::LimitError::HoldsMore);
    assert_eq!(error.to_string(), "the heap holds more than the limit already");
}
