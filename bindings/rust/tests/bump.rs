//! `Bump` on operating systems. test/crate has the same tests for WebAssembly.
//!
//! All values of `Bump` are one allocator, so the tests take turns; one of them resets it.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::{Mutex, MutexGuard};

static BUMP: glebe::Bump = glebe::Bump::INIT;
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Miri is some hundred times slower, and keeps data about each byte that is read.
const ROUNDS: usize = if cfg!(miri) { 400 } else { 20_000 };
const LARGE: usize = if cfg!(miri) { 400 } else { 5000 };

struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize
    }

    /// Mostly small, sometimes large, rarely with a strong alignment.
    fn layout(&mut self) -> Layout {
        let size = match self.next() % 20 {
            0 if !cfg!(miri) => self.next() % 300_000,
            1..=4 => self.next() % LARGE,
            _ => self.next() % 200,
        };
        let align = 1
            << if self.next() % 50 == 0 && !cfg!(miri) {
                self.next() % 22
            } else {
                self.next() % 8
            };
        Layout::from_size_align(size + 1, align).unwrap()
    }
}

/// A block that remembers its content.
struct Block {
    at: *mut u8,
    layout: Layout,
    mark: u8,
}

// SAFETY: a block is used by one thread at a time.
unsafe impl Send for Block {}

impl Block {
    fn new(random: &mut Random) -> Self {
        let layout = random.layout();
        // SAFETY: the layout is not empty.
        let at = unsafe { BUMP.alloc_zeroed(layout) };
        assert!(!at.is_null() && at as usize % layout.align() == 0);
        let mut block = Block { at, layout, mark: 0 };
        block.check();
        block.mark = random.next() as u8 | 1;
        // SAFETY: the block's own bytes.
        unsafe { at.write_bytes(block.mark, layout.size()) };
        block
    }

    fn check(&self) {
        // SAFETY: the block's own bytes, zeroed or written by new().
        let bytes = unsafe { std::slice::from_raw_parts(self.at, self.layout.size()) };
        assert!(bytes.iter().all(|&byte| byte == self.mark), "{self:p}: bytes of another block");
    }

    fn resize(&mut self, size: usize) {
        // SAFETY: the layout is the block's, and the size is small and not 0.
        let at = unsafe { BUMP.realloc(self.at, self.layout, size) };
        assert!(!at.is_null() && at as usize % self.layout.align() == 0);
        let kept = self.layout.size().min(size);
        self.at = at;
        self.layout = Layout::from_size_align(kept, self.layout.align()).unwrap();
        self.check();
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        // SAFETY: the block's own bytes.
        unsafe { at.write_bytes(self.mark, size) };
    }
}

impl std::fmt::Pointer for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.at.fmt(f)
    }
}

fn workout(seed: u64) -> Vec<Block> {
    let mut random = Random(seed);
    let mut blocks: Vec<Block> = Vec::new();
    for _ in 0..ROUNDS / 10 {
        if random.next() % 4 == 0 && !blocks.is_empty() {
            // Half of the time the last one, which may grow in place.
            let which = if random.next() % 2 == 0 {
                blocks.len() - 1
            } else {
                random.next() % blocks.len()
            };
            let size = 1 + random.next() % (LARGE * 3 / 5);
            blocks[which].resize(size);
        } else {
            blocks.push(Block::new(&mut random));
        }
    }
    blocks
}

#[test]
fn blocks_keep_what_is_written() {
    let _turn = turn();
    for seed in 0..if cfg!(miri) { 1 } else { 10 } {
        workout(seed).iter().for_each(Block::check);
    }
}

#[test]
fn threads_share_it() {
    let _turn = turn();
    let threads: Vec<_> =
        (0..4).map(|seed| std::thread::spawn(move || workout(100 + seed))).collect();
    let blocks: Vec<Block> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    blocks.iter().for_each(Block::check);
}

#[test]
fn the_last_block_grows_in_place() {
    let _turn = turn();
    let layout = Layout::from_size_align(100, 4).unwrap();
    // SAFETY: layouts are not empty, sizes are not 0.
    unsafe {
        let mut first = BUMP.alloc(layout);
        let mut grown = BUMP.realloc(first, layout, 5000);
        if first != grown {
            // If memory comes in chunks, one may just be full.
            first = BUMP.alloc(layout);
            grown = BUMP.realloc(first, layout, 5000);
        }
        assert_eq!(first == grown, cfg!(feature = "resize"));
        let layout = Layout::from_size_align(5000, 4).unwrap();
        let next = BUMP.alloc(layout);
        assert!(next as usize >= grown as usize + 5000);
        assert_ne!(BUMP.realloc(grown, layout, 6000), grown);
    }
}

#[test]
fn what_cannot_be_served_is_null() {
    let _turn = turn();
    for align in [1, 8, 1 << 12, 1 << 30] {
        let most = isize::MAX as usize & !(align - 1);
        let layout = Layout::from_size_align(most, align).unwrap();
        let small = Layout::from_size_align(8, 8).unwrap();
        // SAFETY: layouts are not empty, `most` is a valid size for the alignment.
        unsafe {
            if !cfg!(miri) {
                assert!(BUMP.alloc(layout).is_null());
            }
            let block = BUMP.alloc(small);
            block.write_bytes(7, 8);
            if !cfg!(miri) {
                assert!(BUMP.realloc(block, small, isize::MAX as usize & !7).is_null());
            }
            assert_eq!(block.read(), 7);
            let next = BUMP.alloc(small);
            assert!(!next.is_null() && next != block);
        }
    }
}

#[test]
fn checkpoints_nest_and_clear() {
    let _turn = turn();
    let layout = Layout::from_size_align(1000, 8).unwrap();
    // SAFETY: layouts are not empty, and no block is used after the reset that takes it back.
    unsafe {
        let before = BUMP.alloc(layout);
        before.write_bytes(1, 1000);
        let outer = BUMP.checkpoint();
        let kept = BUMP.alloc(layout);
        // A block from before the checkpoint never grows past it.
        assert_ne!(BUMP.realloc(before, layout, 2000), before);
        let mut places = Vec::new();
        for round in 0..5 {
            let inner = BUMP.checkpoint();
            let block = BUMP.alloc_zeroed(layout);
            assert!((0..1000).all(|i| *block.add(i) == 0), "round {round}");
            block.write_bytes(0xaa, 1000);
            places.push(block);
            BUMP.reset(inner);
        }
        assert!(places.windows(2).all(|pair| pair[0] == pair[1]), "the memory is used again");
        kept.write_bytes(2, 1000);
        BUMP.reset(outer);
        let again = BUMP.alloc_zeroed(layout);
        assert_eq!(again, kept);
        assert!((0..1000).all(|i| *again.add(i) == 0));
        assert!((0..1000).all(|i| *before.add(i) == 1));
    }
}
