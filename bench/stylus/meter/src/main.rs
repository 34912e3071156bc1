//! Makes a WebAssembly module pay for its instructions, as an Arbitrum Stylus node does.
//!
//! ```text
//!     stylus-meter IN.wasm OUT.wasm
//! ```
//!
//! OUT works like IN, and also
//!
//! 1. it exports `stylus_ink_left` (i64) and `stylus_ink_status` (i32), mutable; the host sets the first before a call;
//! 2. a basic block takes its price from the ink at its start. Too little ink: the status is set to 1, and the module
//!    traps;
//! 3. `memory.fill` and `memory.copy` take the price of their bytes just before they run, in the same way;
//! 4. `memory.grow` calls the import `vm_hooks.pay_for_memory_grow` with the number of pages just before it runs,
//!    unless the
//!    memory says that it cannot grow at all. What pages cost, and whether they are refused, is decided there;
//! 5. the start function, if there is one, becomes the export `stylus_start`, since at the start there is no ink yet. A
//!    node
//!    refuses such a module; custom sections are dropped.
//!
//! The added code itself is free. The meter names instructions that a node refuses on stderr. prices.rs has the prices,
//! module.rs the sections, code.rs the function bodies.

mod code;
mod module;
mod prices;

use anyhow::{bail, Context, Result};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output] = &arguments[..] else { bail!("usage: stylus-meter IN.wasm OUT.wasm") };
    let bytes = std::fs::read(input).with_context(|| format!("cannot read {input}"))?;
    let metered = module::meter(&bytes).with_context(|| format!("cannot meter {input}"))?;
    for (instruction, count) in &metered.refused {
        eprintln!("{input}: a node refuses {instruction}, which is here {count} times");
    }
    std::fs::write(output, metered.bytes).with_context(|| format!("cannot write {output}"))
}
