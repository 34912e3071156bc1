//! How long blocks lived: `glebe profile --lifetimes`.
//!
//! The library counts freed bytes by site in classes of lifetimes (gb_lifetimes in src/base/samples.h). Here each class
//! of a site is a stack of its own, with the class as its lifetime; what is still in use has none. A pprof file has the
//! same: the numeric label `lifetime` is the least lifetime of the class.

use super::raw::{Site, Weight};
use super::show::{amount, estimated, ordered, ROWS};
use super::stacks::Stacks;
use crate::screen::Screen;
use crate::size::percent;
use crate::table::Texts;
use serde_json::{json, Value};
use std::collections::HashMap;

pub const CLASSES: usize = 18;
/// Bytes that were freed, by class.
pub type Lifetimes = [u64; CLASSES];
/// The label in pprof's files, and its unit.
pub const LABEL: &str = "lifetime";
pub const UNIT: &str = "nanoseconds";
/// Blocks of the classes before this one died within a millisecond.
const YOUNG: usize = 5;

/// All lifetimes of a class are below this; None: it is the last one.
pub fn below_ns(class: usize) -> Option<u64> {
    let tens = 10_000 * 10u64.pow(class as u32 / 2);
    (class < CLASSES - 1).then_some(if class % 2 == 0 { tens } else { 3 * tens })
}

/// The shortest lifetime of a class.
pub fn least_ns(class: usize) -> u64 {
    class.checked_sub(1).and_then(below_ns).unwrap_or(0)
}

/// The class with this shortest lifetime.
pub fn class_from(ns: i64) -> Option<usize> {
    (0..CLASSES).find(|class| i64::try_from(least_ns(*class)) == Ok(ns))
}

impl Site {
    /// What was allocated, by class of its lifetime; None: it is still in use. Blocks are in proportion to bytes.
    pub fn by_lifetime(&self) -> Vec<(Option<usize>, Weight)> {
        let each = self.allocated.objects / self.allocated.bytes.max(1) as f64;
        let part = |bytes: u64| Weight { objects: bytes as f64 * each, bytes };
        let freed = self.freed.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let classes = self.freed.iter().enumerate().map(|(class, bytes)| (Some(class), *bytes));
        let parts = classes.chain([(None, self.allocated.bytes.saturating_sub(freed))]);
        parts.filter(|(_, bytes)| *bytes > 0).map(|(class, bytes)| (class, part(bytes))).collect()
    }
}

/// What a function allocated.
#[derive(Default)]
struct Sum {
    freed: Lifetimes,
    live: u64,
}

impl Sum {
    fn freed_before(&self, class: usize) -> u64 {
        self.freed[..class].iter().sum()
    }

    /// So many hundredths of the freed bytes lived less than this.
    fn below(&self, hundredths: u64) -> String {
        let all = u128::from(self.freed_before(CLASSES)) * u128::from(hundredths);
        let enough = |class: &usize| u128::from(self.freed_before(class + 1)) * 100 >= all;
        match (0..CLASSES).find(enough).map(below_ns) {
            _ if all == 0 => "-".into(),
            Some(Some(ns)) => time(ns),
            _ => "longer".into(),
        }
    }
}

/// A limit of a class.
fn time(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{} us", ns / 1000),
        1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}

/// The functions that allocated most.
fn sums(stacks: &Stacks) -> Vec<(&str, Weight, Sum)> {
    let mut sums: HashMap<&str, Sum> = HashMap::new();
    for stack in &stacks.stacks {
        let sum = sums.entry(stacks.function(stack)).or_default();
        match stack.lifetime {
            Some(class) => sum.freed[class] += stack.weight.bytes,
            None => sum.live += stack.weight.bytes,
        }
    }
    let all = ordered(stacks.by_function()).into_iter();
    all.map(|(name, weight)| (name, weight, sums.remove(name).unwrap_or_default())).collect()
}

/// The functions with the most bytes, and how long these lived.
pub fn table(stacks: &Stacks, screen: Screen) -> String {
    let row = |(name, weight, sum): &(&str, Weight, Sum)| {
        let share = |bytes| format!("{:.1} %", percent(bytes, weight.bytes));
        let (young, freed) = (sum.freed_before(YOUNG), sum.freed_before(CLASSES));
        let (half, most) = (sum.below(50), sum.below(90));
        vec![amount(weight.bytes), share(freed), share(young), half, most, name.to_string()]
    };
    let rows = sums(stacks).iter().take(ROWS).map(row).collect();
    let head = ["allocated", "freed", "in 1 ms", "half below", "90 % below", "function"];
    Texts { head: &head, rows, name: 5 }.table(screen) + "\n" + &screen.wrapped(&estimated(stacks))
}

pub fn json(stacks: &Stacks) -> Vec<Value> {
    let row = |(name, _, sum): (&str, Weight, Sum)| {
        let freed = sum.freed.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        let freed =
            freed.map(|(class, bytes)| json!({"below_ns": below_ns(class), "bytes": bytes}));
        json!({"function": name, "live_bytes": sum.live, "freed": freed.collect::<Vec<_>>()})
    };
    sums(stacks).into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pprof::Kind;
    use super::*;

    #[test]
    fn limits_are_those_of_the_library() {
        let limits: Vec<u64> = (0..).map_while(below_ns).collect();
        assert_eq!(limits[..6], [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000]);
        assert_eq!((limits.len(), limits.last()), (CLASSES - 1, Some(&1_000_000_000_000)));
        assert_eq!(below_ns(YOUNG - 1), Some(1_000_000));
        for class in 0..CLASSES {
            assert_eq!(class_from(least_ns(class) as i64), Some(class));
        }
        assert_eq!((class_from(1), class_from(-1)), (None, None));
    }

    #[test]
    fn parts_sum_to_what_was_allocated() {
        let mut site = Site { allocated: Weight { objects: 4.0, bytes: 400 }, ..Site::default() };
        (site.freed[0], site.freed[17]) = (100, 200);
        let weight = |objects, bytes| Weight { objects, bytes };
        let parts = [(Some(0), weight(1.0, 100)), (Some(17), weight(2.0, 200))];
        assert_eq!(site.by_lifetime(), [&parts[..], &[(None, weight(1.0, 100))]].concat());
        site.freed[1] = u64::MAX; // a file may say that
        assert_eq!(site.by_lifetime().len(), 3);
    }

    #[test]
    fn a_row_says_how_much_died_young() {
        let mut stacks = Stacks::new("t".into(), Kind::Allocated, 1 << 19);
        let f = stacks.number("f");
        for (lifetime, mib) in [(Some(4), 5), (Some(5), 3), (Some(17), 1), (None, 1)] {
            let weight = Weight { objects: 1.0, bytes: mib << 20 };
            stacks.add_lived(vec![f], weight, Vec::new(), lifetime).unwrap();
        }
        let wide = Screen { width: 200, unicode: false, moves: false, styles: false };
        let text = table(&stacks, wide);
        let row = text.lines().find(|line| line.contains(" f ")).unwrap();
        let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(row.contains("10.0 MiB 90.0 % 50.0 % 1 ms longer f"), "{text}");
        let freed = json!([{"below_ns": 1_000_000, "bytes": 5 << 20},
            {"below_ns": 3_000_000, "bytes": 3 << 20}, {"below_ns": null, "bytes": 1 << 20}]);
        assert_eq!(
            json(&stacks),
            [json!({"function": "f", "live_bytes": 1 << 20, "freed": freed})]
        );
        assert_eq!(Sum::default().below(50), "-");
    }
}
