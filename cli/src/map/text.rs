//! The map on a terminal, and as JSON.
//!
//! ```text
//!   glebe: half[4711]: 110.0 MiB in 2 MiB rows, a character for 32 KiB
//!   0x13e000000000  ssssssssssssSSSS....mmLLLL rrrr          capitals: at least half full
//! ```

use super::{Cell, Kind, Map};
use crate::size::amount;
use serde_json::json;
use std::env;
use std::fmt::Write;
use std::io::{stdout, IsTerminal};

/// Two slices for a character: a row has 64, and is 2 MiB.
const CELLS_OF_ONE: usize = 2;
const ROW_BYTES: u64 = 2 << 20;
/// More rows with nothing in them are one line.
const SAME_ROWS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Ascii,
    Blocks,
    Colours,
}

impl Style {
    /// Of the standard output.
    pub fn of_terminal() -> Style {
        let value = |name| env::var(name).unwrap_or_default();
        let locale =
            ["LC_ALL", "LC_CTYPE", "LANG"].map(value).into_iter().find(|value| !value.is_empty());
        let utf8 = locale
            .is_some_and(|locale| locale.to_ascii_uppercase().replace('-', "").contains("UTF8"));
        if !utf8 || value("TERM") == "dumb" {
            Style::Ascii
        } else if stdout().is_terminal() && env::var_os("NO_COLOR").is_none() {
            Style::Colours
        } else {
            Style::Blocks
        }
    }
}

/// The character of a cell, and its colour (SGR).
fn drawn(cell: &Cell, style: Style) -> (char, u8) {
    let full = cell.live >= 50;
    let (letter, colour) = match cell.kind {
        Kind::Small => ('s', 32),
        Kind::Medium => ('m', 36),
        Kind::Large => ('l', 34),
        Kind::Huge => ('h', 35),
        Kind::Collected => ('c', 33),
        Kind::Retained => ('r', 31),
        Kind::Clean => (if cell.resident > 0 { '+' } else { '.' }, 90),
        Kind::Guard => ('|', 90),
    };
    let live = matches!(cell.kind, Kind::Small | Kind::Medium | Kind::Large | Kind::Huge);
    match style {
        _ if live && cell.holes => ('o', colour),
        Style::Ascii if live && full => (letter.to_ascii_uppercase(), colour),
        Style::Colours if live => {
            (['░', '▒', '▓', '█'][usize::from(cell.live.min(99) / 25)], colour)
        }
        Style::Blocks if live && full => (letter.to_ascii_uppercase(), colour),
        Style::Blocks | Style::Colours if cell.kind == Kind::Clean => {
            (if cell.resident > 0 { '+' } else { '·' }, colour)
        }
        _ => (letter, colour),
    }
}

fn legend(style: Style) -> &'static str {
    match style {
        Style::Colours => {
            "green small, cyan medium, blue large, magenta huge, yellow collected; ░▒▓█ how full; o has holes; red r \
             retained; + free but resident, · free"
        }
        _ => {
            "s small, m medium, l large, h huge (capitals: at least half of it live); o has holes; c collected; \
             r retained; + free but resident; . free; | guard; * at the end: huge pages"
        }
    }
}

pub fn text(map: &Map, style: Style) -> String {
    let bytes = map.cells.len() as u64 * map.cell_bytes;
    let mut out =
        format!("glebe: {}[{}]: {} in rows of 2 MiB, ", map.program, map.pid, amount(bytes));
    let _ = write!(
        out,
        "a character for {}\n{}",
        amount(CELLS_OF_ONE as u64 * map.cell_bytes),
        legend(style)
    );
    let mut rows: Vec<(u64, String, String)> = Vec::new();
    for cells in map.cells.chunk_by(|a, b| a.start / ROW_BYTES == b.start / ROW_BYTES) {
        let (plain, shown) = row(cells, map.cell_bytes, style);
        rows.push((cells[0].start & !(ROW_BYTES - 1), plain, shown));
    }
    for same in rows.chunk_by(|a, b| a.1 == b.1 && b.0 >= a.0) {
        let _ = write!(out, "\n{:#014x}  {}", same[0].0, same[0].2);
        if same.len() > SAME_ROWS {
            let _ = write!(out, "\n                and {} more rows like it", same.len() - 1);
        } else {
            for other in &same[1..] {
                let _ = write!(out, "\n{:#014x}  {}", other.0, other.2);
            }
        }
    }
    out
}

