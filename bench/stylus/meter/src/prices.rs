//! The prices of a Stylus node, in ink; 10,000 ink are one gas.
//!
//! Source: the Arbitrum node, github.com/OffchainLabs/nitro, commit 6dce8d13902649a1acdfd3f2504129f1f5612358 (April
//! 2026, after v3.10.0-rc.7), looked up on 2026-11-21:
//!
//! ```text
//!     crates/prover/src/programs/meter.rs      prices of instructions: `pricing_v1`, for Stylus versions 1 and 2
//!     crates/prover/src/programs/config.rs     prices of a basic block, a byte of a fill or copy: `CompileConfig`
//!     crates/arbutil/src/operator.rs           which instructions end a basic block
//! ```
//!
//! The host charges for pages and host functions: ../../ink.py and ../../host.py.

use wasmparser::Operator;

/// The price of the check of the ink at the start of every basic block.
pub const BLOCK: u64 = 2450;

/// The price of a byte that `memory.fill` writes or `memory.copy` moves, in addition to the instruction.
pub const BULK_BYTE: u64 = 100;

/// An instruction that no program may have: floating point, vectors, threads, tables that change, and later extensions.
/// A node does not activate a module that has one; a block with one costs more ink than there is.
pub const REFUSED: u64 = u64::MAX;

/// True if a basic block ends after this instruction. Instructions such as `block` do not end one.
pub fn ends_block(op: &Operator) -> bool {
    use Operator::*;
    matches!(
        op,
        End | Else
            | Return
            | Loop { .. }
            | If { .. }
            | Br { .. }
            | BrIf { .. }
            | BrTable { .. }
            | Call { .. }
            | CallIndirect { .. }
    )
}

/// The price of one instruction. `params` returns the number of parameters of a function type.
pub fn price(op: &Operator, params: impl Fn(u32) -> usize) -> u64 {
    use Operator::*;
    match op {
        // Control
        Nop | Unreachable | Return | Else | End | Block { .. } | Loop { .. } => 1,
        Br { .. } | BrIf { .. } | If { .. } => 765,
        BrTable { targets } => 2400 + 325 * u64::from(targets.len()),
        Call { .. } => 3800,
        CallIndirect { type_index, .. } => 13610 + 650 * params(*type_index) as u64,

        // Operands
        I32Const { .. } | I64Const { .. } => 1,
        Drop => 9,
        Select => 1250,
        LocalGet { .. } | LocalTee { .. } => 75,
        LocalSet { .. } => 210,
        GlobalGet { .. } => 225,
        GlobalSet { .. } => 575,

        // Memory
        I32Load { .. }
        | I32Load8S { .. }
        | I32Load8U { .. }
        | I32Load16S { .. }
        | I32Load16U { .. } => 670,
        I64Load { .. }
        | I64Load8S { .. }
        | I64Load8U { .. }
        | I64Load16S { .. }
        | I64Load16U { .. }
        | I64Load32S { .. }
        | I64Load32U { .. } => 680,
        I32Store { .. } | I32Store8 { .. } | I32Store16 { .. } => 825,
        I64Store { .. } | I64Store8 { .. } | I64Store16 { .. } | I64Store32 { .. } => 950,
        MemorySize { .. } => 3000,
        MemoryGrow { .. } => 8050,
        MemoryFill { .. } | MemoryCopy { .. } => 950,

        // 32 bits
        I32Eqz | I32Eq | I32Ne | I32LtS | I32LtU | I32GtS | I32GtU | I32LeS | I32LeU | I32GeS
        | I32GeU => 170,
        I32Add | I32Sub | I32And | I32Or | I32Xor | I32Shl | I32ShrS | I32ShrU | I32Rotl
        | I32Rotr => 70,
        I32Mul => 160,
        I32DivS | I32DivU | I32RemS | I32RemU => 1120,
        I32Clz | I32Ctz => 210,
        I32Popcnt => 2650,

        // 64 bits
        I64Eqz | I64Eq | I64Ne | I64LtS | I64LtU | I64GtS | I64GtU | I64LeS | I64LeU | I64GeS
        | I64GeU => 225,
        I64Add | I64Sub | I64And | I64Or | I64Xor | I64Shl | I64ShrS | I64ShrU | I64Rotl
        | I64Rotr => 100,
        I64Mul => 160,
        I64DivS | I64DivU | I64RemS | I64RemU => 1270,
        I64Clz | I64Ctz => 210,
        I64Popcnt => 6000,

        // From one width to another
        I32WrapI64 | I64ExtendI32S | I64ExtendI32U | I32Extend8S | I32Extend16S | I64Extend8S
        | I64Extend16S | I64Extend32S => 100,

        _ => REFUSED,
    }
}
