//! `--svg`: the comparison as one picture.
//!
//! ```text
//!   +---------------- RSS over time, one line an allocator -----------------+
//!   +------ CPU time: bars, whiskers ------+------ peak RSS: likewise ------+
//! ```
//!
//! Lines are the median over all runs of an allocator, each run stretched to the median time. Bars are medians, and the
//! whiskers span from the lowest run to the highest.

use super::noise::median;
use super::table::{Measure, Row};
use crate::picture::{font, write, Area, Drawn, BLUE, FAINT, FONT, GREEN, GREY, INK, ORANGE};
use crate::size::{counted, mib};
use anyhow::Result;
use plotters::prelude::*;
use std::path::Path;

const WIDTH: u32 = 1080;
const HEAD: u32 = 72;
const CURVES: u32 = 420;
/// Of peers, in turn. The system's malloc is always grey, and glebe green.
const OTHERS: [RGBColor; 7] = [
    BLUE,
    ORANGE,
    RGBColor(0x8e, 0x44, 0xad),
    RGBColor(0xc0, 0x39, 0x4b),
    RGBColor(0x0e, 0x8f, 0x9c),
    RGBColor(0x7a, 0x5c, 0x3e),
    RGBColor(0x5b, 0x67, 0xc9),
];

/// Draws into `file`. `title` is the command line.
pub fn draw(file: &Path, title: &str, rows: &[Row]) -> Result<()> {
    write(file, |text| draw_into(text, title, rows))
}

fn draw_into(text: &mut String, title: &str, rows: &[Row]) -> Drawn {
    let curves: Vec<Vec<(f64, f64)>> = rows.iter().map(curve).collect();
    let has_curves = curves.iter().any(|curve| curve.len() > 1);
    let bars = 70 + 40 * rows.len() as u32;
    let height = HEAD + bars + if has_curves { CURVES } else { 0 };

    let root = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, mut body) = root.split_vertically(HEAD);
    let runs = rows.first().map_or(0, |row| row.runs.len());
    head.draw(&Text::new(shorten(title, 88), (28, 16), font(22)))?;
    let runs = counted(runs, "interleaved run");
    let note = format!("median of {runs}; whiskers: lowest and highest run");
    head.draw(&Text::new(note, (28, 45), font(14).color(&GREY)))?;

    let colours = colours(rows);
    if has_curves {
        let (top, rest) = body.split_vertically(CURVES);
        lines(&top, rows, &curves, &colours)?;
        body = rest;
    }
    let (left, right) = body.split_horizontally(WIDTH / 2);
    bar_chart(&left, "CPU time, seconds", Measure::Cpu, rows, &colours)?;
    bar_chart(&right, "peak RSS, MiB", Measure::Peak, rows, &colours)?;
    root.present()?;
    Ok(())
}

fn colours(rows: &[Row]) -> Vec<RGBColor> {
    let mut others = OTHERS.iter().cycle();
    let colour = |row: &Row| match row.name.as_str() {
        super::peers::SYSTEM => GREY,
        "glebe" => GREEN,
        _ => *others.next().unwrap_or(&INK),
    };
    rows.iter().map(colour).collect()
}

/// The median over the runs at each of many moments. Runs differ a little in length, so a moment is a fraction of each
/// run's own time, drawn at that fraction of the median time.
fn curve(row: &Row) -> Vec<(f64, f64)> {
    const MOMENTS: usize = 300;
    let sampled = row.runs.iter().filter_map(|run| Some((run.wall_s, run.samples.as_ref()?)));
    let sampled: Vec<_> = sampled.filter(|(_, samples)| samples.max_bytes() > 0).collect();
    let lengths: Vec<f64> = sampled.iter().map(|(wall_s, _)| *wall_s).collect();
    let Some(length) = median(&lengths) else { return Vec::new() };
    let moment = |i: usize| {
        let share = i as f64 / MOMENTS as f64;
        let values = sampled.iter().map(|(wall_s, samples)| mib(samples.at(share * wall_s)));
        median(&values.collect::<Vec<_>>()).map(|value| (share * length, value))
    };
    (0..=MOMENTS).filter_map(moment).collect()
}

fn lines(area: &Area, rows: &[Row], curves: &[Vec<(f64, f64)>], colours: &[RGBColor]) -> Drawn {
    let points = || curves.iter().flatten();
    let end = points().map(|(at, _)| *at).fold(1e-6, f64::max);
    let top = points().map(|(_, value)| *value).fold(1e-6, f64::max);
    area.draw(&Text::new("resident memory over time, MiB", (28, 6), font(17)))?;
    legend(area, rows, colours)?;
    let mut chart = ChartBuilder::on(area)
        .margin_top(58)
        .margin_left(20)
        .margin_right(32)
        .x_label_area_size(50)
        .y_label_area_size(54)
        .build_cartesian_2d(0.0..end, 0.0..top * 1.06)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .axis_style(GREY)
        .x_desc("seconds since the start")
        .label_style(font(14))
        .axis_desc_style(font(14))
        .x_label_formatter(&|value| format!("{:.*}", tick_decimals(end), value))
        .y_label_formatter(&|value| format!("{:.*}", tick_decimals(top), value))
        .draw()?;
    // glebe last, so that nothing covers it.
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|i| rows[*i].name == "glebe");
    for i in order {
        let width = if rows[i].name == "glebe" { 3 } else { 2 };
        let style = colours[i].stroke_width(width);
        chart.draw_series(LineSeries::new(curves[i].iter().copied(), style))?;
    }
    Ok(())
}