/// A row without and with colours. Of the cells of a character, the one with the most live bytes is shown.
fn row(cells: &[Cell], cell_bytes: u64, style: Style) -> (String, String) {
    let place = |cell: &Cell| (cell.start % ROW_BYTES / cell_bytes) as usize / CELLS_OF_ONE;
    let (mut plain, mut shown) = (String::new(), String::new());
    let mut colour_now = 0;
    for of_one in cells.chunk_by(|a, b| place(a) == place(b)) {
        let Some(cell) = of_one.iter().max_by_key(|cell| (cell.live, cell.resident)) else {
            continue;
        };
        while plain.chars().count() < place(cell) {
            plain.push(' ');
            shown.push(' ');
        }
        let (letter, colour) = drawn(cell, style);
        if style == Style::Colours && colour != colour_now {
            let _ = write!(shown, "\x1b[{colour}m");
            colour_now = colour;
        }
        plain.push(letter);
        shown.push(letter);
    }
    if style == Style::Colours {
        shown += "\x1b[0m";
    }
    if cells.iter().any(|cell| cell.huge_page) {
        plain.push_str(" *");
        shown.push_str(" *");
    }
    (plain, shown)
}

/// All cells, neighbours that are alike as one.
pub fn json(map: &Map) -> String {
    let like = |a: &Cell, b: &Cell| {
        Cell { start: 0, ..*a } == Cell { start: 0, ..*b } && b.start == a.start + map.cell_bytes
    };
    let cells: Vec<_> = map
        .cells
        .chunk_by(like)
        .map(|same| {
            let cell = &same[0];
            json!({
                "address": cell.start,
                "bytes": same.len() as u64 * map.cell_bytes,
                "kind": cell.kind.name(),
                "live_percent": cell.live,
                "resident_percent": cell.resident,
                "holes": cell.holes,
                "block_bytes": cell.block_bytes,
                "huge_page": cell.huge_page,
            })
        })
        .collect();
    json!({"program": map.program, "pid": map.pid, "slice_bytes": map.cell_bytes, "runs": cells})
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: Cell = Cell {
        start: 0,
        kind: Kind::Small,
        live: 80,
        resident: 100,
        holes: false,
        block_bytes: 48,
        huge_page: false,
    };

    #[test]
    fn ascii_is_ascii_and_says_how_full() {
        let cell = |i: u64, kind, live| Cell { start: (3 << 21) + (i << 15), kind, live, ..CELL };
        let cells = vec![
            cell(0, Kind::Small, 80),
            cell(1, Kind::Medium, 10),
            cell(2, Kind::Retained, 0),
            Cell { resident: 0, ..cell(5, Kind::Clean, 0) },
            Cell { holes: true, huge_page: true, ..cell(6, Kind::Small, 10) },
        ];
        let map = Map { program: "p".into(), pid: 7, cells, cell_bytes: 1 << 14 };
        let text = text(&map, Style::Ascii);
        assert!(text.is_ascii());
        assert!(text.ends_with("0x000000600000  Smr  .o *"), "{text}");
    }

    #[test]
    fn rows_that_are_alike_are_counted() {
        let cells = (0..10).map(|i| Cell { start: i << 21, ..CELL }).collect();
        let map = Map { program: "p".into(), pid: 7, cells, cell_bytes: 1 << 14 };
        assert!(text(&map, Style::Ascii).ends_with("and 9 more rows like it"));
    }
}
