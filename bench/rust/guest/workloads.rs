//! The workloads. Each is an export that takes a number of rounds (or whether to zero blocks) and returns a checksum.
//! The checksum is of sizes and contents, never of addresses, so it is the same under every correct allocator: all do
//! the same work, and the compiler can remove none. Only `edge_cases` depends on addresses and has none.
//!
//! A number from `Random` costs three operators, so that most ink and fuel is the allocator's, not the bench's.

use std::alloc::{alloc, alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

const PAGE: usize = 1 << 16;

/// A linear congruential generator; its upper bits are the better ones.
struct Random(u32);

impl Random {
    #[inline(always)]
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1664525).wrapping_add(1013904223);
        self.0
    }

    #[inline(always)]
    fn below(&mut self, limit: u32) -> u32 {
        (self.next() >> 16) % limit
    }

    /// 1 to `2 << top`; each doubling is equally likely, so small numbers are more frequent. No branch.
    #[inline(always)]
    fn size(&mut self, top: u32) -> usize {
        let number = self.next();
        (((number >> (31 - top)) >> ((number >> 7) & 7)) + 1) as usize
    }
}

#[inline(always)]
fn ask(layout: Layout, zeroed: bool) -> *mut u8 {
    // SAFETY: only edge_cases sometimes requests 0 bytes, which these allocators accept.
    unsafe {
        if zeroed {
            alloc_zeroed(layout)
        } else {
            alloc(layout)
        }
    }
}

/// A block; without memory the program ends, as in Rust's collections.
#[inline(always)]
fn take(layout: Layout, zeroed: bool) -> *mut u8 {
    let block = ask(layout, zeroed);
    if block.is_null() {
        handle_alloc_error(layout)
    }
    block
}

// ---- blocks -------------------------------------------------------------------------------------------------------

/// The requests of mini-alloc's test of this name: empty blocks, blocks to the very end of a page, and then a mix of
/// small, page-sized and huge ones, a quarter of them as large as a returned address, until memory is 2 GiB. With other
/// addresses an allocator gets other sizes, so the work is not equal; in `trace` it is.
#[no_mangle]
pub extern "C" fn edge_cases(zeroed: u32) -> u32 {
    if zeroed != 0 {
        edges(|layout| ask(layout, true))
    } else {
        edges(|layout| ask(layout, false))
    }
}

#[inline(always)]
fn edges(ask: impl Fn(Layout) -> *mut u8) -> u32 {
    let pages = || core::arch::wasm32::memory_size(0);
    let end = || pages() << 16;
    let mut sum = 0usize; // of addresses, so that no block can be left out
    let mut block = |size: usize| {
        // Skip sizes that are invalid in Rust.
        let address = Layout::from_size_align(size, 1).map_or(0, |layout| ask(layout) as usize);
        sum = sum.wrapping_add(address);
        address
    };
    let start = block(0);
    block(0);
    block(end().wrapping_sub(start));
    let first = block(1);
    block(end().wrapping_sub(first + 1));
    block(4 * PAGE);
    let mut random = Random(0);
    // Stop after some attempts if an allocator makes no progress; mini-alloc takes some hundred blocks.
    for _ in 0..20_000 {
        if pages() >= 1 << 15 {
            break;
        }
        let number = random.next() as usize;
        let room = block(0).wrapping_neg();
        let size = match number % 4 {
            0 => number % 1024,
            1 => number % PAGE,
            2 => {
                let here = block(0);
                block(end().wrapping_sub(here))
            }
            _ => number % (200 * PAGE),
        };
        block(size.min(room));
    }
    sum as u32
}

/// 4000 blocks of 1 byte to 4 KiB, aligned to 1, 2, 4 or 8, all kept: the same for every allocator.
#[no_mangle]
pub extern "C" fn trace(zeroed: u32) -> u32 {
    if zeroed != 0 {
        kept_blocks(|layout| take(layout, true))
    } else {
        kept_blocks(|layout| take(layout, false))
    }
}

#[inline(always)]
fn kept_blocks(take: impl Fn(Layout) -> *mut u8) -> u32 {
    let (mut random, mut sum) = (Random(1), 0u32);
    for _ in 0..4000 {
        let size = random.size(11);
        let align = 1usize << (random.0 >> 12 & 3);
        // SAFETY: 1, 2, 4 or 8, and no size near isize::MAX.
        let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
        let block = take(layout);
        // SAFETY: the block has a byte.
        unsafe { block.write(size as u8) };
        sum = sum.wrapping_add((size + (block as usize & (align - 1))) as u32);
    }
    sum
}

/// Takes a block of 1 to 512 bytes, writes to it, and frees it.
#[no_mangle]
pub extern "C" fn pairs(rounds: u32) -> u32 {
    let (mut random, mut sum) = (Random(2), 0u32);
    for _ in 0..rounds {
        let size = random.size(8);
        // SAFETY: the block has this layout and a byte.
        unsafe {
            let layout = Layout::from_size_align_unchecked(size, 8);
            let block = black_box(take(layout, false));
            block.write(size as u8);
            sum = sum.wrapping_add(u32::from(black_box(block).read()));
            dealloc(block, layout);
        }
    }
    sum
}

