//! The C core for Rust: the global allocator, heaps as values, statistics and options.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_char, c_int};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{null_mut, NonNull};

/// Declarations of `include/glebe.h`, which says what each function does.
mod c {
    use core::ffi::{c_char, c_int, c_void};

    #[repr(C)]
    pub struct Heap {
        _opaque: [u8; 0],
    }

    extern "C" {
        pub fn glebe_malloc(bytes: usize) -> *mut u8;
        pub fn glebe_calloc(count: usize, bytes: usize) -> *mut u8;
        pub fn glebe_realloc(block: *mut u8, bytes: usize) -> *mut u8;
        pub fn glebe_free(block: *mut u8);
        pub fn glebe_aligned_alloc(alignment: usize, bytes: usize) -> *mut u8;
        pub fn glebe_usable_size(block: *const u8) -> usize;

        pub fn glebe_heap_create(limit_bytes: usize) -> *mut Heap;
        pub fn glebe_heap_destroy(heap: *mut Heap);
        pub fn glebe_heap_limit(heap: *mut Heap, limit_bytes: usize) -> c_int;
        pub fn glebe_heap_bytes(heap: *const Heap) -> usize;
        pub fn glebe_heap_malloc(heap: *mut Heap, bytes: usize) -> *mut u8;
        pub fn glebe_heap_calloc(heap: *mut Heap, count: usize, bytes: usize) -> *mut u8;
        pub fn glebe_heap_aligned_alloc(heap: *mut Heap, alignment: usize, bytes: usize)
            -> *mut u8;
        pub fn glebe_heap_realloc(heap: *mut Heap, block: *mut u8, bytes: usize) -> *mut u8;
        pub fn glebe_heap_realloc_sized(
            heap: *mut Heap,
            block: *mut u8,
            old: usize,
            new: usize,
        ) -> *mut u8;
        pub fn glebe_heap_free(heap: *mut Heap, block: *mut u8);
        pub fn glebe_heap_free_sized(heap: *mut Heap, block: *mut u8, bytes: usize);

        pub fn glebe_trim(heap: *mut Heap) -> usize;
        pub fn glebe_option(name: *const c_char, value: *const c_char) -> c_int;
        pub fn glebe_stats_read(out: *mut super::Stats);
        pub fn glebe_check(
            heap: *mut Heap,
            level: c_int,
            report: Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_void, *const c_char)>,
            context: *mut c_void,
        ) -> c_int;
    }
}

include!(concat!(env!("OUT_DIR"), "/stats.rs"));

/// The alignment of all blocks of the core, except those from `glebe_heap_realloc_sized`.
const ALIGNED: usize = 16;
/// The alignment of blocks from `glebe_heap_realloc_sized`, which also has sizes of 24, 40 and 56 bytes.
const ALIGNED_WORD: usize = 8;
/// Larger blocks start on slices of the core, so one from calloc most likely has a larger alignment too.
const ON_SLICES: usize = 64 << 10;

// The error numbers that the core returns are the same on every system that it has a port for.
const ENOENT: c_int = 2;
const EBUSY: c_int = 16;

/// glebe's C core as the global allocator of a program.
///
/// ```
/// #[global_allocator]
/// static ALLOC: glebe::Heap = glebe::Heap::new();
///
/// fn main() {
///     let words: Vec<String> = (0..100).map(|i| i.to_string()).collect();
///     assert_eq!(words[99], "99");
///     assert!(glebe::stats().used_bytes > 0);
/// }
/// ```
///
/// Each thread has a heap of its own, and any thread may free a block. All values of this type are the same allocator.
/// Alignments up to 16 take the core's shortest path, larger ones its aligned path. Memory that is known to be zero is
/// not cleared again. The functions below act on the process or the calling thread; [`OwnedHeap`] is a heap as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap;

impl Heap {
    /// The allocator, for a `static`.
    pub const fn new() -> Self {
        Heap
    }

    /// Returns the free memory of the calling thread's heap, of abandoned heaps, and in free runs to the system, at
    /// once. Returns the number of bytes.
    pub fn trim(&self) -> usize {
        // SAFETY: NULL is the calling thread's heap.
        unsafe { c::glebe_trim(null_mut()) }
    }

    /// Bytes that the calling thread's heap holds in pages and blocks.
    pub fn thread_bytes(&self) -> usize {
        // SAFETY: as above.
        unsafe { c::glebe_heap_bytes(null_mut()) }
    }

