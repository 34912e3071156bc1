//! The picture: time against memory.
//!
//! ```text
//!   left    the geometric means of each allocator as one point:
//!           CPU time to the right, peak RSS upwards; good is below and left
//!   right   one row for each case, one dot for each allocator: CPU time
//! ```

use crate::cases::Group;
use crate::results::{Quantity, Results};
use anyhow::{bail, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// Distinguishable also for the colour-blind (after Okabe and Ito); glebe's
/// is the strongest, and a fixed colour goes with each name.
fn colour(name: &str) -> RGBColor {
    match name {
        "glebe" => RGBColor(213, 94, 0),
        "mimalloc-v3" => RGBColor(0, 114, 178),
        "mimalloc-v2" => RGBColor(86, 180, 233),
        "snmalloc" => RGBColor(0, 158, 115),
        "rpmalloc" => RGBColor(204, 121, 167),
        "tcmalloc" => RGBColor(150, 120, 20),
        "jemalloc" => RGBColor(120, 80, 160),
        _ => RGBColor(90, 90, 90),
    }
}

const INK: RGBColor = RGBColor(60, 60, 60);
const FAINT: RGBColor = RGBColor(225, 225, 225);
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

struct Point {
    name: String,
    cpu: f64,
    rss: f64,
}

pub fn draw(results: &Results, baseline: &str, path: &Path) -> Result<()> {
    let points: Vec<Point> = results
        .allocators
        .iter()
        .filter_map(|a| {
            let mean = |q| {
                results
                    .mean(None, &a.name, baseline, q)
                    .map(|(mean, _)| mean)
            };
            Some(Point {
                name: a.name.clone(),
                cpu: mean(Quantity::Cpu)?,
                rss: mean(Quantity::PeakRss)?,
            })
        })
        .collect();
    if points.is_empty() {
        bail!("nothing to plot: no case of a mean ran under {baseline} and another allocator");
    }
    let rows = results.group(None).count() as u32;
    let height = (rows * 17 + 110).max(520);
    let root = SVGBackend::new(path, (1180, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(520);
    let (left, _) = left.split_vertically(520);
    draw_means(&left, &points, baseline)?;
    draw_cases(&right, results, baseline)?;
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

fn draw_means(area: &Area, points: &[Point], baseline: &str) -> Result<()> {
    let mut chart = ChartBuilder::on(area)
        .caption("All cases, geometric means", text(17))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(52)
        .build_cartesian_2d(
            span(points.iter().map(|p| p.cpu)),
            span(points.iter().map(|p| p.rss)),
        )?;
    let decimals = |v: &f64| format!("{v:.2}");
    chart
        .configure_mesh()
        .x_desc(format!("CPU time, {baseline} = 1"))
        .y_desc(format!("peak RSS, {baseline} = 1"))
        .label_style(text(12))
        .axis_desc_style(text(13))
        .x_label_formatter(&decimals)
        .y_label_formatter(&decimals)
        .light_line_style(WHITE)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .draw()?;
    // The names go over the dots, each to the side that has room.
    for p in points {
        let radius = if p.name == "glebe" { 8 } else { 6 };
        chart.draw_series([Circle::new(
            (p.cpu, p.rss),
            radius,
            colour(&p.name).filled(),
        )])?;
    }
    let right_edge = chart.plotting_area().get_pixel_range().0.end;
    for p in points {
        let (x, _) = chart.backend_coord(&(p.cpu, p.rss));
        let (anchor, shift) = if x + 90 > right_edge {
            (HPos::Right, -11)
        } else {
            (HPos::Left, 11)
        };
        let colour = colour(&p.name);
        let style = text(13).color(&colour).pos(Pos::new(anchor, VPos::Center));
        let label = EmptyElement::at((p.cpu, p.rss)) + Text::new(p.name.clone(), (shift, 0), style);
        chart.draw_series([label])?;
    }
    Ok(())
}

fn draw_cases(area: &Area, results: &Results, baseline: &str) -> Result<()> {
    let cases: Vec<_> = Group::COUNTED
        .iter()
        .flat_map(|g| results.group(Some(*g)))
        .collect();
    // The axis is log2 of the ratio. A dot beyond its ends sits at the end: one
    // outlier must not flatten the rest.
    let (least, most) = (-2.0, 2.0);
    let rows = cases.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("CPU time, {baseline} = 1"), text(17))
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
    for (i, case) in cases.iter().enumerate() {
        let y = rows - i as f64 - 0.5;
        let style = text(12).pos(Pos::new(HPos::Right, VPos::Center));
        let label = EmptyElement::at((least, y)) + Text::new(case.name.clone(), (-8, 0), style);
        chart.draw_series([label])?;
        chart.draw_series([PathElement::new(vec![(least, y), (most, y)], FAINT)])?;
        // glebe last, so that it lies on top.
        for a in results.allocators.iter().rev() {
            if let Some(ratio) = case.ratio(&a.name, baseline, Quantity::Cpu) {
                let at = (ratio.log2().clamp(least, most), y);
                let radius = if a.name == "glebe" { 5 } else { 4 };
                chart.draw_series([Circle::new(at, radius, colour(&a.name).mix(0.85).filled())])?;
            }
        }
    }
    Ok(())
}
