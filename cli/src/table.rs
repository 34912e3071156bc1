//! Tables of texts that fit the screen.
//!
//! ```text
//!   all columns fit                  one table
//!   the names are too wide           they are broken into lines
//!   still too wide                   several tables, each with the names
//! ```

use crate::screen::{broken, Screen};
use comfy_table::{presets, Cell, CellAlignment, ContentArrangement, Table};

/// Names are broken into lines of at least so many characters.
const NAME_COLUMNS: usize = 16;
/// What a column takes besides its text; the table takes one more.
const BESIDE: usize = 3;

/// The texts of a table. Column `name` is on the left, and its texts may be broken; the others are on the right.
pub struct Texts<'a> {
    pub head: &'a [&'a str],
    pub rows: Vec<Vec<String>>,
    pub name: usize,
}

/// Divides columns over as few tables as fit. `build` makes a table of some columns, unless that is too wide; `anyway`
/// makes one of a single column.
pub fn divided<C, T>(
    columns: &[C],
    build: impl Fn(&[C]) -> Option<T>,
    anyway: impl Fn(&[C]) -> T,
) -> Vec<T> {
    let mut tables = Vec::new();
    let mut rest = columns;
    while !rest.is_empty() {
        let most = (1..=rest.len()).rev().find_map(|n| Some((build(&rest[..n])?, n)));
        let (next, n) = most.unwrap_or_else(|| (anyway(&rest[..1]), 1));
        tables.push(next);
        rest = &rest[n..];
    }
    tables
}

impl Texts<'_> {
    /// The table, or several of them, one below the other.
    pub fn table(&self, screen: Screen) -> String {
        let others: Vec<usize> = (0..self.head.len()).filter(|i| *i != self.name).collect();
        let fits = |some: &[usize]| Some(self.of(some, self.room(some, screen)?, screen));
        let anyway = |some: &[usize]| self.of(some, NAME_COLUMNS, screen);
        divided(&others, fits, anyway).join("\n")
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        cells.chain([self.head[column]]).map(|text| text.chars().count()).max().unwrap_or(0)
    }

    /// The columns that are left for names beside these; None if they are too few.
    fn room(&self, some: &[usize], screen: Screen) -> Option<usize> {
        let taken: usize = some.iter().map(|i| self.width_of(*i) + BESIDE).sum();
        let left = screen.width.checked_sub(taken + BESIDE + 1)?;
        (left >= self.width_of(self.name).min(NAME_COLUMNS)).then_some(left)
    }

    fn of(&self, some: &[usize], name_columns: usize, screen: Screen) -> String {
        let columns: Vec<usize> =
            (0..self.head.len()).filter(|i| *i == self.name || some.contains(i)).collect();
        let mut table = Table::new();
        table.load_preset(match screen.unicode {
            true => presets::UTF8_BORDERS_ONLY,
            false => presets::ASCII_BORDERS_ONLY_CONDENSED,
        });
        table.set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
        let cell = |text: &str, i: usize| match i == self.name {
            true => Cell::new(broken(text, name_columns, 0)).set_alignment(CellAlignment::Left),
            false => Cell::new(text).set_alignment(CellAlignment::Right),
        };
        table.set_header(columns.iter().map(|i| cell(self.head[*i], *i)));
        for row in &self.rows {
            table.add_row(columns.iter().map(|i| cell(&row[*i], *i)));
        }
        table.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_at_spaces() {
        assert_eq!(broken("768 KiB to 1.00 MiB", 14, 0), "768 KiB to\n1.00 MiB");
        assert_eq!(broken("äöüß::long and", 4, 0), "äöüß\n::lo\nng\nand");
        assert_eq!(broken("main", 4, 0), "main");
    }

    #[test]
    fn tables_fit_and_nothing_is_lost() {
        let name = "a_function_with_a_very_long_name::and_more<of_it>";
        let row = |name: &str| ["1234.5 MiB", "12.3 %", "123456789", name].map(String::from);
        let rows = vec![row(name).to_vec(), row("main").to_vec()];
        let texts = Texts { head: &["bytes", "share", "blocks", "function"], rows, name: 3 };
        for (width, unicode) in (36..130).flat_map(|width| [(width, false), (width, true)]) {
            let text = texts.table(Screen { width, unicode, moves: false, styles: false });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
            for word in ["1234.5 MiB", "12.3 %", "123456789", "main", "a_function_with_"] {
                assert!(text.contains(word), "{word} in {width}\n{text}");
            }
            let letters = text.chars().filter(char::is_ascii_alphabetic).count();
            assert!(letters >= name.chars().filter(char::is_ascii_alphabetic).count());
            assert_eq!(text.is_ascii(), !unicode);
            assert_eq!(text.contains(name), width >= 87, "{width}\n{text}");
        }
    }
}
