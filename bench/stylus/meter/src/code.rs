//! Function bodies: the same instructions, and the payments between them.
//!
//! ```text
//!     local.get 0           cost of the block: 75 + 75 + 70 + 765 + BLOCK
//!     local.get 1      =>   ink < cost?  then status = 1, trap
//!     i32.add               ink = ink - cost
//!     br_if 0               local.get 0, local.get 1, i32.add, br_if 0
//! ```
//!
//! The meter holds back a block's instructions until it sees the end of the block, so it knows the price at the start.
//! Unreachable code works too, since the added code leaves the stack unchanged.

use crate::module::Module;
use crate::prices::{ends_block, price, BLOCK, BULK_BYTE, REFUSED};
use anyhow::Result;
use wasm_encoder::reencode::Reencode;
use wasm_encoder::{BlockType, Function, InstructionSink};
use wasmparser::{FunctionBody, Operator};

/// The globals that were added, by number.
#[derive(Clone, Copy, Default)]
pub struct Globals {
    pub ink: u32,
    pub status: u32,
    /// Holds an operand while its price is paid.
    pub scratch: u32,
}

pub fn meter(module: &mut Module, body: &FunctionBody) -> Result<Function> {
    let mut locals = Vec::new();
    for group in body.get_locals_reader()? {
        let (count, kind) = group?;
        locals.push((count, module.val_type(kind)?));
    }
    let mut function = Function::new(locals);
    let mut block = Vec::new();
    let mut cost = BLOCK;
    for op in body.get_operators_reader()? {
        let op = op?;
        let paid = price(&op, |index| module.params(index));
        if paid == REFUSED {
            module.refuse(&op);
        }
        cost = cost.saturating_add(paid);
        let ends = ends_block(&op);
        block.push(op);
        if ends {
            pay(&mut function.instructions(), module.globals, cost);
            for op in block.drain(..) {
                before(&mut function.instructions(), module, &op);
                function.instruction(&module.instruction(op)?);
            }
            cost = BLOCK;
        }
    }
    Ok(function)
}

/// Takes `cost` from the ink.
fn pay(out: &mut InstructionSink, globals: Globals, cost: u64) {
    out.global_get(globals.ink).i64_const(cost as i64).i64_lt_u();
    trap(out, globals);
    out.global_get(globals.ink).i64_const(cost as i64).i64_sub().global_set(globals.ink);
}

/// Ends the program if there is a 1 on the stack.
fn trap(out: &mut InstructionSink, globals: Globals) {
    out.if_(BlockType::Empty).i32_const(1).global_set(globals.status).unreachable().end();
}

/// The code before an instruction whose price is known only at run time. Its last operand is on top of the stack.
fn before(out: &mut InstructionSink, module: &Module, op: &Operator) {
    let Globals { ink, scratch, .. } = module.globals;
    match op {
        Operator::MemoryFill { .. } | Operator::MemoryCopy { .. } => {
            let price = |out: &mut InstructionSink| {
                out.global_get(scratch).i64_extend_i32_u().i64_const(BULK_BYTE as i64).i64_mul();
            };
            out.global_set(scratch);
            out.global_get(ink);
            price(out);
            out.i64_lt_u();
            trap(out, module.globals);
            out.global_get(ink);
            price(out);
            out.i64_sub().global_set(ink);
            out.global_get(scratch);
        }
        Operator::MemoryGrow { .. } => {
            if let Some(function) = module.pay_for_memory_grow {
                out.global_set(scratch).global_get(scratch).call(function).global_get(scratch);
            }
        }
        _ => {}
    }
}
