//! What a terminal or file that we write to can show: its width, characters and escape sequences.
//!
//! ```text
//!   width      the terminal's; else COLUMNS; else 80
//!   unicode    the locale has UTF-8 (LC_ALL, LC_CTYPE, LANG); always on Windows
//!   moves      a terminal that understands escape sequences (TERM is not dumb)
//!   styles     the same, and NO_COLOR is unset or empty
//! ```

use std::env;
use std::io::{self, IsTerminal};

/// The width of a screen that does not report one.
const WIDTH: usize = 80;
/// Smaller widths are not believed: the terminal does not know.
const WIDTH_LEAST: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    pub width: usize,
    pub unicode: bool,
    pub moves: bool,
    pub styles: bool,
}

impl Screen {
    pub fn stdout() -> Screen {
        let size = terminal_size::terminal_size_of(io::stdout());
        Screen::new(io::stdout().is_terminal(), size.map(|(width, _)| width.0.into()), variable)
    }

    pub fn stderr() -> Screen {
        let size = terminal_size::terminal_size_of(io::stderr());
        Screen::new(io::stderr().is_terminal(), size.map(|(width, _)| width.0.into()), variable)
    }

    fn new(
        terminal: bool,
        width: Option<usize>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Screen {
        let columns = || variable("COLUMNS")?.parse().ok();
        let wide = |width: &usize| *width >= WIDTH_LEAST;
        let width = width.filter(wide).or_else(|| columns().filter(wide)).unwrap_or(WIDTH);
        let moves = terminal && variable("TERM").as_deref() != Some("dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(&variable);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Screen {
            width,
            unicode: cfg!(windows) || locale.contains("utf-8") || locale.contains("utf8"),
            moves,
            styles: moves && variable("NO_COLOR").is_none(),
        }
    }

    /// The text in lines that fit. Of a line that does not, the rest begins two columns further to the right.
    pub fn wrapped(self, text: &str) -> String {
        text.lines().map(|line| wrapped(line, self.width)).collect::<Vec<_>>().join("\n")
    }

    /// "±", or "+-" in ASCII.
    pub fn plus_minus(self) -> &'static str {
        if self.unicode {
            "±"
        } else {
            "+-"
        }
    }
}

fn wrapped(line: &str, width: usize) -> String {
    let indent = line.len() - line.trim_start_matches(' ').len();
    broken(line, width, if indent + 2 <= width / 2 { indent + 2 } else { 0 })
}

/// Breaks a line at spaces, and a word that is wider than a line anywhere. `hang`: spaces before the rest.
pub fn broken(line: &str, width: usize, hang: usize) -> String {
    let (mut out, mut column, mut rest) = (String::new(), 0, line);
    while !rest.is_empty() {
        // A word with the spaces before it.
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        let end = rest[spaces..].find(' ').map_or(rest.len(), |end| spaces + end);
        let (mut word, behind) = rest.split_at(end);
        rest = behind;
        if column + word.chars().count() > width {
            word = &word[spaces..];
            if !out.is_empty() {
                column = width;
            }
        }
        for c in word.chars() {
            if column == width {
                out = out + "\n" + &" ".repeat(hang);
                column = hang;
            }
            out.push(c);
            column += 1;
        }
    }
    out
}

/// The variable's value, unless it is unset or empty.
fn variable(name: &str) -> Option<String> {
    env::var_os(name).map(|value| value.to_string_lossy().into_owned()).filter(|v| !v.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(terminal: bool, width: Option<usize>, variables: &[(&str, &str)]) -> Screen {
        Screen::new(terminal, width, |name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn a_width_is_the_terminals_or_80() {
        let width = |width, variables: &[_]| screen(true, width, variables).width;
        assert_eq!(width(None, &[]), 80);
        assert_eq!(width(Some(0), &[]), 80, "a serial line does not know");
        assert_eq!(width(Some(132), &[("COLUMNS", "60")]), 132);
        assert_eq!(width(None, &[("COLUMNS", "60")]), 60);
        assert_eq!(width(None, &[("COLUMNS", "wide")]), 80);
    }

    #[test]
    fn lines_break_at_spaces_and_nothing_is_lost() {
        assert_eq!(wrapped("short", 20), "short");
        assert_eq!(wrapped("", 20), "");
        assert_eq!(wrapped("  a  b     c d", 9), "  a  b\n    c d");
        assert_eq!(wrapped("aaa bbbbbbbbbb cc", 6), "aaa\n  bbbb\n  bbbb\n  bb\n  cc");
        let text = "Rounding of requests to block sizes is not known, since /a/very/long/path/of/a/file is äöü.";
        for width in 20..100 {
            let lines = wrapped(text, width);
            assert!(lines.lines().all(|line| line.chars().count() <= width), "{lines}");
            let plain = |text: &str| text.replace([' ', '\n'], "");
            assert_eq!(plain(&lines), plain(text));
        }
    }

    #[test]
    #[cfg(unix)]
    fn the_first_locale_that_is_set_decides() {
        let unicode = |variables: &[_]| screen(true, None, variables).unicode;
        assert!(!unicode(&[]), "the C locale");
        assert!(unicode(&[("LANG", "de_DE.UTF-8")]) && unicode(&[("LC_CTYPE", "C.utf8")]));
        assert!(!unicode(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(unicode(&[("LC_ALL", "C.UTF-8"), ("LANG", "C")]));
    }

    #[test]
    fn escape_sequences_are_for_terminals_that_want_them() {
        let both = |terminal, variables: &[_]| {
            let screen = screen(terminal, None, variables);
            (screen.moves, screen.styles)
        };
        assert_eq!(both(true, &[("TERM", "xterm")]), (true, true));
        assert_eq!(both(false, &[("TERM", "xterm")]), (false, false));
        assert_eq!(both(true, &[("TERM", "dumb")]), (false, false));
        assert_eq!(both(true, &[("TERM", "xterm"), ("NO_COLOR", "1")]), (true, false));
    }
}