/// 512 blocks live, and each round replaces one at random by one of another size, 1 byte to 2 KiB.
#[no_mangle]
pub extern "C" fn churn(rounds: u32) -> u32 {
    let (mut random, mut sum) = (Random(3), 0u32);
    let mut live = [(std::ptr::null_mut::<u8>(), 0usize); 512];
    // SAFETY: each slot holds a block and its size, or null; blocks have a byte at each end.
    unsafe {
        let mut replace = |slot: &mut (*mut u8, usize), size: usize| {
            let (block, old) = *slot;
            if !block.is_null() {
                sum = sum.wrapping_add(u32::from(block.read()) ^ old as u32);
                dealloc(block, Layout::from_size_align_unchecked(old, 8));
            }
            *slot = (std::ptr::null_mut(), 0);
            if size != 0 {
                let block = take(Layout::from_size_align_unchecked(size, 8), false);
                block.add(size - 1).write(1);
                block.write(size as u8);
                *slot = (block, size);
            }
        };
        for _ in 0..rounds {
            let size = random.size(10);
            replace(&mut live[random.0 as usize >> 23], size);
        }
        for slot in &mut live {
            replace(slot, 0);
        }
    }
    sum
}

/// Each generation has slightly larger blocks than the one before, so none fits into a freed block unless neighbours
/// are merged. Every second block of a generation is freed at once, and the others after the next generation is made.
#[no_mangle]
pub extern "C" fn fragmentation(generations: u32) -> u32 {
    let mut sum = 0u32;
    let mut rest: Vec<Vec<u8>> = Vec::new();
    for generation in 0..generations {
        let size = 24 + 40 * (generation % 32) as usize;
        let mut next: Vec<Option<Vec<u8>>> = Vec::with_capacity(512);
        for number in 0..512u32 {
            let mut block = Vec::with_capacity(size);
            block.extend_from_slice(&(number ^ generation).to_le_bytes());
            next.push(Some(block));
        }
        for block in next.iter_mut().step_by(2) {
            *block = None;
        }
        sum =
            rest.iter().fold(sum, |sum, block| sum.wrapping_mul(31).wrapping_add(block[0].into()));
        rest = next.into_iter().flatten().collect();
    }
    sum
}

/// Zeroed vectors of 1 byte to 128 KiB: checks and marks both ends, then drops them.
#[no_mangle]
pub extern "C" fn zeroed_vectors(rounds: u32) -> u32 {
    let (mut random, mut sum) = (Random(4), 0u32);
    for _ in 0..rounds {
        let mut vector = vec![0u8; random.size(16)];
        let last = vector.len() - 1;
        sum = sum.wrapping_add(u32::from(vector[0]) + u32::from(vector[last]) + last as u32);
        (vector[0], vector[last]) = (255, 255);
        black_box(&mut vector);
    }
    sum
}

// ---- collections --------------------------------------------------------------------------------------------------

/// Vectors that grow by a word at a time to 4000 words.
#[no_mangle]
pub extern "C" fn vec_growth(rounds: u32) -> u32 {
    let mut sum = 0u32;
    for round in 0..rounds {
        let mut vector = Vec::new();
        for number in 0..4000u32 {
            vector.push(number ^ round);
        }
        sum = black_box(&vector).iter().step_by(97).fold(sum, |sum, n| sum.wrapping_add(*n));
    }
    sum
}

/// Strings that grow by a word of text at a time to some 12 KB.
#[no_mangle]
pub extern "C" fn string_growth(rounds: u32) -> u32 {
    const WORDS: [&str; 4] = ["a ", "glebe ", "is a piece of land ", "that belongs to a parish, "];
    let mut sum = 0u32;
    for round in 0..rounds {
        let mut text = String::new();
        for number in 0..1000 {
            text.push_str(WORDS[(number ^ round) as usize % 4]);
        }
        sum = sum.rotate_left(3) ^ text.len() as u32 ^ u32::from(black_box(&text).as_bytes()[777]);
    }
    sum
}

/// The standard library seeds its own from addresses, which differ between modules.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(number)).wrapping_mul(0x9e3779b97f4a7c15);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Four to 67 bytes that begin with the number.
fn value(number: u32) -> Vec<u8> {
    let mut value = Vec::with_capacity(4 + number as usize % 64);
    value.extend_from_slice(&number.to_le_bytes());
    value
}

/// Keys are added and removed in a hash map whose values are vectors; some 500 live.
#[no_mangle]
pub extern "C" fn hash_map(rounds: u32) -> u32 {
    let (mut random, mut sum) = (Random(5), 0u32);
    let mut map: HashMap<u32, Vec<u8>, BuildHasherDefault<Multiply>> = HashMap::default();
    for _ in 0..rounds {
        let key = random.below(1000);
        match map.remove(&key) {
            Some(old) => sum = sum.rotate_left(1) ^ u32::from(old[0]),
            None => drop(map.insert(key, value(key))),
        }
    }
    sum ^ map.values().map(|value| u32::from(value[0])).sum::<u32>()
}

