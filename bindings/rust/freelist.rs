//! A heap that frees blocks by their `Layout`: no headers, no tables, only lists of free blocks over [`Bump`].
//!
//! ```text
//!     small[1]  ->  8 ->  8           GRAIN = 8: sizes are multiples of the size of a link and a length, which
//!     small[2]  -> 16                 a free block contains
//!     ...
//!     small[64] -> 512 -> 512         one list for each size up to 512
//!     large[0]  -> 520 -> 512 + 40    above, eight lists a doubling
//!     ...
//!
//!     base                                                   top              end
//!      | live | free | live | live | free | live | free       |  never used    |      Bump's
//! ```
//!
//! 1. Every byte of `base..top` is in a live block, or in a free block that is in exactly one list.
//! 2. A small block comes from the list of its size, else from memory that was never used, while there is some. A large
//!    block is cut from the lists first, and the rest goes back to them.
//! 3. Before memory grows, `gather` empties all lists, sorts the blocks by address, merges neighbours and fills the
//!    lists again. Nothing else merges blocks, so a free is a handful of instructions. The free block that ends at
//!    `top` is in no list: memory grows by only as much as that block is too short.
//! 4. If gathering makes less than a 32nd of a heap usable, the next one waits until the heap has grown by that much.
//! 5. Large blocks are not cut from stale lists: if many blocks were cut since the last gathering, the lists are
//!    gathered first. Otherwise blocks would become ever smaller.
//!
//! With 64-bit pointers GRAIN is 16, and small blocks go up to 1024. docs/decisions/0010 says why this heap exists
//! beside the C core's.

use crate::bump;
#[cfg(doc)]
use crate::Bump;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::mem::{size_of, MaybeUninit};
use core::ptr::null_mut;

/// A free block. In a small list `bytes` is not set until the block is gathered.
struct Block {
    next: *mut Block,
    bytes: usize,
}

const GRAIN: usize = size_of::<Block>();
const SMALL: usize = 64;
const SMALL_BYTES: usize = SMALL * GRAIN;
/// Large lists per doubling, and in all, a bit each; the last list has all blocks of 120 KiB (240) or more.
const STEPS_LOG2: u32 = 3;
const LARGE: usize = 64;
/// Sizes are rounded up to a multiple of at most this, even if the lists are further apart.
const STEP_MOST: usize = 2048;
const LARGE_FIRST: u32 = SMALL_BYTES.trailing_zeros();
/// A heap is not worth gathering if less than one part in so many is free.
const PART: usize = 32;
/// For requests of more than STALE_BYTES the lists are stale if, since they were last gathered, the number of cut
/// blocks times STALE_CUTS exceeds the number of blocks gathered then plus STALE_BLOCKS.
const STALE_BYTES: usize = 4096;
const STALE_CUTS: usize = 4;
const STALE_BLOCKS: usize = 32;

const DIGIT_MOST: u32 = 7;

/// # Safety
/// `list` is a list of free blocks, and the block is not in it.
unsafe fn push(list: &mut *mut Block, block: *mut Block) {
    // SAFETY: by this function's contract.
    unsafe { (*block).next = *list };
    *list = block;
}

/// # Safety
/// `list` is a list of free blocks.
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
/// `block` is a free block whose `bytes` is set.
unsafe fn end_of(block: *mut Block) -> *mut u8 {
    // SAFETY: by this function's contract.
    block.cast::<u8>().wrapping_add(unsafe { (*block).bytes })
}

struct Lists {
    small: [*mut Block; SMALL + 1],
    large: [*mut Block; LARGE],
    /// A bit for each large list that may have blocks; the others have none.
    filled: u64,
    /// The heap size at which gathering is tried again.
    again: usize,
    /// How many blocks were cut to fit since the lists were last gathered, and how many were in them then.
    cuts: usize,
    blocks: usize,
}

struct Shared(UnsafeCell<Lists>);

// SAFETY: with threads, only the holder of the lock uses it.
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

/// An allocator that frees, for WebAssembly in which each instruction and each byte of code costs: pure Rust, no
/// dependency.
///
/// ```
/// #[global_allocator]
/// static ALLOC: glebe::FreeList = glebe::FreeList::INIT;
/// # fn main() { assert_eq!(vec![1u8; 1000].len(), 1000); }
/// ```
///
/// - Blocks have no headers: Rust passes the layout when it frees. Sizes are rounded up to 8 bytes.
/// - Freed blocks are reused at once for the same size, and for other sizes before memory grows.
/// - Memory comes from [`Bump`], whose other promises hold: it starts at `__heap_base`, grows by exactly the missing
///   pages, and other code may grow memory too. Zeroed blocks of never used memory are not cleared again.
/// - Threads share it under a lock, in WebAssembly if the target feature `atomics` is on.
/// - It has no heaps as values, limits, statistics or checks. `Heap`, the C core, has them, and is better for many
///   threads that allocate all the time.
///
/// All values of this type are the same allocator. Do not reset [`Bump`] to a [`Checkpoint`](crate::Checkpoint) from
/// before blocks that this allocator took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeList;

