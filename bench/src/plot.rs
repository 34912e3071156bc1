//! The picture: time against memory.
//!
//! ```text
//!   left    the geometric means of each allocator as one point:
//!           CPU time to the right, peak RSS upwards; good is below and left
//!   right   one row for each case, one dot for each allocator: CPU time
//! ```
//!
//! A `Picture` describes that drawing; `Lines` are curves of one quantity over
//! another. Other benches write either as JSON, and `bench/driver plot` draws
//! it.

use crate::cases::Group;
use crate::results::{CaseResult, Quantity, Results};
use anyhow::{bail, Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Distinguishable also for the colour-blind (after Okabe and Ito); glebe's
/// is the strongest, and a fixed colour goes with each name.
fn colour(name: &str) -> RGBColor {
    match name {
        "glebe" | "glebe::Bump" => RGBColor(213, 94, 0),
        "glebe::Bump, resize" => RGBColor(230, 159, 0),
        "glebe::FreeList" => RGBColor(240, 120, 90),
        "glebe::Heap" => RGBColor(170, 30, 30),
        "mimalloc-v3" => RGBColor(0, 114, 178),
        "mimalloc-v2" => RGBColor(86, 180, 233),
        "snmalloc" => RGBColor(0, 158, 115),
        "rpmalloc" => RGBColor(204, 121, 167),
        "tcmalloc" => RGBColor(150, 120, 20),
        "jemalloc" => RGBColor(120, 80, 160),
        "bdwgc" | "boehm" | "mini-alloc" => RGBColor(0, 114, 178),
        "precise" | "talc" => RGBColor(86, 180, 233),
        "conservative" | "rlsf" => RGBColor(0, 158, 115),
        "nottinygc" | "lite-alloc" => RGBColor(204, 121, 167),
        "dlmalloc" => RGBColor(120, 80, 160),
        "wee_alloc" => RGBColor(150, 120, 20),
        "live" => RGBColor(0, 0, 0),
        _ => RGBColor(90, 90, 90),
    }
}

fn is_glebe(name: &str) -> bool {
    name.starts_with("glebe")
}

const INK: RGBColor = RGBColor(60, 60, 60);
const FAINT: RGBColor = RGBColor(225, 225, 225);
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A picture. Numbers are multiples of a baseline's.
#[derive(Deserialize)]
struct Picture {
    points_title: String,
    points_x: String,
    points_y: String,
    /// Name, x and y.
    points: Vec<(String, f64, f64)>,
    rows_title: String,
    /// Label, and a name and number for each dot; the first is on top.
    rows: Vec<(String, Vec<(String, f64)>)>,
}

/// Curves; the first is on top.
#[derive(Deserialize)]
struct Lines {
    lines_title: String,
    lines_x: String,
    lines_y: String,
    lines: Vec<(String, Vec<(f64, f64)>)>,
    /// The least x and y that are shown.
    #[serde(default)]
    lines_from: (f64, f64),
    /// Whether each point has a dot: for curves of few.
    #[serde(default)]
    dots: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Drawing {
    Picture(Picture),
    Lines(Lines),
}

#[derive(clap::Args)]
pub struct PlotArgs {
    /// A picture, as JSON
    picture: PathBuf,
    /// The SVG to write
    svg: PathBuf,
}

pub fn run(args: &PlotArgs) -> Result<bool> {
    let text = std::fs::read_to_string(&args.picture)
        .with_context(|| args.picture.display().to_string())?;
    match serde_json::from_str(&text)? {
        Drawing::Picture(picture) => draw_picture(&picture, &args.svg)?,
        Drawing::Lines(lines) => draw_lines(&lines, &args.svg)?,
    }
    Ok(true)
}

pub fn draw(results: &Results, baseline: &str, path: &Path) -> Result<()> {
    let point = |name: &String| {
        let mean = |q| results.mean(None, name, baseline, q).map(|(mean, _)| mean);
        Some((name.clone(), mean(Quantity::Cpu)?, mean(Quantity::PeakRss)?))
    };
    let dot = |case: &CaseResult, name: &String| {
        Some((name.clone(), case.ratio(name, baseline, Quantity::Cpu)?))
    };
    let names = || results.allocators.iter().map(|a| &a.name);
    let cases = Group::COUNTED.iter().flat_map(|g| results.group(Some(*g)));
    let picture = Picture {
        points_title: title(results),
        points_x: format!("CPU time, {baseline} = 1"),
        points_y: format!("peak RSS, {baseline} = 1"),
        points: names().filter_map(point).collect(),
        rows_title: format!("CPU time, {baseline} = 1"),
        rows: cases
            .map(|c| (c.name.clone(), names().filter_map(|n| dot(c, n)).collect()))
            .collect(),
    };
    if picture.points.is_empty() {
        bail!("nothing to plot: no case of a mean ran under {baseline} and another allocator");
    }
    draw_picture(&picture, path)
}

/// Names the cases of the means.
fn title(results: &Results) -> String {
    let count = |group| results.group(group).count();
    let all = count(None);
    match Group::COUNTED.iter().find(|g| count(Some(**g)) == all) {
        Some(Group::Real) => format!("{all} whole programs, geometric means"),
        Some(group) => format!("{all} cases of {group}, geometric means"),
        None => format!("All {all} cases, geometric means"),
    }
}

fn draw_picture(picture: &Picture, path: &Path) -> Result<()> {
    let height = (picture.rows.len() as u32 * 17 + 110).max(520);
    let root = SVGBackend::new(path, (1180, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(520);
    let (left, _) = left.split_vertically(520);
    draw_points(&left, picture)?;
    draw_rows(&right, picture)?;
    root.present()?;
    Ok(())
}

fn draw_lines(picture: &Lines, path: &Path) -> Result<()> {
    let points = || picture.lines.iter().flat_map(|l| l.1.iter());
    let (left, bottom) = picture.lines_from;
    let room = if picture.dots { 1.02 } else { 1.0 };
    let right = points().map(|p| p.0).fold(0.0, f64::max) * room;
    let top = points().map(|p| p.1).fold(0.0, f64::max) * 1.05;
    let root = SVGBackend::new(path, (1180, 520)).into_drawing_area();
    root.fill(&WHITE)?;
    let corner =
        if picture.dots { SeriesLabelPosition::UpperRight } else { SeriesLabelPosition::UpperLeft };
    let mut chart = ChartBuilder::on(&root)
        .caption(&picture.lines_title, text(17))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(left..right, bottom..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_desc(&picture.lines_x)
        .y_desc(&picture.lines_y)
        .label_style(text(12))
        .axis_desc_style(text(13))
        .light_line_style(WHITE)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .draw()?;
    for (name, curve) in picture.lines.iter().rev() {
        let colour = colour(name);
        let style = colour.stroke_width(if is_glebe(name) { 2 } else { 1 });
        if picture.dots {
            let dots = curve.iter().map(|at| Circle::new(*at, 4, colour.filled()));
            chart.draw_series(dots)?;
        }
        chart.draw_series([PathElement::new(curve.clone(), style)])?.label(name).legend(
            move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)),
        );
    }
    chart
        .configure_series_labels()
        .position(corner)
        .label_font(text(12))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    root.present()?;
    Ok(())
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// The span of the values, with room around them for dots and labels.
fn span(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values.fold((1.0f64, 1.0f64), |(low, high), v| (low.min(v), high.max(v)));
    let room = (high - low).max(0.2) * 0.12;
    low - room..high + room
}

fn draw_points(area: &Area, picture: &Picture) -> Result<()> {
    let points = &picture.points;
    let mut chart = ChartBuilder::on(area)
        .caption(&picture.points_title, text(17))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(52)
        .build_cartesian_2d(span(points.iter().map(|p| p.1)), span(points.iter().map(|p| p.2)))?;
    let decimals = |v: &f64| format!("{v:.2}");
    chart
        .configure_mesh()
        .x_desc(&picture.points_x)
        .y_desc(&picture.points_y)
        .label_style(text(12))
        .axis_desc_style(text(13))
        .x_label_formatter(&decimals)
        .y_label_formatter(&decimals)
        .light_line_style(WHITE)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .draw()?;
    for (name, x, y) in points {
        let radius = if is_glebe(name) { 8 } else { 6 };
        chart.draw_series([Circle::new((*x, *y), radius, colour(name).filled())])?;
    }
    // The names go over the dots: to the right if there is room, else to the left, above or below.
    let (columns, _) = chart.plotting_area().get_pixel_range();
    let at = |x: f64, y: f64| chart.backend_coord(&(x, y));
    let dot = |x, y| Span { left: x - 8, right: x + 8, top: y - 8, bottom: y + 8 };
    let mut taken: Vec<Span> =
        points.iter().map(|p| at(p.1, p.2)).map(|(x, y)| dot(x, y)).collect();
    let mut labels = Vec::new();
    for (i, (name, x, y)) in points.iter().enumerate() {
        let (pixel, line) = at(*x, *y);
        let width = 7 * name.len() as i32;
        let fits = |place: &&Place| {
            let span = place.span(pixel, line, width);
            span.right <= columns.end
                && taken.iter().enumerate().all(|(k, other)| k == i || !span.meets(other))
        };
        let place = PLACES.iter().find(fits).unwrap_or(&PLACES[0]);
        taken.push(place.span(pixel, line, width));
        labels.push((name, (*x, *y), place));
    }
    for (name, at, place) in labels {
        let colour = colour(name);
        let style = text(13).color(&colour).pos(Pos::new(place.anchor, VPos::Center));
        let label = EmptyElement::at(at) + Text::new(name.clone(), place.shift, style);
        chart.draw_series([label])?;
    }
    Ok(())
}

/// Pixels that a dot or a name covers.
struct Span {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Span {
    fn meets(&self, other: &Span) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// The position of a name beside its dot.
struct Place {
    anchor: HPos,
    shift: (i32, i32),
}

const PLACES: [Place; 4] = [
    Place { anchor: HPos::Left, shift: (11, 0) },
    Place { anchor: HPos::Right, shift: (-11, 0) },
    Place { anchor: HPos::Center, shift: (0, -15) },
    Place { anchor: HPos::Center, shift: (0, 15) },
];

impl Place {
    fn span(&self, x: i32, y: i32, width: i32) -> Span {
        let left = x + self.shift.0
            - match self.anchor {
                HPos::Left => 0,
                HPos::Right => width,
                HPos::Center => width / 2,
            };
        let middle = y + self.shift.1;
        Span { left, right: left + width, top: middle - 6, bottom: middle + 6 }
    }
}

fn draw_rows(area: &Area, picture: &Picture) -> Result<()> {
    // The axis is log2 of the ratio. A dot beyond its ends sits at the end: one
    // outlier must not flatten the rest.
    let (least, most) = (-2.0, 2.0);
    let rows = picture.rows.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(&picture.rows_title, text(17))
        .margin(14)
        .x_label_area_size(30)
        .y_label_area_size(130)
        .build_cartesian_2d(least..most, 0.0..rows)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(5)
        .x_label_formatter(&|log2: &f64| format!("{}", log2.exp2()))
        .label_style(text(12))
        .light_line_style(WHITE)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .draw()?;
    chart.draw_series([PathElement::new(vec![(0.0, 0.0), (0.0, rows)], INK)])?;
    for (i, (label, dots)) in picture.rows.iter().enumerate() {
        let y = rows - i as f64 - 0.5;
        let style = text(12).pos(Pos::new(HPos::Right, VPos::Center));
        let label = EmptyElement::at((least, y)) + Text::new(label.clone(), (-8, 0), style);
        chart.draw_series([label])?;
        chart.draw_series([PathElement::new(vec![(least, y), (most, y)], FAINT)])?;
        for (name, ratio) in dots.iter().rev() {
            let at = (ratio.log2().clamp(least, most), y);
            let radius = if is_glebe(name) { 5 } else { 4 };
            chart.draw_series([Circle::new(at, radius, colour(name).mix(0.85).filled())])?;
        }
    }
    Ok(())
}