/// The same in an ordered map.
#[no_mangle]
pub extern "C" fn btree_map(rounds: u32) -> u32 {
    let (mut random, mut sum) = (Random(6), 0u32);
    let mut map: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for _ in 0..rounds {
        let key = random.below(1000);
        match map.remove(&key) {
            Some(old) => sum = sum.rotate_left(1) ^ u32::from(old[0]),
            None => drop(map.insert(key, value(key))),
        }
    }
    map.values().fold(sum, |sum, value| sum.wrapping_add(value[0].into()))
}

struct Tree {
    mark: u32,
    children: [Option<Box<Tree>>; 2],
}

fn tree(depth: u32, mark: u32) -> Option<Box<Tree>> {
    (depth > 0).then(|| {
        let children = [tree(depth - 1, 2 * mark), tree(depth - 1, 2 * mark + 1)];
        Box::new(Tree { mark, children })
    })
}

impl Tree {
    fn sum(&self) -> u32 {
        self.children.iter().flatten().fold(self.mark, |sum, child| sum.wrapping_add(child.sum()))
    }
}

/// Binary trees of 1023 boxes; the last one lives while the next is made.
#[no_mangle]
pub extern "C" fn boxes(rounds: u32) -> u32 {
    let (mut kept, mut sum) = (None, 0u32);
    for round in 0..rounds {
        let new = tree(10, round + 1);
        sum = sum.rotate_left(1) ^ new.as_ref().map_or(0, |tree| tree.sum());
        kept = black_box(new);
    }
    drop(kept);
    sum
}

// ---- a contract ---------------------------------------------------------------------------------------------------

const WORDS: usize = 24;

/// The data of a call: eight addresses, eight amounts, a length, and a text of up to 256 bytes.
static CALL: [u8; 32 * WORDS] = {
    let mut call = [0; 32 * WORDS];
    let mut at = 0;
    while at < call.len() {
        let (word, byte) = (at / 32, at % 32);
        call[at] = match (word, byte) {
            (0..=7, 12..) => ((word % 5) * 37 + byte * 11) as u8,
            (8..=15, 24..) => (word * 53 + byte * 29) as u8,
            (16, 31) => 200,
            (17.., _) => b'a' + (at % 26) as u8,
            _ => 0,
        };
        at += 1;
    }
    call
};

#[derive(Debug)]
struct Bad;

fn words(call: &[u8]) -> Result<Vec<[u8; 32]>, Bad> {
    call.chunks(32).map(|word| word.try_into().map_err(|_| Bad)).collect()
}

fn address(word: &[u8; 32]) -> Result<[u8; 20], Bad> {
    if word[..12].iter().any(|byte| *byte != 0) {
        return Err(Bad);
    }
    word[12..].try_into().map_err(|_| Bad)
}

fn amount(word: &[u8; 32]) -> Result<u128, Bad> {
    word[16..].try_into().map(u128::from_be_bytes).map_err(|_| Bad)
}

/// Pays each receiver an amount, writes a log line for each, and returns the balances.
fn pay(call: &[u8]) -> Result<Vec<u8>, Bad> {
    let words = words(call)?;
    let to: Vec<[u8; 20]> = words[..8].iter().map(address).collect::<Result<_, _>>()?;
    let amounts: Vec<u128> = words[8..16].iter().map(amount).collect::<Result<_, _>>()?;
    let length = amount(&words[16])? as usize;
    let memo: Vec<u8> = words[17..].concat();
    let memo = String::from_utf8(memo.get(..length).ok_or(Bad)?.to_vec()).map_err(|_| Bad)?;

    let mut balances: BTreeMap<[u8; 20], u128> = BTreeMap::new();
    let mut log: Vec<String> = Vec::new();
    for (to, amount) in to.iter().zip(&amounts) {
        *balances.entry(*to).or_default() += *amount;
        let name = to.iter().fold(String::new(), |mut name, byte| {
            name.push(char::from(b'a' + byte % 26));
            name
        });
        log.push(format!("paid {} to {name}: {}", *amount as u32, &memo[..16]));
    }

    let mut result = Vec::new();
    for (who, balance) in &balances {
        result.extend_from_slice(&[0; 12]);
        result.extend_from_slice(who);
        result.extend_from_slice(&[0; 16]);
        result.extend_from_slice(&balance.to_be_bytes());
    }
    for line in &log {
        result.extend_from_slice(line.as_bytes());
        result.resize(result.len().next_multiple_of(32), 0);
    }
    Ok(result)
}

/// One call of a contract: words are decoded into vectors, a map is filled, strings are formatted, a result is encoded.
#[no_mangle]
pub extern "C" fn contract(_rounds: u32) -> u32 {
    match pay(black_box(&CALL)) {
        Ok(result) => result.iter().fold(0u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte)),
        Err(Bad) => u32::MAX,
    }
}
