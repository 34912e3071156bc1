//! A flame graph as one SVG file: `glebe profile --svg`.
//!
//! A frame's width is its share of the bytes, and the frames below it are what it called. Frames with the same callers
//! are one. Of two profiles a frame has the larger of both sizes, so that what is gone stays visible.
//!
//! ```text
//!   ┌─────────────────── all ────────────────────┐      red    grew
//!   ├───────────── main ─────────────┬── start ──┤      blue   shrank
//!   ├── parse ──┬──── load ────┬─────┘           │      the gap below a frame: its own blocks
//! ```

use super::stacks::{Stacks, NO_CALLERS};
use crate::picture::FONT;
use crate::size::amount;
use anyhow::Result;
use std::collections::HashMap;
use std::path::Path;
use svg::node::element::{Group, Rectangle, Style, Text, Title};
use svg::Document;

const WIDTH: f64 = 1200.0;
const EDGE: f64 = 10.0;
const HEAD: f64 = 62.0;
const ROW: f64 = 17.0;
/// Narrower frames are left out: nobody could see them.
const WIDTH_LEAST: f64 = 0.3;
/// Of a letter of the fixed-width font, with some room.
const LETTER: f64 = 6.7;
const LETTER_SIZE: u32 = 11;

/// A frame with all its callers. The first is the root.
struct Frame {
    name: u32,
    /// Before and after; of one profile only the second.
    bytes: [u64; 2],
    /// Sum of the sizes that the picture shows.
    size: u64,
    below: Vec<usize>,
}

struct Tree {
    names: Vec<String>,
    frames: Vec<Frame>,
}

impl Tree {
    fn new(before: Option<&Stacks>, after: &Stacks) -> Tree {
        let mut tree = Tree { names: Vec::new(), frames: Vec::new() };
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut found: HashMap<(usize, u32), usize> = HashMap::new();
        let mut own: Vec<[u64; 2]> = Vec::new();
        let mut above: Vec<usize> = Vec::new();
        let mut number = |tree: &mut Tree, name| {
            *numbers.entry(name).or_insert_with(|| {
                tree.names.push(String::from(name));
                tree.names.len() as u32 - 1
            })
        };
        let all = number(&mut tree, "all");
        tree.frames.push(Frame::new(all));
        own.push([0; 2]);
        above.push(0);
        let sides = [before, Some(after)].into_iter().enumerate();
        for (side, stacks) in sides.filter_map(|(side, stacks)| Some((side, stacks?))) {
            for stack in &stacks.stacks {
                let names = stack.frames.iter().map(|name| stacks.names[*name as usize].as_str());
                let none = stack.frames.is_empty().then_some(NO_CALLERS);
                let mut at = 0;
                for name in names.chain(none) {
                    let name = number(&mut tree, name);
                    at = *found.entry((at, name)).or_insert_with(|| {
                        tree.frames.push(Frame::new(name));
                        own.push([0; 2]);
                        above.push(at);
                        let new = tree.frames.len() - 1;
                        tree.frames[at].below.push(new);
                        new
                    });
                }
                own[at][side] += stack.weight.bytes;
            }
        }
        // A frame comes after those above it.
        for at in (0..tree.frames.len()).rev() {
            let [before, after] = own[at];
            tree.frames[at].bytes[0] += before;
            tree.frames[at].bytes[1] += after;
            tree.frames[at].size += before.max(after);
            if at > 0 {
                let Frame { bytes, size, .. } = tree.frames[at];
                let over = &mut tree.frames[above[at]];
                over.bytes[0] += bytes[0];
                over.bytes[1] += bytes[1];
                over.size += size;
            }
        }
        let Tree { names, frames } = &mut tree;
        let order: Vec<u32> = frames.iter().map(|frame| frame.name).collect();
        for frame in frames {
            frame.below.sort_by_key(|at| &names[order[*at] as usize]);
        }
        tree
    }
}

impl Frame {
    fn new(name: u32) -> Frame {
        Frame { name, bytes: [0; 2], size: 0, below: Vec::new() }
    }
}

