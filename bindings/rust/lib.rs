#![doc = include_str!("README.md")]
#![no_std]
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]
#![deny(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]

#[cfg(feature = "allocator-api2")]
mod allocator;
mod bump;
mod freelist;
#[cfg(feature = "heap")]
mod heap;

pub use bump::{Bump, Checkpoint};
pub use freelist::FreeList;
#[cfg(feature = "heap")]
pub use heap::{option, stats, Heap, LimitError, OptionError, OwnedHeap, Stats};
