//! The table, and the sentences below it.
//!
//! Each row is an allocator, each column a measure: median, ± median absolute deviation, and the ratio to the first
//! row. Only `noise` decides the sentences: a ratio in the table alone is not a difference.

use super::measure::Run;
use super::noise::{deviation, difference, median, Difference, PAIRS_MIN};
use crate::screen::Screen;
use crate::size::{counted, mib};
use crate::table::divided;
use comfy_table::{presets, Attribute, Cell, CellAlignment, ContentArrangement, Table};

/// The measures, in the order of the columns.
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

    /// Its name in a sentence, and the words for lower and for higher.
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
        // Known peaks are the higher ones, so their median alone would be wrong.
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

    /// The difference to another allocator, paired by round. None if the measure is missing in some run.
    pub fn against(&self, other: &Row, measure: Measure) -> Option<Difference> {
        let (a, b) = (self.values(measure), other.values(measure));
        if a.len() != b.len() {
            return None;
        }
        difference(&a, &b)
    }
}

/// What a column shows.
#[derive(Clone, Copy)]
enum Column {
    Measure(Measure),
    Exit,
}

/// The tables, each of which fits the screen: one if all columns fit, else several, with ratios on their own lines.
pub fn tables(rows: &[Row], screen: Screen) -> Vec<Table> {
    let present = |measure: &Measure| rows.iter().any(|row| row.median(*measure).is_some());
    let mut columns: Vec<Column> =
        MEASURES.into_iter().filter(present).map(Column::Measure).collect();
    if rows.iter().any(|row| row.failure().is_some()) {
        columns.push(Column::Exit);
    }
    let fits = |columns: &[Column], tall: bool| {
        let table = table(rows, columns, tall, screen);
        table.lines().all(|line| width_of(&line) <= screen.width).then_some(table)
    };
    if let Some(table) = fits(&columns, false) {
        return vec![table];
    }
    let tall = |columns: &[Column]| table(rows, columns, true, screen);
    divided(&columns, |columns| fits(columns, true), tall)
}

/// The width of a line in columns. It has no wide characters, and escape sequences take no column.
fn width_of(line: &str) -> usize {
    let mut inside = false;
    let shown = line.chars().filter(|c| {
        let visible = !inside && *c != '\x1b';
        inside = *c == '\x1b' || (inside && *c != 'm');
        visible
    });
    shown.count()
}

fn table(rows: &[Row], columns: &[Column], tall: bool, screen: Screen) -> Table {
    let mut table = Table::new();
    table.load_preset(match screen.unicode {
        true => presets::UTF8_BORDERS_ONLY,
        false => presets::ASCII_BORDERS_ONLY_CONDENSED,
    });
    table.set_content_arrangement(ContentArrangement::Disabled);
    let bold = |cell: Cell| match screen.styles {
        true => cell.add_attribute(Attribute::Bold),
        false => cell,
    };
    if screen.styles {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let title = |column: &Column| match column {
        Column::Measure(measure) => measure.title(),
        Column::Exit => "exit",
    };
    let titles = ["allocator"].into_iter().chain(columns.iter().map(title));
    table.set_header(titles.map(|title| bold(Cell::new(title))));
    for row in rows {
        let name = Cell::new(&row.name);
        let name = if row.name == "glebe" { bold(name) } else { name };
        let cells = columns.iter().map(|column| match column {
            Column::Measure(measure) => cell(row, &rows[0], *measure, tall, screen),
            Column::Exit => Cell::new(row.failure().unwrap_or("0".into())),
        });
        table.add_row([name].into_iter().chain(cells));
    }
    table
}

fn cell(row: &Row, base: &Row, measure: Measure, tall: bool, screen: Screen) -> Cell {
    let (Some(middle), Some(spread)) = (row.median(measure), row.deviation(measure)) else {
        let why = if measure == Measure::Peak { "too small" } else { "too short" };
        return Cell::new(why).set_alignment(CellAlignment::Right);
    };
    let digits = digits(measure, base.median(measure).unwrap_or(middle));
    let ratio = base.median(measure).filter(|base| *base > 0.0).map(|base| middle / base);
    let ratio = ratio.map_or("-".into(), |ratio| format!("{ratio:.2}x"));
    let gap = if tall { "\n" } else { "  " };
    let sign = screen.plus_minus();
    Cell::new(format!("{middle:.digits$} {sign}{spread:.digits$}{gap}{ratio:>5}"))
        .set_alignment(CellAlignment::Right)
}

/// Decimals that show about four figures of a value of this size; the same for a whole column.
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

/// The sentences: each row against the first, then glebe against the best of the peers.
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
    // Rounded here, so that it never shows "-0.0 %".
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

    const WIDE: Screen = Screen { width: 200, unicode: true, moves: false, styles: false };

    /// All tables, one below the other.
    fn text(rows: &[Row], screen: Screen) -> String {
        tables(rows, screen)
            .iter()
            .fold(String::new(), |text, table| text + &table.to_string() + "\n")
    }

    #[test]
    fn the_table_has_medians_spread_and_ratios() {
        let rows = [row("system", &about(2.0)), row("glebe", &about(1.5))];
        let text = text(&rows, WIDE);
        assert!(text.contains("2.005 ±"), "{text}");
        assert!(text.contains("0.75x") && text.contains("1.00x"), "{text}");
        assert!(!text.contains("mean RSS") && !text.contains("exit"), "{text}");
    }

    /// Every column is there, whatever the width, and no line is wider.
    #[test]
    fn tables_fit_the_screen() {
        let mut rows =
            [row("system", &about(2.0)), row("glebe", &about(1.5)), row("tcmalloc", &about(1.0))];
        for run in rows.iter_mut().flat_map(|row| &mut row.runs) {
            (run.peak_rss_bytes, run.mean_rss_bytes) = (12345 << 20, Some(2e9));
            run.faults = Some(123_456_789);
        }
        rows[1].runs[3].signal = Some(11);
        for width in [50, 60, 80, 100, 120, 160, 200] {
            for (unicode, styles) in [(true, false), (false, false), (true, true)] {
                let text = text(&rows, Screen { width, unicode, moves: styles, styles });
                let widest = text.lines().map(width_of).max();
                assert!(widest <= Some(width), "{width}: {widest:?}\n{text}");
                for title in MEASURES.map(Measure::title).into_iter().chain(["exit"]) {
                    assert_eq!(text.matches(title).count(), 1, "{title} in {width}\n{text}");
                }
                assert!(text.contains("0.75x"));
                assert_eq!(text.contains('\x1b'), styles);
                assert_eq!(text.is_ascii(), !unicode);
            }
        }
        assert_eq!(tables(&rows, WIDE).len(), 1);
    }

    #[test]
    fn a_peak_that_is_a_guess_is_not_shown() {
        let mut small = row("system", &about(2.0));
        small.runs[3].peak_is_guess = true;
        let rows = [small, row("glebe", &about(2.0))];
        let text = text(&rows, WIDE);
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
        let text = text(&rows, WIDE);
        assert!(text.contains("killed by signal 11 in 1 of 10"), "{text}");
        assert_eq!(verdicts(&rows), ["glebe against system: not compared, since runs failed."]);
    }
}