    /// Limits what the calling thread's heap may hold; `None` is no limit. Allocation beyond it fails.
    pub fn limit_thread(&self, bytes: Option<usize>) -> Result<(), LimitError> {
        // SAFETY: as above.
        limit(unsafe { c::glebe_heap_limit(null_mut(), limit_word(bytes)) })
    }
}

// SAFETY: the core serves any size and alignment, hands out each byte once, and returns null if it cannot serve. Its
// blocks stay in place until they are freed, and any thread may free them.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: sizes and alignments of a Layout are valid.
        unsafe {
            if layout.align() <= ALIGNED {
                c::glebe_malloc(layout.size())
            } else {
                c::glebe_aligned_alloc(layout.align(), layout.size())
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: any size will do.
            return unsafe { c::glebe_calloc(1, layout.size()) };
        }
        zeroed_aligned(
            layout,
            // SAFETY: any size will do, and the result is a block of the core, or null.
            |bytes| unsafe { c::glebe_calloc(1, bytes) },
            // SAFETY: the block is the one just made.
            |block| unsafe { c::glebe_free(block) },
            // SAFETY: the alignment is a Layout's.
            |layout| unsafe { c::glebe_aligned_alloc(layout.align(), layout.size()) },
        )
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // The core finds a block's size in two instructions; checking ours against it would take more.
        // SAFETY: the block is the core's, by this function's contract.
        unsafe { c::glebe_free(block) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: the block is the core's and `bytes` is not 0, by this function's contract.
            return unsafe { c::glebe_realloc(block, bytes) };
        }
        // SAFETY: as above.
        let usable = unsafe { c::glebe_usable_size(block) };
        if bytes <= usable && bytes >= usable / 2 {
            return block;
        }
        // SAFETY: by this function's contract `bytes` makes a layout with the old alignment, and the block has
        // layout.size().
        unsafe {
            let new = c::glebe_aligned_alloc(layout.align(), bytes);
            if !new.is_null() {
                new.copy_from_nonoverlapping(block, layout.size().min(bytes));
                c::glebe_free(block);
            }
            new
        }
    }
}

/// A large block from calloc is often aligned by chance, and fresh memory needs no clearing. So try that first.
fn zeroed_aligned(
    layout: Layout,
    cleared: impl Fn(usize) -> *mut u8,
    free: impl Fn(*mut u8),
    aligned: impl Fn(Layout) -> *mut u8,
) -> *mut u8 {
    if layout.size() > ON_SLICES {
        let block = cleared(layout.size());
        if block as usize & (layout.align() - 1) == 0 {
            return block; // or null
        }
        free(block);
    }
    let block = aligned(layout);
    if !block.is_null() {
        // SAFETY: the block is ours and has this size.
        unsafe { block.write_bytes(0, layout.size()) };
    }
    block
}

/// A heap as a value: it can be limited and measured, and dropping it frees every block in it at once.
///
/// ```
/// use std::alloc::Layout;
/// let heap = glebe::OwnedHeap::with_limit(1 << 20).expect("memory for a heap");
/// let numbers = heap.alloc_slice_copy(&[1, 2, 3]).expect("room in the heap");
/// numbers[0] = 7;
/// assert_eq!(numbers, [7, 2, 3]);
/// assert!(heap.alloc(Layout::new::<[u8; 2 << 20]>()).is_none()); // beyond the limit
/// ```
///
/// One thread at a time may use a heap, so it is `Send` and not `Sync`. References into it borrow it.
pub struct OwnedHeap {
    heap: NonNull<c::Heap>,
    not_sync: PhantomData<*mut u8>,
}

// SAFETY: the core lets any thread use a heap, one at a time, and a value that is not shared has one user.
unsafe impl Send for OwnedHeap {}

impl OwnedHeap {
    /// A heap without a limit; `None` where there is no memory.
    pub fn new() -> Option<Self> {
        Self::create(0)
    }

    /// A heap whose pages and blocks never hold more than `bytes` (counted in slices of 16 KiB). Allocation beyond it
    /// fails. `None` where there is no memory.
    pub fn with_limit(bytes: usize) -> Option<Self> {
        Self::create(bytes.max(1))
    }

    fn create(limit_bytes: usize) -> Option<Self> {
        // SAFETY: no preconditions.
        let heap = NonNull::new(unsafe { c::glebe_heap_create(limit_bytes) })?;
        Some(OwnedHeap { heap, not_sync: PhantomData })
    }

