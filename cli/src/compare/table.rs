//! The honest table, and the sentences below it.
//!
//! A row an allocator, a column a measure: median, ± median absolute deviation, and the ratio to
//! the first row. Sentences come only from `noise`: a ratio in the table is not yet a difference.

use super::measure::Run;
use super::noise::{deviation, difference, median, Difference, PAIRS_MIN};
use crate::size::{counted, mib};
use comfy_table::{presets, Attribute, Cell, CellAlignment, ContentArrangement, Table};

/// What is measured, in the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Cpu,
    Wall,
    Peak,
    Mean,
    Faults,
}

pub const MEASURES: [Measure; 5] =
    [Measure::Cpu, Measure::Wall, Measure::Peak, Measure::Mean, Measure::Faults];

impl Measure {
    /// The value in the unit of the table. None if this run has none.
    pub fn of(self, run: &Run) -> Option<f64> {
        match self {
            Measure::Cpu => run.cpu_s,
            Measure::Wall => Some(run.wall_s),
            Measure::Peak => (!run.peak_is_guess).then(|| mib(run.peak_rss_bytes as f64)),
            Measure::Mean => run.mean_rss_bytes.map(mib),
            Measure::Faults => run.faults.map(|faults| faults as f64),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Measure::Cpu => "CPU s",
            Measure::Wall => "wall s",
            Measure::Peak => "peak RSS MiB",
            Measure::Mean => "mean RSS MiB",
            Measure::Faults => "page faults",
        }
    }

    /// What it is called in a sentence, and the words for lower and for higher.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Measure::Cpu => ("CPU time", "less", "more"),
            Measure::Wall => ("wall time", "less", "more"),
            Measure::Peak => ("peak RSS", "smaller", "bigger"),
            Measure::Mean => ("mean RSS", "smaller", "bigger"),
            Measure::Faults => ("page faults", "fewer", "more"),
        }
    }
}

/// All counted runs of one allocator, by round.
pub struct Row {
    pub name: String,
    pub runs: Vec<Run>,
}

impl Row {
    pub fn values(&self, measure: Measure) -> Vec<f64> {
        // Those peaks that are no guess are the higher ones: a median of them alone would be wrong.
        if measure == Measure::Peak && self.runs.iter().any(|run| run.peak_is_guess) {
            return Vec::new();
        }
        self.runs.iter().filter_map(|run| measure.of(run)).collect()
    }

    pub fn median(&self, measure: Measure) -> Option<f64> {
        median(&self.values(measure))
    }

    pub fn deviation(&self, measure: Measure) -> Option<f64> {
        deviation(&self.values(measure))
    }

    /// `killed by signal 11 in 2 of 10`, or None if every run ended with 0.
    pub fn failure(&self) -> Option<String> {
        let failed: Vec<String> = self.runs.iter().filter_map(Run::failure).collect();
        Some(format!("{} in {} of {}", failed.first()?, failed.len(), self.runs.len()))
    }

    /// Paired by round against another allocator. None if the measure is missing somewhere.
    pub fn against(&self, other: &Row, measure: Measure) -> Option<Difference> {
        let (a, b) = (self.values(measure), other.values(measure));
        if a.len() != b.len() {
            return None;
        }
        difference(&a, &b)
    }
}

