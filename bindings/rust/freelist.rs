//! A heap that frees, from `Layout` alone: no headers, no tables, lists of free blocks over [`Bump`].
//!
//! ```text
//!     small[1]  ->  8 ->  8           GRAIN = 8: sizes are multiples of what a free block holds, a link and
//!     small[2]  -> 16                 its length
//!     ...
//!     small[64] -> 512 -> 512         one list for each size up to 512
//!     large[0]  -> 520 -> 512 + 40    above, eight lists a doubling
//!     ...
//!
//!     base                                                   top              end
//!      | live | free | live | live | free | live | free       |  never used    |      Bump's
//! ```
//!
//! 1. Every byte of `base..top` is in a live block, or in one that is free and in exactly one list.
//! 2. A small block comes from the list of its size, else from memory that was never used, while there is some. A
//!    large one comes from the lists first, which take back what is left of it.
//! 3. Before memory grows, `gather` empties all lists, sorts the blocks by address and fills the lists again, with
//!    neighbours as one block. Nothing else merges blocks, so a free is a handful of instructions. The free block that
//!    ends at `top` is in no list: memory grows by what it lacks.
//! 4. If gathering makes less than a 32nd of a heap usable, the heap is gathered again only when it has grown by that
//!    much.
//! 5. Large blocks are not cut from stale lists: if many blocks were cut since the last time, they are gathered first.
//!    Else blocks would become ever smaller.
//!
//! With a 64-bit pointer GRAIN is 16, small is up to 1024. Why there is a heap beside the C core's:
//! docs/decisions/0010.

use crate::bump;
#[cfg(doc)]
use crate::Bump;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::mem::{size_of, MaybeUninit};
use core::ptr::null_mut;

/// A free block. Those in a small list leave `bytes` as it is until they are gathered.
struct Block {
    next: *mut Block,
    bytes: usize,
}

const GRAIN: usize = size_of::<Block>();
const SMALL: usize = 64;
const SMALL_BYTES: usize = SMALL * GRAIN;
/// Lists a doubling above, and how many there are, a bit each: the last one has all that is 120 KiB (240) or more.
const STEPS_LOG2: u32 = 3;
const LARGE: usize = 64;
/// Larger sizes are rounded up to this, not to the next list's.
const STEP_MOST: usize = 2048;
const LARGE_FIRST: u32 = SMALL_BYTES.trailing_zeros();
/// A heap of which less is free than one part in so many is not worth gathering.
const PART: usize = 32;
/// For more than so many bytes lists are stale that had less than four blocks for each one cut since, not counting 32.
const STALE_BYTES: usize = 4096;
const STALE_CUTS: usize = 4;
const STALE_BLOCKS: usize = 32;

const DIGIT_MOST: u32 = 7;

/// # Safety
/// A list of free blocks, in which the block is not.
unsafe fn push(list: &mut *mut Block, block: *mut Block) {
    // SAFETY: by this function's contract.
    unsafe { (*block).next = *list };
    *list = block;
}

/// # Safety
/// A list of free blocks.
unsafe fn pop(list: &mut *mut Block) -> Option<*mut Block> {
    let block = *list;
    if block.is_null() {
        return None;
    }
    // SAFETY: by this function's contract.
    *list = unsafe { (*block).next };
    Some(block)
}

/// # Safety
/// A free block whose length is known.
unsafe fn end_of(block: *mut Block) -> *mut u8 {
    // SAFETY: by this function's contract.
    block.cast::<u8>().wrapping_add(unsafe { (*block).bytes })
}

struct Lists {
    small: [*mut Block; SMALL + 1],
    large: [*mut Block; LARGE],
    /// A bit for each large list that may have blocks; the others have none.
    filled: u64,
    /// Where gathering is tried again: when the heap has so many bytes.
    again: usize,
    /// Blocks that were cut to fit since the lists were gathered last, and how many were in them then.
    cuts: usize,
    blocks: usize,
}

struct Shared(UnsafeCell<Lists>);

// SAFETY: where there can be threads, the holder of the lock is alone.
unsafe impl Sync for Shared {}

static LISTS: Shared = Shared(UnsafeCell::new(Lists {
    small: [null_mut(); SMALL + 1],
    large: [null_mut(); LARGE],
    filled: 0,
    again: 0,
    cuts: 0,
    blocks: 0,
}));