impl FreeList {
    /// The allocator, for a `static`.
    pub const INIT: Self = FreeList;

    /// Bytes that it and [`Bump`] have taken, live and free: since the start, or in the current region if memory
    /// continued elsewhere.
    pub fn heap_bytes(&self) -> usize {
        bump::bytes()
    }

    /// Bytes of the free blocks in all lists. It walks the lists.
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

/// The logarithm of a number that is not 0. `ilog2` could panic, and would bring the code for that into a program.
const fn log2(number: usize) -> u32 {
    usize::BITS - 1 - number.leading_zeros()
}

/// The size of a small block for so many bytes. The sum does not overflow for the size of a `Layout`.
#[inline(always)]
const fn grains(bytes: usize) -> usize {
    (bytes + GRAIN - 1) & !(GRAIN - 1)
}

/// The size of any block for so many bytes. A large size is rounded up to the least size of a list, by 6 % on average,
/// so that a freed block fits the next request.
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
    /// `block` has no other owner. It has `bytes` bytes, a multiple of GRAIN and not 0.
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

    /// The large block on top of the list for `bytes`, if it has exactly that size.
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

    /// Removes a large block of at least `bytes` from its list; null if there is none.
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

    /// The same from the small lists too, after a gathering.
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

    /// Merges neighbouring free blocks. Returns the free block that ends at `top`, which is then in no list; null if
    /// there is none.
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
        // SAFETY: lists contain only free blocks, which we may write to.
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

/// Sorts a list by address, the highest first: a radix sort from the lowest digit, without comparisons. It uses only
/// the bits in which the addresses differ; fewer blocks get shorter digits.
///
/// # Safety
/// `all` is a list of `blocks` free blocks.
unsafe fn sort(all: &mut *mut Block, blocks: usize, differ: usize) {
    let digit = (log2(blocks | 1) / 2 + 2).min(DIGIT_MOST);
    let piles = 1 << digit;
    // For each pile its first block, and the link that the next block goes to.
    let mut heads = MaybeUninit::<[*mut Block; 1 << DIGIT_MOST]>::uninit();
    let mut ends = MaybeUninit::<[*mut *mut Block; 1 << DIGIT_MOST]>::uninit();
    let (heads, ends) =
        (heads.as_mut_ptr().cast::<*mut Block>(), ends.as_mut_ptr().cast::<*mut *mut Block>());
    let mut shift = GRAIN.trailing_zeros();
    while shift < usize::BITS && differ >> shift != 0 {
        // SAFETY: the arrays have at least `piles` elements; the links are those of free blocks and of the piles.
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

/// The memory that a block is cut from.
struct Piece {
    start: *mut u8,
    bytes: usize,
    /// The first `used` bytes may have been written to; the rest is zero.
    used: usize,
}

impl Piece {
    /// # Safety
    /// `block` is free and was removed from its list.
    unsafe fn of(block: *mut Block) -> Self {
        // SAFETY: by this function's contract.
        let bytes = unsafe { (*block).bytes };
        Piece { start: block.cast(), bytes, used: bytes }
    }
}

impl Lists {
    /// Finds `need` bytes when the list of that size has none; the start is null if there is no memory. `costs`: new
    /// memory would come from the host.
    fn find(&mut self, need: usize, costs: bool) -> Piece {
        // SAFETY: blocks from a list are free, blocks from Bump are new, and each is ours until we return it or give
        // it to a list.
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
                    // Memory continues elsewhere, or is exhausted.
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

/// Prepares a block from a list for the caller.
///
/// # Safety
/// The block is free, was removed from its list, and has so many bytes.
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
/// The caller holds the lock. The layout is not empty.
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
    // For a stronger alignment than that of all blocks, cut the block from a longer one, and give back both ends.
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
    // SAFETY: the piece is ours, and these are its three parts. `front` and `rest` are multiples of GRAIN, like all
    // addresses and sizes.
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
    // & and not &&: a second branch costs more than the comparison that && could save.
    if (bytes <= SMALL_BYTES) & (layout.align() <= GRAIN) {
        // SAFETY: a list contains only free blocks, and this one those of so many bytes.
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
        // SAFETY: by this function's contract the block has `old` bytes and `bytes` make a layout. The part that is
        // given to a list has no owner any more.
        unsafe {
            if new < old {
                let _held = LOCK.hold();
                (*LISTS.0.get()).give(block.wrapping_add(new).cast(), old - new);
            }
            if new <= old {
                return block;
            }
            // The last block grows in place, unless that takes new memory: free blocks may serve instead.
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
