//! The bump allocator: two words. Each allocation moves the first towards the second.
//!
//! ```text
//!     base            top                              end
//!      |   handed out  |   zero, never touched yet      |
//!      +---------------+--------------------------------+ - - - - - - +
//!                      |-pad-|---- size ----|             more pages, when size + pad > end - top
//! ```
//!
//! 1. `base <= top <= end`, and every byte in `top..end` is zero. So zeroed blocks cost no more than others.
//! 2. `end` is below the highest address, so the sum of an address and a room never wraps. `pad + size` does not wrap
//!    either, since a `Layout`'s size, rounded up to its alignment, is at most `isize::MAX`.
//! 3. Only `source::grow` moves `end`, to more pages behind it or to a new region elsewhere; then `base` and `top`
//!    move too.
//!
//! With threads (`SHARED`) a thread takes blocks by a compare-and-swap of `top`, and one thread at a time grows. It
//! stores a new region in this order: `top = BUSY`, `end`, `base`, `top = base`. A thread that read the old `top` fails
//! in its swap, because `top` changed before `end` did. A thread that read the new `top` sees the new `end`. `BUSY`
//! leaves no room under any `end`. `top` takes an old value again only if the regions touch there, and then the swap of
//! an old reader is valid in the new region too.
//!
//! Targets differ only in the source of regions: `wasm.rs` and `native.rs`.

#[cfg_attr(all(target_arch = "wasm32", not(target_os = "emscripten")), path = "wasm.rs")]
#[cfg_attr(not(all(target_arch = "wasm32", not(target_os = "emscripten"))), path = "native.rs")]
mod source;

mod lock;
mod word;

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use lock::Lock;
pub(crate) use source::reach;
use source::{END, SHARED, TOP};
use word::Word;

/// Where the region begins; 0 in the first region, which `TOP` began in. A number, since compilers keep every store of
/// a pointer to a static.
static BASE: AtomicUsize = AtomicUsize::new(0);

/// The thread that holds it may grow memory; taken once for many blocks.
static GROWING: Lock = Lock::new();

/// An allocator that never frees: the cheapest kind for programs that end soon, such as smart contracts, one call of a
/// WebAssembly instance, or a command. Pure Rust, no dependency.
///
/// ```
/// #[global_allocator]
/// static ALLOC: glebe::Bump = glebe::Bump::INIT;
/// # fn main() { assert_eq!(vec![1u8; 1000].len(), 1000); }
/// ```
///
/// - On wasm32 the heap starts in the rest of the initial memory, at `__heap_base`, and grows by exactly the pages that
///   a block lacks. Other callers of `memory.grow` may take pages at any time; the heap then continues after theirs.
///   (On WASI the heap leaves the rest of the initial memory to the C library's malloc, which Rust's standard library
///   calls there.)
/// - Elsewhere memory comes from `mmap`, reserved at once and touched as it is used, or from the C library's `calloc`.
/// - `alloc_zeroed` costs no more than `alloc`. The last block grows in place; other blocks move when they grow.
/// - A request that cannot be served returns null, whatever its size. Memory may have grown in the attempt. If it grew
///   after pages of another owner or up to 4 GiB, the room before is lost, and a smaller request may fail too.
/// - Threads may share it, in WebAssembly if the target feature `atomics` is on. The thread that took a block can fill
///   and copy it. In V8 another thread may first have to call `memory.grow(0)`, if memory has grown since its last
///   call.
/// - A host that keeps an instance for many requests takes a [`Checkpoint`] and resets to it after each.
///
/// All values of this type are the same allocator: memory starts in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bump;

/// A state to return to, from [`Bump::checkpoint`].
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    top: *mut u8,
    base: usize,
}

// SAFETY: the address is only compared, and written to by `Bump::reset`, whose caller is responsible for that.
unsafe impl Send for Checkpoint {}
// SAFETY: as above; there is no interior mutability.
unsafe impl Sync for Checkpoint {}

impl Bump {
    /// The allocator, for a `static`.
    pub const INIT: Self = Bump;

    /// Remembers how far memory is used. Takes one byte, so that earlier blocks no longer grow in place.
    ///
    /// ```
    /// # use core::alloc::{GlobalAlloc, Layout};
    /// static ALLOC: glebe::Bump = glebe::Bump::INIT;
    /// let layout = Layout::new::<[u64; 100]>();
    /// let start = ALLOC.checkpoint();
    /// // SAFETY: the layout is not empty, and the first block is not used after the reset.
    /// unsafe {
    ///     let first = ALLOC.alloc(layout);
    ///     first.write_bytes(0xff, layout.size());
    ///     ALLOC.reset(start);
    ///     let second = ALLOC.alloc_zeroed(layout);
    ///     assert_eq!(first, second);
    ///     assert_eq!(*second, 0);
    /// }
    /// ```
    pub fn checkpoint(&self) -> Checkpoint {
        // After the byte no earlier block is the last one, so none grows past the checkpoint later. If not even a byte
        // is left, no block can grow anyway.
        take(1, 1);
        Checkpoint { top: TOP.load(), base: base() }
    }