static LOCK: bump::Lock = bump::Lock::new();

/// An allocator that frees, for WebAssembly where each instruction and each byte of code is paid for: pure Rust, no
/// dependency.
///
/// ```
/// #[global_allocator]
/// static ALLOC: glebe::FreeList = glebe::FreeList::INIT;
/// # fn main() { assert_eq!(vec![1u8; 1000].len(), 1000); }
/// ```
///
/// - Blocks have no headers: Rust passes the layout when it frees. Sizes are rounded up to 8 bytes.
/// - Freed blocks are used again for the same size at once, and for others before memory grows.
/// - Memory comes from [`Bump`], whose other promises hold: it starts behind `__heap_base`, grows by exactly what is
///   missing, and others may let it grow too. Zeroed blocks of memory that was never used are not cleared.
/// - Threads may share it, one at a time: in WebAssembly where the target feature `atomics` is on.
/// - It has no heaps as values, limits, statistics or checks. `Heap`, the C core, has them, and serves many threads
///   that allocate all the time better.
///
/// All values of this type are the same allocator. Do not go back to a [`Checkpoint`](crate::Checkpoint) of Bump past
/// blocks that this one took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeList;

impl FreeList {
    /// The allocator, for a `static`.
    pub const INIT: Self = FreeList;

    /// Bytes that it and [`Bump`] have handed out since the start, or in this region if memory went on elsewhere:
    /// live and free.
    pub fn heap_bytes(&self) -> usize {
        bump::bytes()
    }

    /// Bytes that were freed and wait in lists. It walks them all.
    pub fn free_bytes(&self) -> usize {
        let _held = LOCK.hold();
        let mut sum = 0;
        // SAFETY: we have the lock, and a list holds free blocks alone.
        unsafe {
            let lists = LISTS.0.get();
            for class in 0..SMALL + 1 + LARGE {
                let mut block = if class <= SMALL {
                    (*lists).small[class]
                } else {
                    (*lists).large[class - SMALL - 1]
                };
                while !block.is_null() {
                    sum += if class <= SMALL { class * GRAIN } else { (*block).bytes };
                    block = (*block).next;
                }
            }
        }
        sum
    }
}

/// Of a number that is not 0; `ilog2` could panic, and brings what that takes into a program.
const fn log2(number: usize) -> u32 {
    usize::BITS - 1 - number.leading_zeros()
}

/// A small layout's size as blocks have it. A `Layout` has room for the sum.
#[inline(always)]
const fn grains(bytes: usize) -> usize {
    (bytes + GRAIN - 1) & !(GRAIN - 1)
}

/// The same for any. A large one is rounded up to the least size of a list, by 6 % on average, so that a freed block
/// fits the next request.
#[inline(always)]
const fn rounded(bytes: usize) -> usize {
    if grains(bytes) <= SMALL_BYTES {
        return grains(bytes);
    }
    let step = 1 << (log2(bytes - 1) - STEPS_LOG2);
    let step = if step > STEP_MOST { STEP_MOST } else { step };
    (bytes + step - 1) & !(step - 1)
}

/// The list for large blocks of so many bytes.
#[inline(always)]
fn large_of(bytes: usize) -> usize {
    let log = log2(bytes);
    let list = (((log - LARGE_FIRST) as usize) << STEPS_LOG2)
        | ((bytes >> (log - STEPS_LOG2)) & ((1 << STEPS_LOG2) - 1));
    if list < LARGE {
        list
    } else {
        LARGE - 1
    }
}

impl Lists {
    /// # Safety
    /// `bytes` is a small size.
    #[inline(always)]
    unsafe fn small_of(&mut self, bytes: usize) -> &mut *mut Block {
        // SAFETY: by this function's contract.
        unsafe { self.small.get_unchecked_mut(bytes / GRAIN) }
    }

    /// # Safety
    /// `block` has no other owner, and `bytes` bytes, a multiple of GRAIN and not 0.
    #[inline(always)]
    unsafe fn give(&mut self, block: *mut Block, bytes: usize) {
        if bytes <= SMALL_BYTES {
            // SAFETY: by this function's contract.
            unsafe { push(self.small_of(bytes), block) };
        } else {
            // SAFETY: as above.
            unsafe { self.give_large(block, bytes) };
        }
    }