/// The table. `width` is that of the terminal, None if there is none.
pub fn table(rows: &[Row], width: Option<u16>) -> Table {
    const ONE_LINE: u16 = 132;
    let narrow = width.is_some_and(|width| width < ONE_LINE);
    let failures = rows.iter().any(|row| row.failure().is_some());
    let present = |measure: &Measure| rows.iter().any(|row| row.median(*measure).is_some());
    let measures: Vec<Measure> = MEASURES.into_iter().filter(present).collect();

    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let titles = measures.iter().map(|measure| measure.title());
    let titles = ["allocator"].into_iter().chain(titles).chain(failures.then_some("exit"));
    table.set_header(titles.map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for row in rows {
        let cells = measures.iter().map(|measure| cell(row, &rows[0], *measure, narrow));
        let name = Cell::new(&row.name);
        let name = if row.name == "glebe" { name.add_attribute(Attribute::Bold) } else { name };
        let failure = row.failure().unwrap_or("0".into());
        table.add_row([name].into_iter().chain(cells).chain(failures.then(|| Cell::new(failure))));
    }
    table
}

fn cell(row: &Row, base: &Row, measure: Measure, narrow: bool) -> Cell {
    let (Some(middle), Some(spread)) = (row.median(measure), row.deviation(measure)) else {
        let why = if measure == Measure::Peak { "too small" } else { "too short" };
        return Cell::new(why).set_alignment(CellAlignment::Right);
    };
    let digits = digits(measure, base.median(measure).unwrap_or(middle));
    let ratio = base.median(measure).filter(|base| *base > 0.0).map(|base| middle / base);
    let ratio = ratio.map_or("-".into(), |ratio| format!("{ratio:.2}x"));
    let gap = if narrow { "\n" } else { "  " };
    Cell::new(format!("{middle:.digits$} ±{spread:.digits$}{gap}{ratio:>5}"))
        .set_alignment(CellAlignment::Right)
}

/// Decimals that show about four figures of a value of this size; one column, one number of them.
fn digits(measure: Measure, value: f64) -> usize {
    match measure {
        Measure::Faults => 0,
        _ if value >= 1000.0 => 0,
        _ if value >= 100.0 => 1,
        _ if value >= 10.0 => 2,
        _ if value >= 1.0 => 3,
        _ => 4,
    }
}

/// What may be said: each row against the first, then glebe against the best of the peers.
pub fn verdicts(rows: &[Row]) -> Vec<String> {
    let Some((base, others)) = rows.split_first() else { return Vec::new() };
    if base.runs.len() < PAIRS_MIN {
        return vec![format!(
            "{} cannot tell a difference from noise; it takes {PAIRS_MIN} or more (--runs).",
            counted(base.runs.len(), "run")
        )];
    }
    let failed = |row: &Row| row.failure().is_some();
    let mut lines = Vec::new();
    for row in others {
        let pair = format!("{} against {}", row.name, base.name);
        if failed(row) || failed(base) {
            lines.push(format!("{pair}: not compared, since runs failed."));
        } else {
            let both = [Measure::Cpu, Measure::Peak].map(|measure| sentence(row, base, measure));
            lines.push(format!("{pair}: {}.", both.join("; ")));
        }
    }
    let Some(glebe) = rows.iter().find(|row| row.name == "glebe" && !failed(row)) else {
        return lines;
    };
    for (measure, which) in [(Measure::Cpu, "fastest"), (Measure::Peak, "smallest")] {
        let value = |row: &&Row| row.median(measure).unwrap_or(f64::INFINITY);
        let peers = rows.iter().filter(|row| is_peer(row) && !failed(row));
        let best = peers.min_by(|a, b| value(a).total_cmp(&value(b)));
        // A peer in the first row has been compared already.
        if let Some(best) = best.filter(|best| best.name != base.name) {
            let text = sentence(glebe, best, measure);
            lines.push(format!("glebe against the {which} peer, {}: {text}.", best.name));
        }
    }
    lines
}

fn is_peer(row: &Row) -> bool {
    row.name != super::peers::SYSTEM && !row.name.starts_with("glebe")
}

/// One measure of one allocator against another, in words.
fn sentence(row: &Row, base: &Row, measure: Measure) -> String {
    let (noun, lower, higher) = measure.words();
    let Some(found) = row.against(base, measure) else {
        return format!("{noun} too small to measure");
    };
    // Rounded here, since "-0.0 %" is no number to show.
    let percent = |ratio: f64| ((ratio - 1.0) * 1000.0).round() / 10.0 + 0.0;
    let Some((low, high)) = found.interval else {
        return format!("{noun}: too few measurable runs to tell");
    };
    if !found.is_beyond_noise() {
        return format!(
            "no difference in {noun} beyond the noise (99 % interval {:+.1} to {:+.1} %)",
            percent(low),
            percent(high)
        );
    }
    let (word, near, far) =
        if found.ratio < 1.0 { (lower, high, low) } else { (higher, low, high) };
    format!(
        "{:.1} % {word} {noun} (beyond the noise: 99 % interval {:.1} to {:.1} %)",
        percent(found.ratio).abs(),
        percent(near).abs(),
        percent(far).abs()
    )
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Runs with the given CPU seconds; everything else is the same for all.
    pub fn row(name: &str, cpu: &[f64]) -> Row {
        let run = |(i, cpu_s): (usize, &f64)| Run {
            allocator: name.into(),
            run: i as u32 + 1,
            cpu_s: Some(*cpu_s),
            wall_s: cpu_s * 1.1,
            peak_rss_bytes: 64 << 20,
            faults: Some(1000),
            exit: 0,
            cpu_user_s: Some(*cpu_s),
            cpu_sys_s: Some(0.0),
            major_faults: Some(0),
            signal: None,
            mean_rss_bytes: None,
            samples: None,
            peak_is_guess: false,
            output: None,
            proof: None,
        };
        Row { name: name.into(), runs: cpu.iter().enumerate().map(run).collect() }
    }

    fn about(level: f64) -> Vec<f64> {
        [-4, 1, 3, -2, 0, 4, -1, 2, -3, 1].map(|i| level * (1.0 + f64::from(i) * 0.005)).to_vec()
    }

    #[test]
    fn the_table_has_medians_spread_and_ratios() {
        let rows = [row("system", &about(2.0)), row("glebe", &about(1.5))];
        let text = table(&rows, None).to_string();
        assert!(text.contains("2.005 ±"), "{text}");
        assert!(text.contains("0.75x") && text.contains("1.00x"), "{text}");
        assert!(!text.contains("mean RSS") && !text.contains("exit"), "{text}");
        let narrow = table(&rows, Some(80)).to_string();
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }

    #[test]
    fn a_peak_that_is_a_guess_is_not_shown() {
        let mut small = row("system", &about(2.0));
        small.runs[3].peak_is_guess = true;
        let rows = [small, row("glebe", &about(2.0))];
        let text = table(&rows, None).to_string();
        assert!(text.contains("too small") && text.contains("64.00 ±0.00      -"), "{text}");
        assert!(verdicts(&rows)[0].contains("peak RSS too small to measure"));
    }

    #[test]
    fn differences_are_told_from_noise() {
        let mut shuffled = about(2.0);
        shuffled.reverse();
        let rows = [row("system", &about(2.0)), row("glebe", &shuffled), row("m", &about(1.5))];
        let lines = verdicts(&rows);
        assert!(
            lines[0].starts_with("glebe against system: no difference in CPU time"),
            "{lines:?}"
        );
        assert!(lines[1].contains("m against system: 25.0 % less CPU time (beyond the noise"));
        assert!(lines[2].starts_with("glebe against the fastest peer, m: 33"), "{lines:?}");
        assert!(lines[2].contains("% more CPU") && lines[3].contains("smallest peer"), "{lines:?}");
    }

    #[test]
    fn few_runs_get_no_verdict() {
        let rows = [row("system", &[1.0; 3]), row("glebe", &[0.5; 3])];
        assert_eq!(verdicts(&rows).len(), 1);
        assert!(verdicts(&rows)[0].contains("cannot tell"));
    }

    #[test]
    fn failures_are_loud_and_not_compared() {
        let mut bad = row("glebe", &about(1.0));
        bad.runs[3].exit = 139;
        bad.runs[3].signal = Some(11);
        let rows = [row("system", &about(2.0)), bad];
        let text = table(&rows, None).to_string();
        assert!(text.contains("killed by signal 11 in 1 of 10"), "{text}");
        assert_eq!(verdicts(&rows), ["glebe against system: not compared, since runs failed."]);
    }
}