/// A frame of one profile: a warm colour that its name decides.
fn warm(name: &str) -> String {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    let [hue, light] = [20 + hash % 33, 66 + (hash >> 8) % 11];
    format!("hsl({hue},80%,{light}%)")
}

/// A frame of two profiles: red if it grew, blue if it shrank, stronger with its part of the change.
fn changed([before, after]: [u64; 2]) -> String {
    let most = before.max(after).max(1) as f64;
    let (hue, share) = match after.cmp(&before) {
        std::cmp::Ordering::Equal => return "#e8eaec".into(),
        std::cmp::Ordering::Greater => (8, (after - before) as f64 / most),
        std::cmp::Ordering::Less => (212, (before - after) as f64 / most),
    };
    format!("hsl({hue},75%,{}%)", (93.0 - 30.0 * share).round())
}

fn text(x: f64, y: f64, size: u32, words: &str) -> Text {
    Text::new(words).set("x", x).set("y", y).set("font-size", size)
}

/// The beginning of a name that fits, or nothing.
fn fitting(name: &str, width: f64) -> String {
    let letters = ((width - 4.0) / LETTER) as usize;
    match name.chars().count() {
        _ if letters < 3 => String::new(),
        count if count <= letters => name.into(),
        _ => name.chars().take(letters - 2).collect::<String>() + "..",
    }
}

/// Draws the stacks into `file`; the change, if there are stacks of before.
pub fn draw(file: &Path, before: Option<&Stacks>, after: &Stacks) -> Result<()> {
    super::files::write(file, &picture(before, after))
}

fn picture(before: Option<&Stacks>, after: &Stacks) -> String {
    let tree = Tree::new(before, after);
    let scale = (WIDTH - 2.0 * EDGE) / tree.frames[0].size.max(1) as f64;
    let mut frames = Group::new();
    let mut depth_most = 0;
    let mut waiting = vec![(0, EDGE, 0)];
    while let Some((at, x, depth)) = waiting.pop() {
        let frame = &tree.frames[at];
        let width = frame.size as f64 * scale;
        if width < WIDTH_LEAST && at > 0 {
            continue;
        }
        depth_most = depth_most.max(depth);
        frames = frames.add(drawn(&tree, frame, x, depth, width, before.is_some()));
        let mut left = x;
        for below in &frame.below {
            waiting.push((*below, left, depth + 1));
            left += tree.frames[*below].size as f64 * scale;
        }
    }
    let height = HEAD + ROW * (depth_most + 1) as f64 + EDGE;
    let (title, legend) = match before {
        None => (
            format!("{}: {} {}", after.title, amount(after.total_bytes), after.kind.text()),
            "width: bytes; a frame's callers are above it, and the functions it called below"
                .into(),
        ),
        Some(before) => (
            format!("{}: from {} to {}", after.kind.text(), before.title, after.title),
            format!(
                "{} before, {} after; red: grew, blue: shrank; width: the larger of both",
                amount(before.total_bytes),
                amount(after.total_bytes)
            ),
        ),
    };
    let document = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("font-family", "monospace")
        .add(Style::new("g g:hover rect { stroke: #222b33 } text { pointer-events: none }"))
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white"))
        .add(text(EDGE, 28.0, 20, &title).set("font-family", FONT).set("fill", "#222b33"))
        .add(text(EDGE, 48.0, 12, &legend).set("font-family", FONT).set("fill", "#8a939b"))
        .add(frames);
    document.to_string()
}

