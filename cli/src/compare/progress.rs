//! How far a comparison is: a bar on a terminal, short lines elsewhere, nothing with `--quiet`.
//!
//! Always on stderr, so that tables and JSON stay clean. With `--show-output` the program owns the
//! screen, and a bar would be torn by it.

use crate::args::CompareOptions;
use crate::words;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};

pub struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
}

const STYLE: &str = "  {bar:36.green} {pos}/{len}  {msg}  {elapsed} gone, {eta} to go";

impl Progress {
    pub fn new(options: &CompareOptions, contenders: usize) -> Progress {
        let bar = io::stderr().is_terminal() && !options.quiet && !options.show_output;
        let bar = bar.then(|| {
            let bar = ProgressBar::new((u64::from(options.runs) + 1) * contenders as u64);
            bar.set_style(style());
            bar
        });
        Progress { lines: bar.is_none() && !options.quiet, bar }
    }

    /// What is going on now.
    pub fn step(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_string());
        }
    }

    /// One run has ended.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A milestone, for those who see no bar.
    pub fn line(&self, text: &str) {
        if self.lines {
            words::say(text);
        }
    }

    /// Something that must be seen whatever is shown.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("glebe: {text}")),
            None => words::say(text),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template(STYLE).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_parses() {
        assert!(indicatif::ProgressStyle::with_template(super::STYLE).is_ok());
    }
}
