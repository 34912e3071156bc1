//! The lines of a frame.

use super::look::Look;
use crate::explain::show::limits;
use crate::explain::{Explanation, Part};
use crate::size::{amount, counted, percent};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Block sizes and functions that are shown.
const CLASSES: usize = 8;
const NAME_LEAST: usize = 20;
const BAR: usize = 24;

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().fg(Color::DarkGray);

fn colour(part: Part) -> Style {
    match part {
        part if part <= Part::LiveCollected => Style::new().fg(Color::Green),
        part if part.of_glebe() => Style::new().fg(Color::Yellow),
        _ => Style::new().fg(Color::Blue),
    }
}

/// Bytes a second, with their sign.
fn change(now: u64, before: Option<u64>, seconds: f64) -> String {
    let Some(before) = before else { return String::new() };
    let each = (now.abs_diff(before) as f64 / seconds) as u64;
    match now.cmp(&before) {
        _ if each < 1024 => String::new(),
        std::cmp::Ordering::Less => format!("-{}/s", amount(each)),
        _ => format!("+{}/s", amount(each)),
    }
}

fn live_resident(e: &Explanation) -> u64 {
    Part::ALL.iter().filter(|part| **part <= Part::LiveCollected).map(|part| e.part(*part)).sum()
}

/// Text of a look, with the changes since the look before. No line is wider than `width`.
pub fn lines(
    look: &Look,
    before: Option<&Look>,
    unicode: bool,
    width: usize,
) -> Vec<Line<'static>> {
    let e = &look.explanation;
    let seconds = before.map_or(1.0, |before| (look.at - before.at).as_secs_f64().max(0.001));
    let mut lines = vec![head(look)];
    if let Some(before) = before {
        let each = |now: u64, was: u64| now.saturating_sub(was) as f64 / seconds;
        // The kernel counts in hundredths of a second, whatever the machine.
        let cpu = each(look.cpu_ticks, before.cpu_ticks);
        let faults = each(look.faults, before.faults);
        lines.push(Line::from(format!("  {cpu:.0} % CPU, {faults:.0} page faults/s")));
    }
    let rss = e.rss_bytes();
    let row = |name: &str, bytes: u64, was: Option<u64>, style: Style| {
        let share = percent(bytes, rss);
        let bar =
            if unicode { "█" } else { "#" }.repeat((share / 100.0 * BAR as f64).round() as usize);
        Line::from(vec![
            Span::raw(format!("  {name:<26}{:>12}{:>7.1} % ", amount(bytes), share)),
            Span::styled(format!("{bar:<BAR$}"), style),
            Span::raw(format!(" {}", change(bytes, was, seconds))),
        ])
    };
    lines.push(row("resident set", rss, before.map(|b| b.explanation.rss_bytes()), HEAD));
    for part in Part::ALL {
        let was = before.map(|before| before.explanation.part(part));
        if e.part(part) > 0 || was.is_some_and(|was| was > 0) {
            lines.push(row(part.text(), e.part(part), was, colour(part)));
        }
    }
    if e.swap_bytes > 0 {
        lines.push(Line::from(format!("  {:<26}{:>12}", "and in swap", amount(e.swap_bytes))));
    }
    for limit in limits(e) {
        lines.push(Line::from(format!("  limit: {}", limit.text())));
    }
    if e.glebes.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled(
            "  No glebe is in this process: the parts are what the kernel knows.",
            FAINT,
        ));
    }
    classes(look, before, &mut lines);
    sites(look, width, &mut lines);
    for line in &mut lines {
        fit(line, width);
    }
    lines
}

fn head(look: &Look) -> Line<'static> {
    let e = &look.explanation;
    let threads = counted(look.threads as usize, "thread");
    let mut text =
        format!("peak {}, live {}, {}", amount(e.peak_bytes), amount(live_resident(e)), threads);
    if e.glebes.is_empty() {
        text = format!("peak {}, {threads}", amount(e.peak_bytes));
    }
    if let Some(heaps) = look.heaps {
        text += &format!(", {}", counted(heaps as usize, "heap"));
    }
    let name = format!("{}[{}]", e.program, e.pid);
    Line::from(vec![Span::styled(name, HEAD), Span::raw(": "), Span::raw(text)])
}

