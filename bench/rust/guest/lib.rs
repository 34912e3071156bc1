//! A WebAssembly module with one of many global allocators, which `bench/rust/run` measures.
//!
//! A feature of `Cargo.toml` selects the allocator, set up as its own documentation says for WebAssembly without
//! threads. `workloads` exports the workloads of `workloads.rs`, `entries` the four functions through which Rust calls
//! an allocator; a module without either exports `nothing`. The difference of the last two is the allocator's code.

#[cfg(feature = "workloads")]
mod workloads;

#[cfg(any(feature = "bump", feature = "bump-resize"))]
#[global_allocator]
static ALLOC: glebe::Bump = glebe::Bump::INIT;

#[cfg(feature = "freelist")]
#[global_allocator]
static ALLOC: glebe::FreeList = glebe::FreeList::INIT;

#[cfg(feature = "heap")]
#[global_allocator]
static ALLOC: glebe::Heap = glebe::Heap::new();

#[cfg(feature = "mini-alloc")]
#[global_allocator]
static ALLOC: mini_alloc::MiniAlloc = mini_alloc::MiniAlloc::INIT;

#[cfg(feature = "wee_alloc")]
#[global_allocator]
static ALLOC: wee_alloc::WeeAlloc = wee_alloc::WeeAlloc::INIT;

#[cfg(feature = "dlmalloc")]
#[global_allocator]
static ALLOC: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[cfg(feature = "talc")]
#[global_allocator]
static ALLOC: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

#[cfg(feature = "lol_alloc")]
#[global_allocator]
// SAFETY: the module has one thread.
static ALLOC: lol_alloc::AssumeSingleThreaded<lol_alloc::FreeListAllocator> =
    unsafe { lol_alloc::AssumeSingleThreaded::new(lol_alloc::FreeListAllocator::new()) };

#[cfg(feature = "rlsf")]
#[global_allocator]
static ALLOC: rlsf::SmallGlobalTlsf = rlsf::SmallGlobalTlsf::new();

#[cfg(feature = "lite-alloc")]
#[global_allocator]
static ALLOC: lite_alloc::single_threaded::BumpFreeListAllocator =
    lite_alloc::single_threaded::BumpFreeListAllocator::new();

/// It never grows, so it gets the memory that the workloads need if blocks are freed.
#[cfg(feature = "emballoc")]
#[global_allocator]
static ALLOC: emballoc::Allocator<{ 4 << 20 }> = emballoc::Allocator::new();

/// The entry points, with nothing around them.
#[cfg(feature = "entries")]
mod entries {
    use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};

    /// # Safety
    /// The size is not 0, the alignment is a power of two, and together they do not exceed `isize::MAX`; so for all
    /// that follow.
    #[no_mangle]
    pub unsafe extern "C" fn take(size: usize, align: usize) -> *mut u8 {
        // SAFETY: by this function's contract.
        unsafe { alloc(Layout::from_size_align_unchecked(size, align)) }
    }

    /// # Safety
    /// As for `take`.
    #[no_mangle]
    pub unsafe extern "C" fn take_zeroed(size: usize, align: usize) -> *mut u8 {
        // SAFETY: by this function's contract.
        unsafe { alloc_zeroed(Layout::from_size_align_unchecked(size, align)) }
    }

    /// # Safety
    /// The block was taken with this size and alignment; the new size is as for `take`.
    #[no_mangle]
    pub unsafe extern "C" fn resize(
        block: *mut u8,
        size: usize,
        align: usize,
        new: usize,
    ) -> *mut u8 {
        // SAFETY: by this function's contract.
        unsafe { realloc(block, Layout::from_size_align_unchecked(size, align), new) }
    }

    /// # Safety
    /// The block was taken with this size and alignment, and is not used again.
    #[no_mangle]
    pub unsafe extern "C" fn give_back(block: *mut u8, size: usize, align: usize) {
        // SAFETY: by this function's contract.
        unsafe { dealloc(block, Layout::from_size_align_unchecked(size, align)) }
    }
}

#[cfg(not(any(feature = "workloads", feature = "entries")))]
#[no_mangle]
pub extern "C" fn nothing(number: u32) -> u32 {
    number
}
