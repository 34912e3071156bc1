//! What our SVG pictures share: the font, the colours, and how they get into a file.

use crate::output;
use anyhow::{anyhow, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

pub const FONT: &str = "Helvetica, Arial, sans-serif";
pub const INK: RGBColor = RGBColor(0x22, 0x2b, 0x33);
pub const FAINT: RGBColor = RGBColor(0xe2, 0xe6, 0xea);
pub const GREY: RGBColor = RGBColor(0x8a, 0x93, 0x9b);
pub const GREEN: RGBColor = RGBColor(0x1b, 0x8a, 0x4b);
pub const BLUE: RGBColor = RGBColor(0x2f, 0x6d, 0xc4);
pub const ORANGE: RGBColor = RGBColor(0xd9, 0x77, 0x06);

pub type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub fn font(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

/// Writes what `draw` draws into a file. It draws into a string: if the file system failed, the backend would panic.
pub fn write(file: &Path, draw: impl FnOnce(&mut String) -> Drawn) -> Result<()> {
    let mut text = String::new();
    draw(&mut text).map_err(|e| anyhow!("cannot draw: {e}"))?;
    output::write(file, text).map_err(|e| anyhow!("cannot write {}: {e}", file.display()))
}