/// Sizes of blocks with the most resident memory.
fn classes(look: &Look, before: Option<&Look>, lines: &mut Vec<Line<'static>>) {
    let e = &look.explanation;
    let mut rows: Vec<_> =
        e.classes.iter().filter(|(_, class)| class.live_bytes + class.free_bytes > 0).collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|(_, class)| std::cmp::Reverse(class.live_bytes + class.free_bytes));
    lines.push(Line::default());
    lines.push(Line::styled(
        format!(
            "  {:>11} {:>12} {:>13} {:>14} {:>14}",
            "block bytes", "live blocks", "live", "free in pages", "blocks/s"
        ),
        HEAD,
    ));
    for (each, class) in rows.iter().take(CLASSES) {
        let was = before.and_then(|before| before.explanation.classes.get(each));
        let growth = match (before, was) {
            (Some(before), was) => {
                let seconds = (look.at - before.at).as_secs_f64().max(0.001);
                let was = was.map_or(0, |was| was.blocks);
                let rate = (class.blocks as f64 - was as f64) / seconds;
                if rate.abs() < 0.5 {
                    String::new()
                } else {
                    format!("{rate:+.0}")
                }
            }
            _ => String::new(),
        };
        let each = if **each == 0 { "many".into() } else { each.to_string() };
        let (live, free) = (amount(class.live_bytes), amount(class.free_bytes));
        lines.push(Line::from(format!(
            "  {each:>11} {:>12} {live:>13} {free:>14} {growth:>14}",
            class.blocks
        )));
    }
}

/// The callers, if the process samples.
fn sites(look: &Look, width: usize, lines: &mut Vec<Line<'static>>) {
    let Some(sites) = &look.sites else { return };
    lines.push(Line::default());
    let rate = match sites.rate {
        Some(rate) => format!(", {}/s allocated", amount(rate as u64)),
        None => String::new(),
    };
    lines.push(Line::styled(
        format!(
            "  {:>11} live by caller{rate}; sampled {:.0} s ago",
            amount(sites.live_bytes),
            sites.age_s
        ),
        HEAD,
    ));
    let room = width.saturating_sub(14).max(NAME_LEAST);
    for (name, bytes) in &sites.functions {
        let name: String = name.chars().take(room).collect();
        lines.push(Line::from(format!("  {:>11} {name}", amount(*bytes))));
    }
}

/// Cuts a line off at the width.
fn fit(line: &mut Line<'static>, width: usize) {
    let mut left = width;
    for span in &mut line.spans {
        let count = span.content.chars().count();
        if count > left {
            span.content = span.content.chars().take(left).collect::<String>().into();
        }
        left = left.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use super::super::look::{Sites, Watched};
    use super::*;
    use std::time::Duration;

    fn own() -> Look {
        Watched::new(std::process::id() as i32).unwrap().look().unwrap()
    }

    #[test]
    fn changes_are_a_second() {
        assert_eq!(change(5 << 20, Some(3 << 20), 2.0), "+1.0 MiB/s");
        assert_eq!(change(0, Some(3 << 20), 1.0), "-3.0 MiB/s");
        assert_eq!(change(5, Some(3), 1.0), "");
        assert_eq!(change(5, None, 1.0), "");
    }

    #[test]
    fn lines_fit_and_are_ascii_where_they_must() {
        let (before, mut after) = (own(), own());
        after.at = before.at + Duration::from_secs(1);
        after.sites = Some(Sites {
            rate: Some(3e6),
            live_bytes: 5 << 20,
            functions: vec![("a_function_with_quite_a_long_name".repeat(4), 4 << 20)],
            age_s: 0.4,
        });
        for width in [20, 40, 80, 132] {
            for line in lines(&after, Some(&before), false, width) {
                let text = line.to_string();
                assert!(text.chars().count() <= width && text.is_ascii(), "{width}: {text}");
            }
        }
        let all = lines(&after, Some(&before), true, 80);
        let text: Vec<String> = all.iter().map(Line::to_string).collect();
        let text = text.join("\n");
        assert!(text.contains('█') && text.contains("faults/s"), "{text}");
        assert!(text.contains("5.0 MiB live by caller, 2.8 MiB/s allocated"), "{text}");
        assert!(text.contains("No glebe is in this process"), "{text}");
    }
}