    /// # Safety
    /// As above, and it is large.
    #[inline(never)]
    unsafe fn give_large(&mut self, block: *mut Block, bytes: usize) {
        let list = large_of(bytes);
        // SAFETY: by this function's contract, and there is such a list.
        unsafe {
            (*block).bytes = bytes;
            push(self.large.get_unchecked_mut(list), block);
            self.filled |= 1 << list;
        }
    }

    /// The large block of `bytes` that was freed last, if there is one on top of its list.
    fn exact(&mut self, bytes: usize) -> Option<*mut Block> {
        // SAFETY: there is such a list; it holds free blocks alone.
        unsafe {
            let list = self.large.get_unchecked_mut(large_of(bytes));
            if list.is_null() || (**list).bytes != bytes {
                return None;
            }
            pop(list)
        }
    }

    /// A large block of `bytes` or more, out of its list; null if there is none.
    fn fit(&mut self, bytes: usize) -> *mut Block {
        let mut list = if bytes <= SMALL_BYTES { 0 } else { large_of(bytes) };
        while list < LARGE && self.filled >> list != 0 {
            list += (self.filled >> list).trailing_zeros() as usize;
            // SAFETY: there is such a list; it holds free blocks alone, and links to them.
            unsafe {
                let mut link: *mut *mut Block = self.large.get_unchecked_mut(list);
                if (*link).is_null() {
                    self.filled &= !(1 << list);
                }
                while !(*link).is_null() {
                    let block = *link;
                    if (*block).bytes >= bytes {
                        *link = (*block).next;
                        return block;
                    }
                    link = &mut (*block).next;
                }
            }
            list += 1;
        }
        null_mut()
    }

    /// The same when all lists were just filled: from the small ones too.
    fn fit_any(&mut self, bytes: usize) -> *mut Block {
        for class in bytes / GRAIN..SMALL + 1 {
            // SAFETY: a small size; a list holds free blocks alone.
            unsafe {
                if let Some(block) = pop(self.small_of(class * GRAIN)) {
                    (*block).bytes = class * GRAIN;
                    return block;
                }
            }
        }
        self.fit(bytes)
    }

    /// Makes one block of neighbours. What ends at `top` is returned, and in no list; null if that is not free.
    #[inline(never)]
    fn gather(&mut self, top: *mut u8, heap: usize) -> *mut Block {
        let (mut all, mut blocks) = (null_mut(), 0);
        let (mut ones, mut zeros) = (0, 0);
        let mut collect = |block: *mut Block| {
            // SAFETY: it is in no list any more.
            unsafe { push(&mut all, block) };
            blocks += 1;
            ones |= block as usize;
            zeros |= !(block as usize);
        };
        // SAFETY: lists hold free blocks alone, and those are ours to write to.
        unsafe {
            for class in 1..SMALL + 1 {
                while let Some(block) = pop(self.small_of(class * GRAIN)) {
                    (*block).bytes = class * GRAIN;
                    collect(block);
                }
            }
            while self.filled != 0 {
                let list = self.filled.trailing_zeros() as usize;
                self.filled &= self.filled - 1;
                while let Some(block) = pop(self.large.get_unchecked_mut(list)) {
                    collect(block);
                }
            }
            (self.cuts, self.blocks) = (0, blocks);
            sort(&mut all, blocks, ones & zeros);
            let (mut tail, mut found, mut above) = (null_mut(), 0, null_mut::<Block>());
            let mut settle = |block: *mut Block| {
                if block.is_null() {
                    return;
                }
                let bytes = (*block).bytes;
                if end_of(block) == top {
                    tail = block;
                } else {
                    self.give(block, bytes);
                }
                if bytes > SMALL_BYTES {
                    found += bytes;
                }
            };
            while let Some(block) = pop(&mut all) {
                if !above.is_null() && end_of(block) == above.cast() {
                    (*block).bytes += (*above).bytes;
                } else {
                    settle(above);
                }
                above = block;
            }
            settle(above);
            self.again = if found < heap / PART { heap + heap / PART } else { 0 };
            tail
        }
    }
}