/// Names with their colours, in a row above the lines.
fn legend(area: &Area, rows: &[Row], colours: &[RGBColor]) -> Drawn {
    let mut x = 28;
    for (row, colour) in rows.iter().zip(colours) {
        area.draw(&PathElement::new(vec![(x, 41), (x + 22, 41)], colour.stroke_width(4)))?;
        area.draw(&Text::new(row.name.clone(), (x + 29, 34), font(14)))?;
        x += 56 + 8 * row.name.chars().count() as i32;
    }
    Ok(())
}

/// Horizontal bars, so that long names stay readable.
fn bar_chart(
    area: &Area,
    title: &str,
    measure: Measure,
    rows: &[Row],
    colours: &[RGBColor],
) -> Drawn {
    const NAME: i32 = 150;
    const VALUE: i32 = 84;
    const STEP: i32 = 40;
    const THICK: i32 = 24;
    let room = area.dim_in_pixel().0 as i32 - NAME - VALUE;
    area.draw(&Text::new(title.to_string(), (28, 12), font(17)))?;
    let all = rows.iter().flat_map(|row| row.values(measure));
    let highest = all.fold(1e-9, f64::max);
    let at = |value: f64| NAME + (value / highest * f64::from(room)).round() as i32;
    for (i, (row, colour)) in rows.iter().zip(colours).enumerate() {
        let (Some(middle), y) = (row.median(measure), 48 + STEP * i as i32) else { continue };
        let values = row.values(measure);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let centre = y + THICK / 2;
        let weight = if row.name == "glebe" { FontStyle::Bold } else { FontStyle::Normal };
        let label = |text: String, x| {
            Text::new(text, (x, centre - 8), (FONT, 15, weight).into_font().color(&INK))
        };
        area.draw(&label(shorten(&row.name, 15), 28))?;
        area.draw(&Rectangle::new([(at(0.0), y), (at(middle), y + THICK)], colour.filled()))?;
        let whisker = INK.stroke_width(1);
        for x in [at(low), at(high)] {
            area.draw(&PathElement::new(vec![(x, centre - 5), (x, centre + 5)], whisker))?;
        }
        area.draw(&PathElement::new(vec![(at(low), centre), (at(high), centre)], whisker))?;
        area.draw(&label(format!("{:.*}", decimals(middle), middle), at(high) + 10))?;
    }
    Ok(())
}

/// Decimals that show about three figures of a value of this size.
fn decimals(value: f64) -> usize {
    match value {
        v if v >= 100.0 || v <= 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.1 => 3,
        _ => 4,
    }
}

/// Decimals that tell the ticks of an axis apart, of which there are about ten.
fn tick_decimals(end: f64) -> usize {
    (-(end / 10.0).log10()).ceil().clamp(0.0, 6.0) as usize
}

fn shorten(text: &str, length: usize) -> String {
    match text.chars().count() {
        n if n <= length => text.into(),
        _ => text.chars().take(length - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::sampler::Samples;
    use crate::compare::table::tests::row;

    #[test]
    fn a_picture_names_every_allocator_and_escapes_the_title() {
        let mut rows = [row("system", &[1.0; 9]), row("glebe", &[0.5; 9]), row("a&b", &[0.7; 9])];
        for run in rows.iter_mut().flat_map(|row| &mut row.runs) {
            let mut samples = Samples::default();
            (0..50).for_each(|i| samples.push(f64::from(i) * 0.01, (10 + i as u64) << 20));
            run.samples = Some(samples);
        }
        let mut text = String::new();
        draw_into(&mut text, "prog <1 & 2>", &rows).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        for part in ["system", "glebe", "a&amp;b", "peak RSS", "CPU time", "prog &lt;1 &amp; 2"] {
            assert!(text.contains(part), "{part}");
        }
        assert!(text.contains("polyline"), "lines over time");
    }

    #[test]
    fn no_samples_still_make_bars() {
        let mut text = String::new();
        draw_into(&mut text, "true", &[row("system", &[0.0; 3])]).unwrap();
        assert!(!text.contains("over time") && text.contains("CPU time"));
    }

    #[test]
    fn numbers_are_as_fine_as_their_axis() {
        assert_eq!([60.0, 10.0, 1.1, 0.9, 0.05].map(tick_decimals), [0, 0, 1, 2, 3]);
        assert_eq!([0.0, 250.0, 25.0, 2.5, 0.25, 0.025].map(decimals), [0, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn curves_follow_the_median_run() {
        let mut row = row("x", &[1.0, 1.0, 1.0]);
        for (run, level) in row.runs.iter_mut().zip([1u64, 5, 100]) {
            let mut samples = Samples::default();
            samples.push(0.0, level << 20);
            run.samples = Some(samples);
        }
        assert!(curve(&row).iter().all(|(_, value)| *value == 5.0));
    }
}
