//! The progress of a comparison: a bar on a terminal, short lines elsewhere, nothing with `--quiet`.
//!
//! It goes to stderr, so that tables and JSON stay clean. With `--show-output` the program writes to the same screen
//! and would break a bar, so we print lines.

use crate::args::CompareOptions;
use crate::screen::Screen;
use crate::words;
use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
}

const COLOURED: &str = "  {bar:24.green} {pos}/{len}  {msg}  {elapsed} gone, {eta} to go";
const PLAIN: &str = "  {bar:24} {pos}/{len}  {msg}  {elapsed} gone, {eta} to go";

impl Progress {
    pub fn new(options: &CompareOptions, contenders: usize) -> Progress {
        let screen = Screen::stderr();
        let bar = screen.moves && !options.quiet && !options.show_output;
        let bar = bar.then(|| {
            let bar = ProgressBar::new((u64::from(options.runs) + 1) * contenders as u64);
            bar.set_style(style(screen));
            bar
        });
        Progress { lines: bar.is_none() && !options.quiet, bar }
    }

    /// Shows the run that starts now.
    pub fn step(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_string());
        }
    }

    /// Counts a run that has ended.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Prints a milestone if there is no bar.
    pub fn line(&self, text: &str) {
        if self.lines {
            words::say(text);
        }
    }

    /// Prints a line, with or without a bar.
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

fn style(screen: Screen) -> ProgressStyle {
    let template = if screen.styles { COLOURED } else { PLAIN };
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    if screen.unicode {
        style
    } else {
        style.progress_chars("#-.")
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_templates_parse() {
        for template in [super::COLOURED, super::PLAIN] {
            assert!(indicatif::ProgressStyle::with_template(template).is_ok());
        }
    }
}