/// Sorts a list by address, the highest first, digit by digit from the lowest: no comparisons. The digits are of the
/// bits in which the addresses differ, and the fewer blocks, the shorter.
///
/// # Safety
/// A list of so many free blocks.
unsafe fn sort(all: &mut *mut Block, blocks: usize, differ: usize) {
    let digit = (log2(blocks | 1) / 2 + 2).min(DIGIT_MOST);
    let piles = 1 << digit;
    // Of each pile the first block, and where the next one is linked to.
    let mut heads = MaybeUninit::<[*mut Block; 1 << DIGIT_MOST]>::uninit();
    let mut ends = MaybeUninit::<[*mut *mut Block; 1 << DIGIT_MOST]>::uninit();
    let (heads, ends) =
        (heads.as_mut_ptr().cast::<*mut Block>(), ends.as_mut_ptr().cast::<*mut *mut Block>());
    let mut shift = GRAIN.trailing_zeros();
    while shift < usize::BITS && differ >> shift != 0 {
        // SAFETY: `piles` is no more than the arrays have; links of free blocks, and of the piles.
        unsafe {
            for i in 0..piles {
                *ends.add(i) = heads.add(i);
            }
            let mut block = *all;
            while !block.is_null() {
                let end = ends.add(!(block as usize >> shift) & (piles - 1));
                **end = block;
                *end = &mut (*block).next;
                block = (*block).next;
            }
            let mut link: *mut *mut Block = all;
            for i in 0..piles {
                if *ends.add(i) != heads.add(i) {
                    *link = *heads.add(i);
                    link = *ends.add(i);
                }
            }
            *link = null_mut();
        }
        shift += digit;
    }
}

/// What a block is made from.
struct Piece {
    start: *mut u8,
    bytes: usize,
    /// From the start on, others may have written to so much; the rest is zero.
    used: usize,
}

impl Piece {
    /// # Safety
    /// A free block that is in no list any more.
    unsafe fn of(block: *mut Block) -> Self {
        // SAFETY: by this function's contract.
        let bytes = unsafe { (*block).bytes };
        Piece { start: block.cast(), bytes, used: bytes }
    }
}

impl Lists {
    /// `need` bytes that are in no list of their size; a null start where there is no memory.
    fn find(&mut self, need: usize, costs: bool) -> Piece {
        // SAFETY: blocks from a list are free, those from Bump are new, and each is ours until it is given to a list
        // or returned.
        unsafe {
            let stale = need > STALE_BYTES && self.cuts * STALE_CUTS > self.blocks + STALE_BLOCKS;
            if !stale && (costs || need > SMALL_BYTES) {
                let block = self.fit(need);
                if !block.is_null() {
                    return Piece::of(block);
                }
            }
            let (top, heap) = (bump::top(), bump::bytes());
            if stale || costs && self.again.saturating_sub(heap) <= need {
                let tail = self.gather(top, heap);
                let block = self.fit_any(need);
                if !block.is_null() {
                    if !tail.is_null() {
                        self.give(tail, (*tail).bytes);
                    }
                    return Piece::of(block);
                }
                self.again = heap + heap / PART;
                if !tail.is_null() {
                    let used = (*tail).bytes;
                    if used >= need {
                        return Piece::of(tail);
                    }
                    let more = bump::take(need - used, GRAIN);
                    if more == top {
                        return Piece { start: tail.cast(), bytes: need, used };
                    }
                    // Memory goes on elsewhere, or has ended.
                    self.give(tail, used);
                    if !more.is_null() {
                        self.give(more.cast(), need - used);
                    }
                }
            }
        }
        Piece { start: bump::take(need, GRAIN), bytes: need, used: 0 }
    }
}

/// A block from a list, as the caller is to have it.
///
/// # Safety
/// It is free, in no list any more, and has so many bytes.
#[inline(always)]
unsafe fn served(block: *mut Block, bytes: usize, zeroed: bool) -> *mut u8 {
    let start = block.cast::<u8>();
    bump::reach(start.wrapping_add(bytes));
    if zeroed {
        // SAFETY: by this function's contract.
        unsafe { start.write_bytes(0, bytes) };
    }
    start
}

