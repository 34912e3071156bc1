//! The map on a terminal, and as JSON.
//!
//! ```text
//!   glebe: half[4711]: 110.0 MiB in rows of 2.0 MiB, a character for 32.0 KiB
//!   0x13e000000000* ssssssssssssSSSS....mmLLLL rrrr          capitals: at least half full
//! ```

use super::{Cell, Kind, Map};
use crate::screen::Screen;
use crate::size::amount;
use serde_json::json;
use std::fmt::Write;

/// Two slices for a character: a row of 2 MiB has 64.
const CELLS_OF_ONE: u64 = 2;
const ROW_BYTES: u64 = 2 << 20;
/// An address, and whether its 2 MiB asked for a huge page.
const HEAD_COLUMNS: usize = 16;
/// More rows with nothing in them are one line.
const SAME_ROWS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Ascii,
    Letters,
    Colours,
}

impl Style {
    fn of(screen: Screen) -> Style {
        match screen {
            Screen { unicode: false, .. } => Style::Ascii,
            Screen { styles: true, .. } => Style::Colours,
            _ => Style::Letters,
        }
    }
}

/// The character of free memory that is not resident.
fn free(style: Style) -> char {
    if style == Style::Ascii {
        '.'
    } else {
        '·'
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
        Kind::Clean => (if cell.resident > 0 { '+' } else { free(style) }, 90),
        Kind::Guard => ('|', 90),
    };
    let live = matches!(cell.kind, Kind::Small | Kind::Medium | Kind::Large | Kind::Huge);
    match style {
        _ if live && cell.holes => ('o', colour),
        Style::Colours if live => {
            (['░', '▒', '▓', '█'][usize::from(cell.live.min(99) / 25)], colour)
        }
        _ if live && full => (letter.to_ascii_uppercase(), colour),
        _ => (letter, colour),
    }
}

fn legend(style: Style) -> String {
    let kinds = match style {
        Style::Colours => {
            "green small, cyan medium, blue large, magenta huge, yellow c collected; ░▒▓█ how full"
        }
        _ => "s small, m medium, l large, h huge (capitals: at least half of it live); c collected",
    };
    let free = free(style);
    format!(
        "{kinds}; o has holes; r retained; + free but resident; {free} free; | guard; * at an address: huge pages"
    )
}

/// The bytes of a row: the most that fit, as a power of two.
fn row_bytes(width: usize, cell_bytes: u64) -> u64 {
    let one = CELLS_OF_ONE * cell_bytes;
    let columns = (width.saturating_sub(HEAD_COLUMNS) as u64).min(ROW_BYTES / one).max(1);
    one << columns.ilog2()
}

pub fn text(map: &Map, screen: Screen) -> String {
    let style = Style::of(screen);
    let bytes = map.cells.len() as u64 * map.cell_bytes;
    let row_bytes = row_bytes(screen.width, map.cell_bytes);
    let head = format!(
        "glebe: {}[{}]: {} in rows of {}, a character for {}",
        map.program,
        map.pid,
        amount(bytes),
        amount(row_bytes),
        amount(CELLS_OF_ONE * map.cell_bytes),
    );
    let mut out = screen.wrapped(&head) + "\n" + &screen.wrapped(&legend(style));
    let mut rows: Vec<(u64, String, String)> = Vec::new();
    for cells in map.cells.chunk_by(|a, b| a.start / row_bytes == b.start / row_bytes) {
        let (plain, shown) = row(cells, map.cell_bytes, row_bytes, style);
        rows.push((cells[0].start & !(row_bytes - 1), plain, shown));
    }
    for same in rows.chunk_by(|a, b| a.1 == b.1 && b.0 >= a.0) {
        let _ = write!(out, "\n{:#014x}{}", same[0].0, same[0].2);
        if same.len() > SAME_ROWS {
            let more = format!("and {} more rows like it", same.len() - 1);
            out = out + "\n" + &screen.wrapped(&format!("{:HEAD_COLUMNS$}{more}", ""));
        } else {
            for other in &same[1..] {
                let _ = write!(out, "\n{:#014x}{}", other.0, other.2);
            }
        }
    }
    out
}

/// A row without and with colours. Of the cells of a character, the one with the most live bytes is shown.
fn row(cells: &[Cell], cell_bytes: u64, row_bytes: u64, style: Style) -> (String, String) {
    let place = |cell: &Cell| (cell.start % row_bytes / cell_bytes / CELLS_OF_ONE) as usize;
    let huge_page = if cells.iter().any(|cell| cell.huge_page) { "* " } else { "  " };
    let (mut plain, mut shown) = (huge_page.to_string(), huge_page.to_string());
    let mut colour_now = 0;
    for of_one in cells.chunk_by(|a, b| place(a) == place(b)) {
        let Some(cell) = of_one.iter().max_by_key(|cell| (cell.live, cell.resident)) else {
            continue;
        };
        while plain.chars().count() < huge_page.len() + place(cell) {
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

    const ASCII: Screen = Screen { width: 80, unicode: false, moves: false, styles: false };

    fn one_line(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rows_fit_the_screen_and_nothing_is_lost() {
        let cells: Vec<_> =
            (0..128).map(|i| Cell { start: i << 14, huge_page: true, ..CELL }).collect();
        let map = Map { program: "p".into(), pid: 7, cells, cell_bytes: 1 << 14 };
        for (width, rows, of) in [
            (usize::MAX, 1, "2.0 MiB"),
            (200, 1, "2.0 MiB"),
            (80, 1, "2.0 MiB"),
            (79, 2, "1.0 MiB"),
            (20, 16, "128.0 KiB"),
        ] {
            let text = text(&map, Screen { width, ..ASCII });
            assert!(text.lines().all(|line| line.len() <= width), "{text}");
            assert!(one_line(&text).contains(&format!("in rows of {of}")), "{text}");
            let alike = one_line(&text).contains(&format!("and {} more rows like it", rows - 1));
            let shown = text.lines().filter(|line| line.starts_with("0x")).count();
            assert!(if rows > SAME_ROWS { alike && shown == 1 } else { shown == rows }, "{text}");
        }
    }

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
        let screen = ASCII;
        let ascii = text(&map, screen);
        assert!(ascii.is_ascii());
        assert!(ascii.ends_with("0x000000600000* Smr  .o"), "{ascii}");
        // The legend has each character of the map.
        for (screen, free) in [
            (screen, '.'),
            (Screen { unicode: true, ..screen }, '·'),
            (Screen { unicode: true, styles: true, ..screen }, '·'),
        ] {
            let text = text(&map, screen);
            let row = text.lines().last().unwrap();
            assert!(row.contains(free), "{text}");
            assert!(one_line(&text).contains(&format!("; {free} free; | guard; * at")));
        }
    }

    #[test]
    fn rows_that_are_alike_are_counted() {
        let cells = (0..10).map(|i| Cell { start: i << 21, ..CELL }).collect();
        let map = Map { program: "p".into(), pid: 7, cells, cell_bytes: 1 << 14 };
        assert!(text(&map, ASCII).ends_with("and 9 more rows like it"));
    }
}
