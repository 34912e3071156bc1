//! `glebe trace --svg`: live memory over time, sizes and lifetimes in one picture.

use super::analysis::Analysis;
use super::show::bytes;
use crate::picture::{font, write, Area, Drawn, BLUE, FAINT, GREEN, GREY};
use crate::size::mib;
use anyhow::Result;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (1080, 860);

pub fn draw(file: &Path, found: &Analysis) -> Result<()> {
    write(file, |text| draw_into(text, found))
}

fn draw_into(text: &mut String, found: &Analysis) -> Drawn {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(64);
    let title: String = found.about.title().chars().take(88).collect();
    head.draw(&Text::new(title, (28, 14), font(22)))?;
    let peak = format!("{} calls; at most {} live", found.totals.events, bytes(found.peak.bytes));
    head.draw(&Text::new(peak, (28, 42), font(14).color(&GREY)))?;
    let (top, rest) = body.split_vertically(380);
    curve(&top, found)?;
    let (left, right) = rest.split_horizontally(SIZE.0 / 2);
    let used = found.sizes.iter().filter(|row| row.peak_bytes > 0);
    let mut sizes: Vec<_> =
        used.map(|row| (format!("from {}", bytes(row.from_bytes)), row.peak_bytes)).collect();
    sizes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    bars(&left, "live at the peak by size: the largest", &sizes, BLUE, bytes)?;
    let lived = found.lifetimes_calls.iter().map(|row| {
        (row.below.map_or("longer".into(), |below| format!("below {below} calls")), row.blocks)
    });
    let lived: Vec<_> =
        lived.chain([("never freed".to_string(), found.never_freed_blocks)]).collect();
    bars(&right, "lifetimes of blocks", &lived, GREEN, |blocks| blocks.to_string())?;
    root.present()?;
    Ok(())
}

/// Live bytes over calls, since the clock is coarse and calls are not.
fn curve(area: &Area, found: &Analysis) -> Drawn {
    area.draw(&Text::new("live bytes over calls, MiB", (28, 6), font(17)))?;
    let end = found.totals.events.max(1) as f64;
    let top = mib(found.peak.bytes.max(1) as f64);
    let mut chart = ChartBuilder::on(area)
        .margin_top(34)
        .margin_left(20)
        .margin_right(32)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..top * 1.06)?;
    let decimals = (-(top / 10.0).log10()).ceil().clamp(0.0, 6.0) as usize;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .axis_style(GREY)
        .x_desc("calls since the start")
        .label_style(font(14))
        .axis_desc_style(font(14))
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value:.decimals$}"))
        .draw()?;
    let points = found.points.iter().map(|point| (point.call as f64, mib(point.bytes as f64)));
    chart.draw_series(LineSeries::new(points, GREEN.stroke_width(2)))?;
    Ok(())
}

fn bars(
    area: &Area,
    title: &str,
    rows: &[(String, u64)],
    colour: RGBColor,
    shown: fn(u64) -> String,
) -> Drawn {
    const NAME: i32 = 160;
    const STEP: i32 = 32;
    let room = area.dim_in_pixel().0 as i32 - NAME - 110;
    area.draw(&Text::new(title.to_string(), (28, 12), font(17)))?;
    let most = rows.iter().map(|(_, value)| *value).max().unwrap_or(0).max(1) as f64;
    for (i, (name, value)) in rows.iter().take(11).enumerate() {
        let y = 46 + STEP * i as i32;
        let end = NAME + (*value as f64 / most * f64::from(room)).round() as i32;
        area.draw(&Text::new(name.clone(), (28, y + 2), font(14)))?;
        area.draw(&Rectangle::new([(NAME, y), (end, y + 20)], colour.filled()))?;
        area.draw(&Text::new(shown(*value), (end + 8, y + 2), font(14)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_trace_has_a_picture_too() {
        let mut text = String::new();
        draw_into(&mut text, &Analysis::default()).unwrap();
        assert!(text.starts_with("<svg") && text.contains("never freed"));
    }
}
