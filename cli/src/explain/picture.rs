//! `glebe explain --svg`: the waterfall. Each bar begins where the one above it ends, and the last is the resident set.

use super::part::Part;
use super::parts::Explanation;
use super::show::amount;
use anyhow::{anyhow, Result};
use plotters::prelude::*;
use std::path::Path;

const WIDTH: i32 = 1080;
const LEFT: i32 = 250;
const RIGHT: i32 = 190;
const HEAD: i32 = 80;
const ROW: i32 = 30;
const FONT: &str = "Helvetica, Arial, sans-serif";
const INK: RGBColor = RGBColor(0x22, 0x2b, 0x33);
const GREY: RGBColor = RGBColor(0x8a, 0x93, 0x9b);
const LIVE: RGBColor = RGBColor(0x1b, 0x8a, 0x4b);
const LOOSE: RGBColor = RGBColor(0xd9, 0x77, 0x06);
const OTHER: RGBColor = RGBColor(0x2f, 0x6d, 0xc4);

fn colour(part: Part) -> RGBColor {
    match part {
        part if part <= Part::LiveCollected => LIVE,
        part if part.of_glebe() => LOOSE,
        _ => OTHER,
    }
}

/// Draws into `file`.
pub fn draw(file: &Path, e: &Explanation, moment: &str) -> Result<()> {
    let mut text = String::new();
    draw_into(&mut text, e, moment).map_err(|e| anyhow!("cannot draw: {e}"))?;
    std::fs::write(file, text).map_err(|e| anyhow!("{}: {e}", file.display()))
}

fn draw_into(
    text: &mut String,
    e: &Explanation,
    moment: &str,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let parts: Vec<Part> = Part::ALL.into_iter().filter(|part| e.part(*part) > 0).collect();
    let height = HEAD + ROW * (parts.len() as i32 + 2);
    let root = SVGBackend::with_string(text, (WIDTH as u32, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let ink = |size: i32| (FONT, size).into_font().color(&INK);
    let title = format!("{}[{}]: resident set {moment}", e.program, e.pid);
    root.draw(&Text::new(title, (28, 16), ink(22)))?;
    let legend = "green: live blocks; orange: glebe's free memory and tables; blue: not malloc's";
    root.draw(&Text::new(legend, (28, 46), (FONT, 14).into_font().color(&GREY)))?;
    let rss = e.rss_bytes().max(1);
    let x = |bytes: u64| {
        LEFT + (i128::from(bytes) * i128::from(WIDTH - LEFT - RIGHT) / i128::from(rss)) as i32
    };
    let row = |row: i32, name: &str, from: u64, bytes: u64, colour: RGBColor| {
        let y = HEAD + row * ROW;
        root.draw(&Text::new(name.to_string(), (28, y + 4), ink(15)))?;
        root.draw(&Rectangle::new(
            [(x(from), y), (x(from + bytes).max(x(from) + 1), y + ROW - 8)],
            colour.filled(),
        ))?;
        let share = 100.0 * bytes as f64 / rss as f64;
        let label = format!("{} ({share:.1} %)", amount(bytes));
        root.draw(&Text::new(label, (x(from + bytes) + 8, y + 4), ink(14)))
    };
    let mut from = 0;
    for (i, part) in parts.iter().enumerate() {
        row(i as i32, part.text(), from, e.part(*part), colour(*part))?;
        from += e.part(*part);
    }
    row(parts.len() as i32, "resident set", 0, rss, INK)?;
    root.present()?;
    Ok(())
}
