//! A WASI program on Bump beside the C library's malloc, which Rust's standard library calls there. Neither may take
//! the other's memory: the program fills each block, and checks all of them in the end.

use std::alloc::{alloc, Layout};

#[global_allocator]
static ALLOC: glebe::Bump = glebe::Bump::INIT;

extern "C" {
    fn malloc(bytes: usize) -> *mut u8;
}

fn main() {
    let mut blocks = Vec::new();
    for i in 0..3000usize {
        let size = 1 + i * 131 % 900;
        // SAFETY: sizes are not 0; null is looked for.
        unsafe {
            let block = if i % 3 == 0 { malloc(size) } else { alloc(Layout::from_size_align(size, 8).unwrap()) };
            assert!(!block.is_null());
            block.write_bytes(i as u8, size);
            blocks.push((block, size, i as u8));
        }
    }
    for (block, size, mark) in &blocks {
        // SAFETY: the bytes were written above.
        let bytes = unsafe { std::slice::from_raw_parts(*block, *size) };
        assert!(bytes.iter().all(|byte| byte == mark), "{block:p}: bytes of another block");
    }
    let words: Vec<String> = std::env::args().chain(std::env::vars().map(|(k, v)| k + &v)).collect();
    println!("{}", words.join(" "));
}