    /// Allocates a block, which lives until [`dealloc`](Self::dealloc) or the end of the heap. `None` if memory or the
    /// limit is exhausted.
    #[inline]
    pub fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the heap lives, and a Layout's alignment is valid.
        NonNull::new(unsafe {
            let heap = self.heap.as_ptr();
            if layout.align() <= ALIGNED_WORD {
                c::glebe_heap_realloc_sized(heap, core::ptr::null_mut(), 0, layout.size().max(1))
            } else if layout.align() <= ALIGNED {
                c::glebe_heap_malloc(heap, layout.size())
            } else {
                c::glebe_heap_aligned_alloc(heap, layout.align(), layout.size())
            }
        })
    }

    /// As [`alloc`](Self::alloc), but the block is zero. Fresh memory is not cleared again.
    #[inline]
    pub fn alloc_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        let heap = self.heap.as_ptr();
        // SAFETY: the heap lives as long as self.
        let cleared = |bytes| unsafe { c::glebe_heap_calloc(heap, 1, bytes) };
        if layout.align() <= ALIGNED {
            return NonNull::new(cleared(layout.size()));
        }
        NonNull::new(zeroed_aligned(
            layout,
            cleared,
            // SAFETY: the block is the one just made.
            |block| unsafe { c::glebe_heap_free(heap, block) },
            // SAFETY: the alignment is a Layout's.
            |layout| unsafe { c::glebe_heap_aligned_alloc(heap, layout.align(), layout.size()) },
        ))
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// `block` comes from this heap with this layout, and is not used again.
    #[inline]
    pub unsafe fn dealloc(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: by this function's contract. An aligned block may be larger than the layout's size, so it is freed
        // without a size.
        unsafe {
            if layout.align() <= ALIGNED {
                c::glebe_heap_free_sized(self.heap.as_ptr(), block.as_ptr(), layout.size());
            } else {
                c::glebe_heap_free(self.heap.as_ptr(), block.as_ptr());
            }
        }
    }

    /// Resizes a block, in place if possible. On `None` the block stays as it was.
    ///
    /// # Safety
    ///
    /// `block` comes from this heap with this layout. `bytes` is not 0, and rounded up to the layout's alignment it
    /// is at most `isize::MAX`. After success the old block is not used again.
    #[inline]
    pub unsafe fn realloc(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        bytes: usize,
    ) -> Option<NonNull<u8>> {
        let heap = self.heap.as_ptr();
        if layout.align() <= ALIGNED {
            // SAFETY: by this function's contract.
            return NonNull::new(unsafe {
                if layout.align() <= ALIGNED_WORD {
                    c::glebe_heap_realloc_sized(heap, block.as_ptr(), layout.size(), bytes)
                } else {
                    c::glebe_heap_realloc(heap, block.as_ptr(), bytes)
                }
            });
        }
        // SAFETY: by this function's contract `bytes` makes a layout with the old alignment; both blocks hold what is
        // copied.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()))?;
            new.as_ptr().copy_from_nonoverlapping(block.as_ptr(), layout.size().min(bytes));
            c::glebe_heap_free(heap, block.as_ptr());
            Some(new)
        }
    }

    /// Moves a value into the heap. Its destructor never runs: not when the reference ends, and not when the heap does.
    #[allow(clippy::mut_from_ref)] // each call makes another block
    pub fn alloc_value<T>(&self, value: T) -> Option<&mut T> {
        let place = self.alloc(Layout::new::<T>())?.cast::<T>().as_ptr();
        // SAFETY: a new block of this layout, which lives as long as the heap, and the heap is borrowed.
        unsafe {
            place.write(value);
            Some(&mut *place)
        }
    }

    /// Copies a slice into the heap.
    #[allow(clippy::mut_from_ref)] // each call makes another block
    pub fn alloc_slice_copy<T: Copy>(&self, slice: &[T]) -> Option<&mut [T]> {
        let place = self.alloc(Layout::for_value(slice))?.cast::<T>().as_ptr();
        // SAFETY: as in alloc_value; a new block overlaps no slice.
        unsafe {
            place.copy_from_nonoverlapping(slice.as_ptr(), slice.len());
            Some(core::slice::from_raw_parts_mut(place, slice.len()))
        }
    }

    /// Copies a string into the heap.
    #[allow(clippy::mut_from_ref)] // each call makes another block
    pub fn alloc_str(&self, text: &str) -> Option<&mut str> {
        let bytes = self.alloc_slice_copy(text.as_bytes())?;
        // SAFETY: the same bytes as `text`.
        Some(unsafe { core::str::from_utf8_unchecked_mut(bytes) })
    }

    /// Bytes that the heap holds in pages and blocks. The limit counts these.
    pub fn bytes(&self) -> usize {
        // SAFETY: the heap lives.
        unsafe { c::glebe_heap_bytes(self.heap.as_ptr()) }
    }

    /// Changes the limit; `None` is no limit.
    pub fn limit(&self, bytes: Option<usize>) -> Result<(), LimitError> {
        // SAFETY: the heap lives.
        limit(unsafe { c::glebe_heap_limit(self.heap.as_ptr(), limit_word(bytes)) })
    }

    /// Returns the heap's free memory and the free runs to the system. Returns the number of bytes.
    pub fn trim(&self) -> usize {
        // SAFETY: the heap lives.
        unsafe { c::glebe_trim(self.heap.as_ptr()) }
    }

    /// Walks the whole heap and counts broken invariants: 0 is good. For tests.
    pub fn check(&self) -> usize {
        // SAFETY: the heap lives and no other thread uses it; no report is wanted.
        unsafe { c::glebe_check(self.heap.as_ptr(), 2, None, null_mut()) as usize }
    }
}