    /// Frees every block that was allocated since `to`, and clears their memory. If memory has continued in another
    /// region since (see [`Bump`]), allocation resumes at the start of that region, and the rest of the old one stays
    /// unused.
    ///
    /// # Safety
    ///
    /// - No block allocated or resized since the checkpoint may be used again. Some are easy to miss: a static's lazy
    ///   value, an earlier vector that has grown since, a thread's name.
    /// - No other thread may use this allocator during the call.
    /// - Checkpoints nest: a reset to one makes all later ones void.
    pub unsafe fn reset(&self, to: Checkpoint) {
        let top = TOP.load();
        let start = if to.base == base() { to.top } else { top.wrapping_sub(bytes()) };
        let used = top as usize - start as usize;
        // SAFETY: start..top is memory of this region that was handed out, and by contract it is no longer in use.
        unsafe { start.write_bytes(0, used) };
        TOP.store(start);
    }
}

/// The bytes from `top` to the next multiple of `align`.
#[inline(always)]
fn pad(top: *mut u8, align: usize) -> usize {
    (top as usize).wrapping_neg() & (align - 1)
}

#[inline(always)]
fn room(top: *mut u8, end: *mut u8) -> usize {
    if SHARED {
        (end as usize).saturating_sub(top as usize)
    } else {
        end as usize - top as usize
    }
}

/// `size` bytes on a multiple of `align`, or null. The two are those of a valid `Layout`.
#[cfg_attr(glebe_fast, inline)]
pub(crate) fn take(size: usize, align: usize) -> *mut u8 {
    loop {
        let (top, end) = (TOP.load(), END.load());
        let pad = pad(top, align);
        let need = pad.wrapping_add(size);
        if need > room(top, end) {
            return take_more(size, align, top, end, pad);
        }
        let new = top.wrapping_add(need);
        if TOP.swap(top, new) {
            reach(new);
            return not_null(top.wrapping_add(pad));
        }
    }
}

/// `take` when the region has too little room.
#[cfg_attr(glebe_fast, cold, inline(never))]
#[cfg_attr(not(glebe_fast), inline(always))]
fn take_more(size: usize, align: usize, top: *mut u8, end: *mut u8, pad: usize) -> *mut u8 {
    let need = pad.wrapping_add(size);
    let start = source::grow(need, align, top, end);
    if start.is_null() {
        return start;
    }
    if SHARED || start != end {
        return take_again(size, align);
    }
    TOP.store(top.wrapping_add(need));
    not_null(top.wrapping_add(pad))
}

/// `take` again, when memory continues elsewhere. Not a loop in `take`, whose start each block would pay for
/// (docs/decisions/0011).
#[cold]
#[inline(never)]
fn take_again(size: usize, align: usize) -> *mut u8 {
    take(size, align)
}

/// No block begins at address 0. Telling the compiler removes callers' tests for null if a block fits.
#[inline(always)]
fn not_null(block: *mut u8) -> *mut u8 {
    if block.is_null() {
        // SAFETY: see above.
        unsafe { core::hint::unreachable_unchecked() }
    }
    block
}

// SAFETY: `take` hands out each byte once, aligned, from memory that is ours (the invariants above).
unsafe impl GlobalAlloc for Bump {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size(), layout.align())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size(), layout.align())
    }

    #[inline]
    unsafe fn dealloc(&self, _block: *mut u8, _layout: Layout) {}

    #[cfg(feature = "resize")]
    #[cfg_attr(glebe_fast, inline)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let old = layout.size();
        if bytes <= old {
            return block;
        }
        // The last block grows where it is.
        let top = TOP.load();
        if top == block.wrapping_add(old) {
            if !SHARED {
                // Free the block for a moment, so that it can be taken again, longer.
                TOP.store(block);
            } else if bytes - old <= room(top, END.load()) {
                let new = block.wrapping_add(bytes);
                if TOP.swap(top, new) {
                    reach(new);
                    return block;
                }
            }
        }
        let new = take(bytes, layout.align());
        if new.is_null() {
            if !SHARED && block == TOP.load() {
                TOP.store(top);
            }
        } else if new != block {
            // SAFETY: the old block has `old` bytes, the new one more, and no byte is in both.
            unsafe { new.copy_from_nonoverlapping(block, old) };
        }
        new
    }
}

fn base() -> usize {
    match BASE.load(Ordering::Acquire) {
        0 => source::first_base(),
        base => base,
    }
}

/// Where the next block begins, before padding.
#[inline(always)]
pub(crate) fn top() -> *mut u8 {
    TOP.load()
}

/// Bytes of the region that are handed out.
#[inline(always)]
pub(crate) fn bytes() -> usize {
    top() as usize - base()
}

/// True if `size` bytes more would take memory from the host.
#[inline(always)]
pub(crate) fn costs(size: usize) -> bool {
    source::costs(size, TOP.load(), END.load())
}

/// Makes start..end the current region. The caller holds `GROWING`.
fn switch(start: *mut u8, end: *mut u8) {
    if SHARED {
        let busy = null_mut::<u8>().wrapping_sub(1);
        TOP.store(busy);
    }
    END.store(end);
    BASE.store(start as usize, Ordering::Release);
    TOP.store(start);
}
