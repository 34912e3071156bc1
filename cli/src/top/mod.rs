//! `glebe top`: the memory of a process, refreshed each second.
//!
//! ```text
//!   look     one look at the process: explain's parts, /proc, the profile      show   the lines of a frame
//!   screen   ratatui draws them, and reads keys                                mod    text without a terminal
//! ```
//!
//! Terminal and text show the same lines, so the tests of the text cover both.

mod look;
mod options;
mod screen;
mod show;

pub use options::Options;

use crate::screen::Screen;
use crate::stop::Ending;
use crate::words::{can_print, print, say};
use anyhow::Result;
pub use look::Sites;
use look::{Look, Watched};
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);

/// Runs the command.
pub fn top(options: &Options) -> Result<Ending> {
    can_print()?;
    let screen = Screen::stdout();
    let mut watched = Watched::new(options.pid)?;
    // What fails at first is an error; later it is the end of the process.
    let first = watched.look()?;
    let ended = if screen.moves && screen::is_there() {
        screen::run(&mut watched, first, screen, options.frames)?
    } else {
        text(&mut watched, first, screen, options.frames.unwrap_or(1))?
    };
    // Said when the prompt's screen is back.
    if ended {
        say(format!("{} has ended", watched.name()));
    }
    Ok(Ending::Exit(0))
}

/// Frames as text, with an empty line between two. Returns whether the process has ended.
fn text(watched: &mut Watched, first: Look, screen: Screen, frames: u64) -> Result<bool> {
    let mut looks = (None, first);
    for frame in 1..=frames {
        if frame > 1 {
            std::thread::sleep(EVERY);
            let Some(next) = watched.next()? else { return Ok(true) };
            looks = (Some(looks.1), next);
            print("")?;
        }
        let lines = show::lines(&looks.1, looks.0.as_ref(), screen.unicode, screen.width);
        let text: Vec<String> =
            lines.iter().map(|line| line.to_string().trim_end().to_string()).collect();
        print(text.join("\n"))?;
    }
    Ok(false)
}

impl Watched {
    /// The next look; None if the process has ended.
    fn next(&mut self) -> Result<Option<Look>> {
        match self.look() {
            Ok(look) => Ok(Some(look)),
            Err(_) if self.has_ended() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
