//! `glebe explain --svg`: the waterfall. Each bar begins where the one above it ends, and the last is the resident set.

use super::part::Part;
use super::parts::Explanation;
use crate::picture::{font, write, Drawn, BLUE, GREEN, GREY, INK, ORANGE};
use crate::size::amount;
use anyhow::Result;
use plotters::prelude::*;
use std::path::Path;

const WIDTH: i32 = 1080;
const LEFT: i32 = 250;
const RIGHT: i32 = 190;
const HEAD: i32 = 80;
const ROW: i32 = 30;

fn colour(part: Part) -> RGBColor {
    match part {
        part if part <= Part::LiveCollected => GREEN,
        part if part.of_glebe() => ORANGE,
        _ => BLUE,
    }
}

/// Draws into `file`.
pub fn draw(file: &Path, e: &Explanation, moment: &str) -> Result<()> {
    write(file, |text| draw_into(text, e, moment))
}

fn draw_into(text: &mut String, e: &Explanation, moment: &str) -> Drawn {
    let parts: Vec<Part> = Part::ALL.into_iter().filter(|part| e.part(*part) > 0).collect();
    let height = HEAD + ROW * (parts.len() as i32 + 2);
    let root = SVGBackend::with_string(text, (WIDTH as u32, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("{}[{}]: resident set {moment}", e.program, e.pid);
    root.draw(&Text::new(title, (28, 16), font(22)))?;
    let legend = "green: live blocks; orange: glebe's free memory and tables; blue: not malloc's";
    root.draw(&Text::new(legend, (28, 46), font(14).color(&GREY)))?;
    let rss = e.rss_bytes().max(1);
    let x = |bytes: u64| {
        LEFT + (i128::from(bytes) * i128::from(WIDTH - LEFT - RIGHT) / i128::from(rss)) as i32
    };
    let row = |row: i32, name: &str, from: u64, bytes: u64, colour: RGBColor| {
        let y = HEAD + row * ROW;
        root.draw(&Text::new(name.to_string(), (28, y + 4), font(15)))?;
        root.draw(&Rectangle::new(
            [(x(from), y), (x(from + bytes).max(x(from) + 1), y + ROW - 8)],
            colour.filled(),
        ))?;
        let share = 100.0 * bytes as f64 / rss as f64;
        let label = format!("{} ({share:.1} %)", amount(bytes));
        root.draw(&Text::new(label, (x(from + bytes) + 8, y + 4), font(14)))
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
