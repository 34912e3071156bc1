//! `glebe map --svg`: a row for each 2 MiB, a cell for each 16 KiB. The hue is the kind, the shade how much is live.
//!
//! We write the elements ourselves: a heap of a gigabyte has 65,536 cells, and neighbours of one colour share one.

use super::{Cell, Kind, Map};
use crate::size::amount;
use anyhow::{anyhow, Result};
use std::fmt::Write;
use std::path::Path;

const ROW_BYTES: u64 = 2 << 20;
const CELL: u64 = 8;
const ROW: u64 = 10;
const LEFT: u64 = 150;
const HEAD: u64 = 84;
const WIDTH: u64 = LEFT + CELL * 128 + 40;
const FONT: &str = "font-family=\"Helvetica, Arial, sans-serif\"";

/// The colour of full memory of a kind.
fn hue(kind: Kind) -> [u8; 3] {
    match kind {
        Kind::Small => [0x1b, 0x8a, 0x4b],
        Kind::Medium => [0x0e, 0x8f, 0x9c],
        Kind::Large => [0x2f, 0x6d, 0xc4],
        Kind::Huge => [0x8e, 0x44, 0xad],
        Kind::Collected => [0x7a, 0x5c, 0x3e],
        Kind::Retained => [0xd9, 0x77, 0x06],
        Kind::Clean => [0xe2, 0xe6, 0xea],
        Kind::Guard => [0x8a, 0x93, 0x9b],
    }
}

/// Live memory fades with its share of live bytes; a hole fades further.
fn colour(cell: &Cell) -> String {
    let live = matches!(cell.kind, Kind::Small | Kind::Medium | Kind::Large | Kind::Huge);
    let share = match cell.kind {
        _ if live => 30 + u32::from(cell.live / 10 * 10) * 7 / 10,
        Kind::Retained => 30 + u32::from(cell.resident / 25 * 25) * 7 / 10,
        _ => 100,
    };
    let share = if cell.holes { share / 2 } else { share };
    let [red, green, blue] = hue(cell.kind).map(|part| 255 - (255 - u32::from(part)) * share / 100);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Draws into `file`.
pub fn draw(file: &Path, map: &Map) -> Result<()> {
    crate::output::write(file, svg(map)).map_err(|e| anyhow!("{}: {e}", file.display()))
}

fn svg(map: &Map) -> String {
    let mut body = String::new();
    let mut y = HEAD;
    for cells in map.cells.chunk_by(|a, b| a.start / ROW_BYTES == b.start / ROW_BYTES) {
        let row = cells[0].start & !(ROW_BYTES - 1);
        let _ = writeln!(
            body,
            "<text x=\"28\" y=\"{}\" {FONT} font-size=\"9\" fill=\"#8a939b\">{row:#x}</text>",
            y + ROW - 2
        );
        let like =
            |a: &Cell, b: &Cell| b.start == a.start + map.cell_bytes && colour(a) == colour(b);
        for same in cells.chunk_by(like) {
            let x = LEFT + (same[0].start - row) / map.cell_bytes * CELL;
            let _ = writeln!(
                body,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
                same.len() as u64 * CELL,
                ROW - 1,
                colour(&same[0])
            );
        }
        if cells.iter().any(|cell| cell.huge_page) {
            let x = LEFT + 128 * CELL + 6;
            let _ = writeln!(
                body,
                "<text x=\"{x}\" y=\"{}\" {FONT} font-size=\"9\">H</text>",
                y + ROW - 2
            );
        }
        y += ROW;
    }
    let mut head = String::new();
    let mut x = 28;
    for kind in Kind::ALL {
        let [red, green, blue] = hue(kind);
        let _ = writeln!(
            head,
            "<rect x=\"{x}\" y=\"52\" width=\"12\" height=\"12\" fill=\"#{red:02x}{green:02x}{blue:02x}\"/>\
             <text x=\"{}\" y=\"62\" {FONT} font-size=\"12\">{}</text>",
            x + 17,
            kind.name()
        );
        x += 95;
    }
    let bytes = amount(map.cells.len() as u64 * map.cell_bytes);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"28\" y=\"34\" {FONT} font-size=\"20\" fill=\"#222b33\">{}[{}]: {bytes}, a row for 2 MiB, a cell \
         for {}; paler: less of it is live; H: huge pages</text>\n{head}{body}</svg>\n",
        y + 20,
        escaped(&map.program),
        map.pid,
        amount(map.cell_bytes)
    )
}