fn drawn(tree: &Tree, frame: &Frame, x: f64, depth: usize, width: f64, differ: bool) -> Group {
    let name = &tree.names[frame.name as usize];
    let [before, after] = frame.bytes;
    let about = if differ {
        let sign = if after < before { '-' } else { '+' };
        let growth = amount(after.abs_diff(before));
        format!("{name}\n{sign}{growth}: {} before, {} after", amount(before), amount(after))
    } else {
        let all = tree.frames[0].size.max(1);
        format!("{name}\n{} ({:.1} %)", amount(after), 100.0 * after as f64 / all as f64)
    };
    let y = HEAD + ROW * depth as f64;
    let round = |number: f64| (number * 100.0).round() / 100.0;
    let fill = match (depth, differ) {
        (_, true) => changed(frame.bytes),
        (0, _) => "#e8eaec".into(),
        _ => warm(name),
    };
    let group = Group::new().add(Title::new(about)).add(
        Rectangle::new()
            .set("x", round(x))
            .set("y", y)
            .set("width", round((width - 0.5).max(WIDTH_LEAST)))
            .set("height", ROW - 1.0)
            .set("fill", fill),
    );
    match fitting(name, width) {
        words if words.is_empty() => group,
        words => group.add(text(round(x + 3.0), y + 12.0, LETTER_SIZE, &words)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pprof::Kind;
    use super::super::raw::Weight;
    use super::*;

    fn stacks(rows: &[(&[&str], u64)]) -> Stacks {
        let mut stacks = Stacks::new("a<b".into(), Kind::Live, 1);
        for (names, bytes) in rows {
            let frames = names.iter().map(|name| stacks.number(name)).collect();
            stacks.add(frames, Weight { objects: 1.0, bytes: *bytes }).unwrap();
        }
        stacks
    }

    /// The widths of the frames with this name, in order.
    fn widths(svg: &str, name: &str) -> Vec<f64> {
        let frames = svg.split("<title>").skip(1);
        let ours = frames.filter(|rest| rest.split('\n').next() == Some(name));
        let width = |rest: &str| rest.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
        ours.filter_map(width).collect()
    }

    #[test]
    fn a_frame_is_as_wide_as_its_share() {
        let one = stacks(&[
            (&["main", "f<int>"], 600),
            (&["main", "f<int>", "g"], 200),
            (&["start"], 200),
            (&[], 180),
        ]);
        let svg = picture(None, &one);
        assert_eq!(widths(&svg, "all"), [1179.5]);
        assert_eq!(widths(&svg, "main"), [799.5], "{svg}");
        assert_eq!(widths(&svg, "f&lt;int&gt;"), [799.5], "stacks that begin alike are one");
        assert_eq!(widths(&svg, "g"), [199.5]);
        assert_eq!(widths(&svg, NO_CALLERS), [179.5]);
        assert!(svg.contains("a&lt;b: 1.1 KiB in use at the end"), "{svg}");
        assert!(svg.contains("main\n0.7 KiB (67.8 %)"), "{svg}");
    }

    #[test]
    fn what_is_gone_is_blue_and_what_is_new_red() {
        let svg = picture(
            Some(&stacks(&[(&["main", "gone"], 590), (&["main", "same"], 295)])),
            &stacks(&[(&["main", "new"], 295), (&["main", "same"], 295)]),
        );
        assert_eq!(widths(&svg, "all"), [1179.5]);
        assert_eq!(widths(&svg, "gone"), [589.5], "{svg}");
        let colour = |name: &str| {
            let rest = svg.split("<title>").find(|rest| rest.starts_with(name)).unwrap();
            rest.split("fill=\"").nth(1).unwrap().split('"').next().unwrap().to_string()
        };
        assert_eq!(colour("gone\n"), "hsl(212,75%,63%)");
        assert_eq!(colour("new\n"), "hsl(8,75%,63%)");
        assert_eq!(colour("same\n"), "#e8eaec");
        assert!(svg.contains("gone\n-0.5 KiB: 0.5 KiB before, 0.0 KiB after"), "{svg}");
    }

    #[test]
    fn only_the_root_is_grey() {
        let svg = picture(None, &stacks(&[(&["all", "main"], 100)]));
        assert_eq!(widths(&svg, "all"), [1179.5; 2]);
        assert_eq!(svg.matches("fill=\"#e8eaec\"").count(), 1, "{svg}");
    }

    #[test]
    fn names_fit_or_are_cut() {
        assert_eq!(fitting("malloc", 50.0), "malloc");
        assert_eq!(fitting("malloc", 40.0), "mal..");
        assert_eq!(fitting("malloc", 20.0), "");
        assert_eq!(fitting("ö", 25.0), "ö");
    }

    #[test]
    fn an_empty_profile_is_a_picture_too() {
        assert!(picture(None, &stacks(&[])).contains("0.0 KiB in use"));
    }
}