impl Drop for OwnedHeap {
    fn drop(&mut self) {
        // SAFETY: the heap lives, and no reference into it does, since each borrows it.
        unsafe { c::glebe_heap_destroy(self.heap.as_ptr()) }
    }
}

impl fmt::Debug for OwnedHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedHeap").field("bytes", &self.bytes()).finish()
    }
}

/// Why a limit was not set. The old limit stays. An [`Error`](core::error::Error) from Rust 1.81 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The heap holds more already.
    HoldsMore,
    /// The calling thread has no heap yet, and none can be made.
    OutOfMemory,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LimitError::HoldsMore => "the heap holds more than the limit already",
            LimitError::OutOfMemory => "no memory for the thread's heap",
        })
    }
}

#[cfg(glebe_error)]
impl core::error::Error for LimitError {}

/// For the core 0 means no limit, so a limit of 0 becomes 1 byte, which fits no block either.
fn limit_word(bytes: Option<usize>) -> usize {
    bytes.map_or(0, |bytes| bytes.max(1))
}

fn limit(status: c_int) -> Result<(), LimitError> {
    match status {
        0 => Ok(()),
        EBUSY => Err(LimitError::HoldsMore),
        _ => Err(LimitError::OutOfMemory),
    }
}

/// The current statistics of the whole process.
pub fn stats() -> Stats {
    let mut stats = Stats::default();
    // SAFETY: the struct is generated from the header's list, field for field.
    unsafe { c::glebe_stats_read(&mut stats) };
    stats
}

/// Why an option was not set. Its value stays. An [`Error`](core::error::Error) from Rust 1.81 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// There is no option of this name.
    Unknown,
    /// The value does not parse.
    Value,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OptionError::Unknown => "no such option",
            OptionError::Value => "the value does not parse",
        })
    }
}

#[cfg(glebe_error)]
impl core::error::Error for OptionError {}

/// The longest name or value of an option, with its NUL.
const OPTION_BYTES: usize = 64;

/// `text` with a NUL after it, for C; `None` if it contains a NUL or is too long for an option.
fn terminated(text: &str) -> Option<[c_char; OPTION_BYTES]> {
    let mut out = [0; OPTION_BYTES];
    if text.len() >= OPTION_BYTES || text.as_bytes().contains(&0) {
        return None;
    }
    for (to, from) in out.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    Some(out)
}

/// Sets an option of the core, such as `limit` (bytes for the whole process, suffixes K, M, G), `background`,
/// `purge_ms`, `on_error`. The environment sets them too, as `GLEBE_LIMIT` and so on.
///
/// ```
/// glebe::option("purge_ms", "100")?;
/// assert_eq!(glebe::option("purge_ms", "soon"), Err(glebe::OptionError::Value));
/// assert_eq!(glebe::option("purge", "at noon"), Err(glebe::OptionError::Value));
/// assert_eq!(glebe::option("colour", "blue"), Err(glebe::OptionError::Unknown));
/// # Ok::<(), glebe::OptionError>(())
/// ```
pub fn option(name: &str, value: &str) -> Result<(), OptionError> {
    let name = terminated(name).ok_or(OptionError::Unknown)?;
    let value = terminated(value).unwrap_or([0; OPTION_BYTES]); // no option's value is empty
                                                                // SAFETY: both are strings that end with a NUL.
    match unsafe { c::glebe_option(name.as_ptr(), value.as_ptr()) } {
        0 => Ok(()),
        ENOENT => Err(OptionError::Unknown),
        _ => Err(OptionError::Value),
    }
}
