//! `allocator_api2`'s trait `Allocator` for `OwnedHeap`, so that containers can live in a heap.

use crate::OwnedHeap;
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::Layout;
use core::ptr::NonNull;

/// The empty block: an address of this alignment, and no bytes.
fn nothing(layout: Layout) -> NonNull<[u8]> {
    let address = core::ptr::null_mut::<u8>().wrapping_add(layout.align());
    // SAFETY: an alignment is not 0.
    NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(address) }, 0)
}

fn block(found: Option<NonNull<u8>>, bytes: usize) -> Result<NonNull<[u8]>, AllocError> {
    Ok(NonNull::slice_from_raw_parts(found.ok_or(AllocError)?, bytes))
}

/// True if the core can resize a block from layout `old` to `new`. Its functions differ by alignment: up to a word, up
/// to 16, larger.
fn alike(old: Layout, new: Layout) -> bool {
    let kind = |layout: Layout| (layout.align() > 8, layout.align() > 16);
    kind(old) == kind(new) && (new.align() <= 16 || new.align() <= old.align())
}

impl OwnedHeap {
    /// Resizes to any other layout. On an error the block stays as it was.
    ///
    /// # Safety
    ///
    /// `old` comes from this heap with `from`, and is not used again after success.
    unsafe fn resize(
        &self,
        old: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if from.size() > 0 && to.size() > 0 && alike(from, to) {
            // SAFETY: by this function's contract; a Layout's size is in bounds, and not 0.
            return block(unsafe { self.realloc(old, from, to.size()) }, to.size());
        }
        let new = self.allocate(to)?;
        // SAFETY: both blocks hold what is copied, and do not overlap; the old one is freed by its own layout.
        unsafe {
            let bytes = from.size().min(to.size());
            new.cast::<u8>().as_ptr().copy_from_nonoverlapping(old.as_ptr(), bytes);
            self.deallocate(old, from);
        }
        Ok(new)
    }
}

/// Containers of crates that know `allocator_api2` live in a heap that they own, or share one that they borrow:
///
/// ```
/// use allocator_api2::{boxed::Box, vec::Vec};
/// let heap = glebe::OwnedHeap::with_limit(1 << 20).expect("memory for a heap");
/// let mut numbers = Vec::new_in(&heap);
/// numbers.extend(0..1000);
/// let sum = Box::new_in(numbers.iter().sum::<i32>(), &heap);
/// assert_eq!(*sum, 499_500);
/// assert!(numbers.try_reserve(1 << 20).is_err()); // beyond the limit
/// ```
// SAFETY: a block stays in place until it is freed or the heap ends, even if the OwnedHeap moves. A heap has only one
// OwnedHeap, which is not Clone.
unsafe impl Allocator for OwnedHeap {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(nothing(layout));
        }
        block(self.alloc(layout), layout.size())
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(nothing(layout));
        }
        block(self.alloc_zeroed(layout), layout.size())
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: by this function's contract.
            unsafe { self.dealloc(block, layout) }
        }
    }

    #[inline]
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: by this function's contract.
        unsafe { self.resize(block, old, new) }
    }

    #[inline]
    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: by this function's contract; the new block has new.size() bytes, which is not less than old.size().
        unsafe {
            let grown = self.resize(block, old, new)?;
            let end = grown.cast::<u8>().as_ptr().add(old.size());
            end.write_bytes(0, new.size() - old.size());
            Ok(grown)
        }
    }

    #[inline]
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: by this function's contract.
        unsafe { self.resize(block, old, new) }
    }
}
