//! Where each field of glebe's tables is: the library tells (src/debug/shape.c), so this command reads processes with
//! other builds and versions of the library too, as long as the fields mean the same.

use crate::system::live::{Memory, Piece, Reader};
use anyhow::{anyhow, bail, Result};
use std::collections::HashMap;

/// The first word of the shape in memory.
const MAGIC: [u8; 8] = 0x676c_6562_6553_4841_u64.to_ne_bytes();
const VERSION: u32 = 6;
const HEAD_BYTES: u64 = 56;
const COUNT_MAX: u32 = 4096;

/// Defines a struct whose fields are values of the shape, each with its name there.
macro_rules! layout {
    ($($field:ident $name:literal)*) => {
        #[derive(Debug, Default, Clone)]
        pub struct Layout { $(pub $field: usize,)* }
        impl Layout {
            fn of(values: &HashMap<String, u32>) -> Result<Layout> {
                Ok(Layout { $($field: *values.get($name).ok_or_else(|| {
                    anyhow!("its tables have no {}", $name)
                })? as usize,)* })
            }
        }
    };
}

layout! {
    secure "secure"  keyed "keyed"  safe "safe"  link_at "link_at"
    slice_log2 "slice_log2"  chunk_log2 "chunk_log2"  granule_log2 "granule_log2"
    unit_log2 "unit_log2"  large_least "large_least"  classes "classes"  small_classes "small_classes"
    mixed "mixed"  wake_bytes "wake_bytes"  wake_least "wake_least"  wake_most "wake_most"  marks "marks"
    remote_slots "remote_slots"  borrowed_classes "borrowed_classes"  bits_tables "bits_tables"
    class "class"  class_bytes "class.bytes"
    page "page"  page_back_bytes "page.back_bytes"  page_kind "page.kind"  page_cls "page.cls"
    page_state "page.state"  page_mark "page.mark"  page_warm "page.warm"  page_free "page.free"
    page_xfree "page.xfree"  xfree_first "xfree.first_mask"  xfree_count "xfree.count_mask"
    xfree_count_shift "xfree.count_shift"  xfree_purged_high "xfree.purged_high"
    page_bits "page.bits"  page_notify "page.notify"  notify_purged "notify.purged"  page_left "page.left"
    page_cap "page.cap"  page_bump "page.bump"  page_holes "page.holes"
    page_slices "page.slices"  page_units "page.units"
    heap "heap"  heap_front "heap.front"  heap_warm "heap.warm"  heap_kind "heap.kind"
    heap_remote "heap.remote"  heap_borrowed "heap.borrowed"
    remote "remote"  remote_page "remote.page"    remote_first "remote.first"
    borrowed "borrowed"  borrowed_first "borrowed.first"
    chunk "chunk"    chunk_dirty "chunk.dirty"  chunk_idle "chunk.idle"
    chunk_lazy "chunk.lazy"  chunk_huge_pages "chunk.huge_pages"
    extent "extent"  extent_bytes "extent.bytes"  extent_granules "extent.granules"
    extent_state "extent.state"  extent_warm "extent.warm"  extent_collected "extent.collected"
    extent_held "extent.held"
    region "region"  base "region.base"  slices "region.slices"  table "region.table"  large "region.large"
    heads "region.heads"  extents_base "region.extents_base"  extents "region.extents"  heaps "region.heaps"
    chunk_table "region.chunk_table"  key "region.key"  unkey "region.unkey"  bits "region.bits"  shadow "region.shadow"
    heap_bits "region.heap_bits"  ready "region.ready"
    committed_large "region.committed.large"  committed_table "region.committed.table"
    committed_heads "region.committed.heads"
    committed_chunk_table "region.committed.chunk_table"  committed_heaps "region.committed.heaps"
    committed_heap_bits "region.committed.heap_bits"  committed_extents "region.committed.extents"
    committed_spans "region.committed.spans"  committed_shadow "region.committed.shadow"
    heaps_made "region.records.made"  chunks "region.arena.chunks"  top "region.huge.top"
    spans "region.spans.states"  background "region.options.background"
      purge_ms "region.options.purge_ms"
      limit "region.options.limit"
    bits_bytes "bits"  bits_allocated "bits.allocated"  bits_unmarked "bits.unmarked"
    bits_waiting "bits.waiting"  bits_allocated_committed "bits.allocated_committed"
    bits_unmarked_committed "bits.unmarked_committed"  bits_waiting_committed "bits.waiting_committed"
}

/// A glebe in a process: its layout, and the addresses of its region and of its classes.
pub struct Shape {
    pub layout: Layout,
    pub region: u64,
    pub classes: u64,
    values: HashMap<String, u32>,
}

impl Shape {
    /// A value that older libraries lack.
    pub fn value(&self, name: &str) -> Result<usize> {
        let value = self.values.get(name).ok_or_else(|| anyhow!("its tables have no {name}"))?;
        Ok(*value as usize)
    }
}

/// Finds the shape that leads to the `glebe_live` at `live`, in the same file.
pub fn find(memory: &Memory, pieces: &[Piece], live: u64, file: &str) -> Result<Shape> {
    let mut found = None;
    for piece in pieces.iter().filter(|piece| piece.file == file) {
        memory.search(piece, &MAGIC, |at| {
            // Other copies of the bytes, as in this command, are not relocated and lead elsewhere.
            if at % 8 == 0 && memory.u64(at + 24).is_ok_and(|to| to == live) {
                found = Some(at);
            }
            found.is_some()
        });
        if found.is_some() {
            break;
        }
    }
    let at = found.ok_or_else(|| {
        anyhow!(
            "that version of glebe does not say where its tables are (glebe stats works; start the program with this \
             command: glebe run -- PROGRAM)"
        )
    })?;
    read(memory, at)
}

/// Reads the shape at an address.
pub fn read(memory: &impl Reader, at: u64) -> Result<Shape> {
    let head: [u8; HEAD_BYTES as usize] = memory.read(at)?;
    let word = |offset: usize| u64::from_ne_bytes(head[offset..offset + 8].try_into().unwrap());
    let half = |offset: usize| u32::from_ne_bytes(head[offset..offset + 4].try_into().unwrap());
    let (version, word_bytes, count, bytes) = (half(8), half(12), half(16), half(20));
    if version != VERSION {
        bail!(
            "its tables are of version {version}, and this command, {}, reads version {VERSION}",
            env!("CARGO_PKG_VERSION")
        );
    }
    if word_bytes as usize != size_of::<usize>() {
        bail!(
            "its pointers have {word_bytes} bytes, and this command reads processes with {}",
            size_of::<usize>()
        );
    }
    if count > COUNT_MAX || bytes > COUNT_MAX * 64 {
        bail!("its tables are damaged");
    }
    let mut names = vec![0; bytes as usize];
    memory.fill(word(48), &mut names)?;
    let mut numbers = vec![0; 4 * count as usize];
    memory.fill(at + HEAD_BYTES, &mut numbers)?;
    let numbers = numbers.chunks_exact(4).map(|four| u32::from_ne_bytes(four.try_into().unwrap()));
    let names =
        names.split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned());
    let values = names.zip(numbers).collect();
    Ok(Shape { layout: Layout::of(&values)?, region: word(32), classes: word(40), values })
}