/// # Safety
/// The caller is alone. The layout is not empty.
#[inline(never)]
unsafe fn take_slow(lists: &mut Lists, layout: Layout, zeroed: bool) -> *mut u8 {
    if layout.align() <= GRAIN {
        let bytes = rounded(layout.size());
        let mut new = bytes <= SMALL_BYTES;
        if !new {
            if let Some(block) = lists.exact(bytes) {
                // SAFETY: it is free, and has so many bytes.
                return unsafe { served(block, bytes, zeroed) };
            }
            new = lists.filled >> large_of(bytes) == 0;
        }
        if new && !bump::costs(bytes) {
            return bump::take(bytes, GRAIN);
        }
    }
    // SAFETY: by this function's contract.
    unsafe { take_piece(lists, layout, zeroed) }
}

/// # Safety
/// As above.
#[inline(never)]
unsafe fn take_piece(lists: &mut Lists, layout: Layout, zeroed: bool) -> *mut u8 {
    let (bytes, align) = (rounded(layout.size()), layout.align());
    // A stronger alignment than all blocks have is found in a longer block, and what is around it goes back.
    let need = if align > GRAIN { bytes + (align - GRAIN) } else { bytes };
    let mut piece = lists.find(need, bump::costs(need));
    if piece.start.is_null() {
        lists.again = 0;
        piece = lists.find(need, true);
        if piece.start.is_null() {
            return null_mut();
        }
    }
    let front = (piece.start as usize).wrapping_neg() & (align - 1);
    let rest = piece.bytes - front - bytes;
    let start = piece.start.wrapping_add(front);
    bump::reach(start.wrapping_add(bytes));
    // SAFETY: the three parts of the piece, which is ours; `front` and `rest` are multiples of GRAIN, as all
    // addresses and sizes are.
    unsafe {
        if front > 0 {
            lists.give(piece.start.cast(), front);
        }
        if rest > 0 {
            lists.cuts += 1;
            lists.give(start.wrapping_add(bytes).cast(), rest);
        }
        if zeroed && piece.used > front {
            let used = piece.used - front;
            start.write_bytes(0, if used < bytes { used } else { bytes });
        }
    }
    start
}

/// # Safety
/// The layout is not empty.
#[cfg_attr(glebe_fast, inline)]
unsafe fn take<const ZEROED: bool>(layout: Layout) -> *mut u8 {
    let bytes = grains(layout.size());
    let _held = LOCK.hold();
    // SAFETY: we are alone.
    let lists = unsafe { &mut *LISTS.0.get() };
    // One branch: it is dearer than the comparison that && could save.
    if (bytes <= SMALL_BYTES) & (layout.align() <= GRAIN) {
        // SAFETY: a list holds free blocks alone, and this one those of so many bytes.
        unsafe {
            if let Some(block) = pop(lists.small_of(bytes)) {
                return served(block, bytes, ZEROED);
            }
        }
    }
    // SAFETY: as above.
    unsafe { take_slow(lists, layout, ZEROED) }
}

// SAFETY: no byte is in two blocks or in a block and a list (invariant 1 above), and blocks stay where they are.
unsafe impl GlobalAlloc for FreeList {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is not empty, by this function's contract.
        unsafe { take::<false>(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { take::<true>(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let bytes = grains(layout.size());
        let _held = LOCK.hold();
        // SAFETY: we are alone, and the block has this layout.
        unsafe {
            let lists = &mut *LISTS.0.get();
            if bytes <= SMALL_BYTES {
                push(lists.small_of(bytes), block.cast());
            } else {
                lists.give_large(block.cast(), rounded(bytes));
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let (old, new) = (rounded(layout.size()), rounded(bytes));
        let end = block.wrapping_add(old);
        // SAFETY: by this function's contract the block has `old` bytes and `bytes` make a layout; the block that
        // is given has no owner any more.
        unsafe {
            if new < old {
                let _held = LOCK.hold();
                (*LISTS.0.get()).give(block.wrapping_add(new).cast(), old - new);
            }
            if new <= old {
                return block;
            }
            // The last block grows where it is, unless that costs memory: there may be some to reuse.
            if bump::top() == end && !bump::costs(new - old) {
                let more = bump::take(new - old, GRAIN);
                if more == end {
                    return block;
                }
                if !more.is_null() {
                    let _held = LOCK.hold(); // another thread was faster
                    (*LISTS.0.get()).give(more.cast(), new - old);
                }
            }
            let to = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !to.is_null() {
                to.copy_from_nonoverlapping(block, layout.size());
                self.dealloc(block, layout);
            }
            to
        }
    }
}
