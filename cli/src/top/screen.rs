//! The frames on a terminal, by ratatui.
//!
//! The terminal is put back in every case: at the end, after an error, a panic (ratatui's hook), and after a signal
//! (SIGINT, SIGTERM or SIGHUP), which ends the loop. Ctrl-C is a key here, and Ctrl-Z does nothing.

use super::look::{Look, Watched};
use super::{show, EVERY};
use crate::screen::Screen;
use crate::system::interrupt;
use anyhow::{Context, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Sparkline};
use ratatui::{layout::Rect, symbols, DefaultTerminal, Frame};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// A signal is seen at most so late.
const STEP: Duration = Duration::from_millis(100);
/// Seconds of the resident set that the line below shows.
const HISTORY: usize = 512;

/// Whether there is a screen with room, and keys can be read.
pub fn is_there() -> bool {
    let room = terminal_size::terminal_size_of(io::stdout());
    io::stdin().is_terminal() && room.is_some_and(|(width, height)| width.0 > 0 && height.0 > 0)
}

/// Shows frames until a key, a signal or the end of the process ends it. Returns whether the process has ended.
pub fn run(
    watched: &mut Watched,
    first: Look,
    screen: Screen,
    frames: Option<u64>,
) -> Result<bool> {
    interrupt::listen();
    let mut terminal = ratatui::try_init().context("the terminal")?;
    let result = watch(&mut terminal, watched, first, screen, frames);
    ratatui::restore();
    result
}

fn watch(
    terminal: &mut DefaultTerminal,
    watched: &mut Watched,
    first: Look,
    screen: Screen,
    frames: Option<u64>,
) -> Result<bool> {
    let mut looks = (None, first);
    let mut history = vec![looks.1.explanation.rss_bytes()];
    let mut shown = 0;
    loop {
        terminal.draw(|frame| draw(frame, &looks.1, looks.0.as_ref(), &history, screen))?;
        shown += 1;
        if frames.is_some_and(|frames| shown >= frames) {
            return Ok(false);
        }
        let until = Instant::now() + EVERY;
        while Instant::now() < until {
            if interrupt::caught().is_some() {
                return Ok(false);
            }
            if !event::poll(STEP.min(until.saturating_duration_since(Instant::now())))? {
                continue;
            }
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let control = key.modifiers.contains(KeyModifiers::CONTROL);
                    match key.code {
                        KeyCode::Char('q') | KeyCode::Esc => return Ok(false),
                        KeyCode::Char('c') if control => return Ok(false),
                        _ => {}
                    }
                }
                Event::Resize(..) => {
                    terminal
                        .draw(|frame| draw(frame, &looks.1, looks.0.as_ref(), &history, screen))?;
                }
                _ => {}
            }
        }
        match watched.next()? {
            Some(next) => looks = (Some(looks.1), next),
            None => return Ok(true),
        }
        history.push(looks.1.explanation.rss_bytes());
        if history.len() > HISTORY {
            history.remove(0);
        }
    }
}

fn draw(frame: &mut Frame, look: &Look, before: Option<&Look>, history: &[u64], screen: Screen) {
    const LINE_ROWS: u16 = 3;
    let area = frame.area();
    let mut lines = show::lines(look, before, screen.unicode, area.width.into());
    if !screen.styles {
        lines = lines.iter().map(|line| Line::raw(line.to_string())).collect();
    }
    let rows = lines.len() as u16;
    frame.render_widget(Paragraph::new(lines), area);
    let last = area.height.saturating_sub(1);
    // The line of the resident set has room below the text, or is left out.
    if screen.unicode && rows + 1 + LINE_ROWS <= last {
        let newest = history.len().saturating_sub(area.width.into());
        let least = history[newest..].iter().min().copied().unwrap_or(0);
        // From nine tenths of the least: changes of a large process are small.
        let data: Vec<u64> = history[newest..].iter().map(|bytes| bytes - least / 10 * 9).collect();
        let line = Sparkline::default().data(&data).bar_set(symbols::bar::NINE_LEVELS);
        let style = Style::new().fg(if screen.styles { Color::Green } else { Color::Reset });
        let area = Rect { y: area.y + rows + 1, height: LINE_ROWS, ..area };
        frame.render_widget(line.style(style), area);
    }
    if last >= rows {
        let text = "q ends; every second; above: the resident set over time";
        let text = if screen.unicode { text } else { "q ends; every second" };
        frame.render_widget(Line::raw(text), Rect { y: area.y + last, height: 1, ..area });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    fn screen(unicode: bool) -> Screen {
        Screen { width: 80, unicode, moves: true, styles: false }
    }

    /// What is on a terminal of this size.
    fn shown(width: u16, height: u16, unicode: bool) -> String {
        let look = Watched::new(std::process::id() as i32).unwrap().look().unwrap();
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let history = [10 << 20, 11 << 20, look.explanation.rss_bytes()];
        terminal.draw(|frame| draw(frame, &look, None, &history, screen(unicode))).unwrap();
        let buffer = terminal.backend().buffer();
        buffer.content().iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn a_terminal_of_any_size_is_drawn() {
        for (width, height) in [(1, 1), (20, 3), (80, 5), (80, 24), (200, 60)] {
            let text = shown(width, height, false);
            assert_eq!(text.chars().count(), usize::from(width) * usize::from(height));
            assert!(text.is_ascii(), "{text}");
        }
        let text = shown(80, 40, true);
        assert!(text.contains("resident set") && text.contains("q ends"), "{text}");
        assert!(text.contains('█'), "{text}");
    }
}
