//! A module's sections: copied, with the meter's additions at their ends.
//!
//! ```text
//!     type      ... (i32) -> ()                     the type of the import, unless the module has the import
//!     import    ... vm_hooks.pay_for_memory_grow    the same
//!     global    ... ink, status, scratch
//!     export    ... stylus_ink_left, stylus_ink_status, stylus_start
//!     code      every body anew: code.rs
//! ```
//!
//! An import that is added becomes the first function behind the imported ones, so the numbers of all defined functions
//! move up by one, everywhere. Nothing else is renumbered.

use crate::code::{self, Globals};
use anyhow::{bail, Result};
use std::collections::BTreeMap;
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{ConstExpr, EntityType, ExportKind, GlobalType, ValType};
use wasmparser::{Operator, Parser, Payload, TypeRef, Validator};

const HOOKS: &str = "vm_hooks";
const PAY: &str = "pay_for_memory_grow";

pub struct Metered {
    pub bytes: Vec<u8>,
    /// Instructions that a node refuses, and how often they occur.
    pub refused: BTreeMap<String, usize>,
}

/// The data of a module that its function bodies need.
#[derive(Default)]
pub struct Module {
    pub globals: Globals,
    /// None: the memory cannot grow.
    pub pay_for_memory_grow: Option<u32>,
    /// The number of parameters of each type.
    params: Vec<usize>,
    /// The number of the first function that moves up by one.
    moved: Option<u32>,
    refused: BTreeMap<String, usize>,
}

impl Module {
    pub fn params(&self, type_index: u32) -> usize {
        self.params[type_index as usize]
    }

    pub fn refuse(&mut self, op: &Operator) {
        let text = format!("{op:?}");
        let name = text.split([' ', '(']).next().unwrap_or_default().to_string();
        *self.refused.entry(name).or_default() += 1;
    }

    /// Reads the data that is needed before writing.
    fn survey(bytes: &[u8]) -> Result<Module> {
        let mut module = Module::default();
        let (mut functions, mut globals) = (0, 0);
        let mut grows = true;
        let mut found = None;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::TypeSection(types) => {
                    for kind in types.into_iter_err_on_gc_types() {
                        module.params.push(kind?.params().len());
                    }
                }
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        let import = import?;
                        match import.ty {
                            TypeRef::Func(_) | TypeRef::FuncExact(_) => {
                                if (import.module, import.name) == (HOOKS, PAY) {
                                    found = Some(functions);
                                }
                                functions += 1;
                            }
                            TypeRef::Global(_) => globals += 1,
                            TypeRef::Memory(kind) => grows = kind.maximum != Some(kind.initial),
                            _ => {}
                        }
                    }
                }
                Payload::MemorySection(memories) => {
                    for kind in memories {
                        let kind = kind?;
                        grows = kind.maximum != Some(kind.initial);
                    }
                }
                Payload::GlobalSection(section) => globals += section.count(),
                _ => {}
            }
        }
        module.globals = Globals { ink: globals, status: globals + 1, scratch: globals + 2 };
        if found.is_none() && grows {
            module.moved = Some(functions);
        }
        module.pay_for_memory_grow = if grows { found.or(Some(functions)) } else { None };
        Ok(module)
    }
}

impl Reencode for Module {
    type Error = Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, Error<Infallible>> {
        Ok(index + u32::from(self.moved.is_some_and(|first| index >= first)))
    }
}

/// The module with a meter in it.
pub fn meter(bytes: &[u8]) -> Result<Metered> {
    Validator::new().validate_all(bytes)?;
    let mut module = Module::survey(bytes)?;
    let mut types = wasm_encoder::TypeSection::new();
    let mut imports = wasm_encoder::ImportSection::new();
    let mut functions = wasm_encoder::FunctionSection::new();
    let mut tables = wasm_encoder::TableSection::new();
    let mut memories = wasm_encoder::MemorySection::new();
    let mut globals = wasm_encoder::GlobalSection::new();
    let mut exports = wasm_encoder::ExportSection::new();
    let mut elements = wasm_encoder::ElementSection::new();
    let mut data_count = None;
    let mut codes = wasm_encoder::CodeSection::new();
    let mut data = wasm_encoder::DataSection::new();
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::TypeSection(s) => module.parse_type_section(&mut types, s)?,
            Payload::ImportSection(s) => module.parse_import_section(&mut imports, s)?,
            Payload::FunctionSection(s) => module.parse_function_section(&mut functions, s)?,
            Payload::TableSection(s) => module.parse_table_section(&mut tables, s)?,
            Payload::MemorySection(s) => module.parse_memory_section(&mut memories, s)?,
            Payload::GlobalSection(s) => module.parse_global_section(&mut globals, s)?,
            Payload::ExportSection(s) => module.parse_export_section(&mut exports, s)?,
            Payload::StartSection { func, .. } => {
                let func = module.function_index(func)?;
                exports.export("stylus_start", ExportKind::Func, func);
            }
            Payload::ElementSection(s) => module.parse_element_section(&mut elements, s)?,
            Payload::DataCountSection { count, .. } => data_count = Some(count),
            Payload::CodeSectionEntry(body) => {
                codes.function(&code::meter(&mut module, &body)?);
            }
            Payload::DataSection(s) => module.parse_data_section(&mut data, s)?,
            Payload::Version { .. }
            | Payload::CodeSectionStart { .. }
            | Payload::CustomSection(_)
            | Payload::End(_) => {}
            other => bail!("a section that cannot be metered: {other:?}"),
        }
    }
    if module.moved.is_some() {
        types.ty().function([ValType::I32], []);
        imports.import(HOOKS, PAY, EntityType::Function(module.params.len() as u32));
    }
    let variable = |val_type| GlobalType { val_type, mutable: true, shared: false };
    globals.global(variable(ValType::I64), &ConstExpr::i64_const(0));
    globals.global(variable(ValType::I32), &ConstExpr::i32_const(0));
    globals.global(variable(ValType::I32), &ConstExpr::i32_const(0));
    exports.export("stylus_ink_left", ExportKind::Global, module.globals.ink);
    exports.export("stylus_ink_status", ExportKind::Global, module.globals.status);

    let mut out = wasm_encoder::Module::new();
    out.section(&types).section(&imports).section(&functions).section(&tables).section(&memories);
    out.section(&globals).section(&exports).section(&elements);
    if let Some(count) = data_count {
        out.section(&wasm_encoder::DataCountSection { count });
    }
    out.section(&codes).section(&data);
    let bytes = out.finish();
    Validator::new().validate_all(&bytes)?;
    Ok(Metered { bytes, refused: module.refused })
}
