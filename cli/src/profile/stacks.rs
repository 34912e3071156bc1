//! Stacks with their bytes: what tables, folded lines and pictures are made of.
//!
//! ```text
//!   a process's text (raw) ─┐
//!                           ├─▶ Stacks: names once, a stack = their numbers, the outermost caller first
//!   a pprof file (reader) ──┘
//! ```

use super::pprof::Kind;
use super::raw::Weight;
use crate::words::plain;
use anyhow::{ensure, Context, Result};
use std::collections::{BTreeMap, HashMap};

/// More bytes than this are no profile of a program. So the sums of two profiles fit in 64 bits.
pub const BYTES_MOST: u64 = i64::MAX as u64;

/// Characters of a name that are kept.
const NAME_MOST: usize = 4096;
/// A longer text of folded lines is not written.
const FOLDED_MOST: usize = 1 << 30;

/// One stack.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// Numbers of names, the outermost caller first.
    pub frames: Vec<u32>,
    pub weight: Weight,
    /// Keys and values, as numbers of names.
    pub labels: Vec<(u32, u32)>,
    /// The class of its blocks' lifetimes, if they were freed and the profile says so.
    pub lifetime: Option<usize>,
}

/// All stacks of one state of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Stacks {
    /// The program, or the file.
    pub title: String,
    pub kind: Kind,
    /// Bytes between two samples on average; 0: not known.
    pub mean_bytes: u64,
    pub names: Vec<String>,
    pub stacks: Vec<Stack>,
    pub total_bytes: u64,
    /// What the file's writer said of it.
    pub notes: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Stacks {
    pub fn new(title: String, kind: Kind, mean_bytes: u64) -> Stacks {
        Stacks {
            title,
            kind,
            mean_bytes,
            names: Vec::new(),
            stacks: Vec::new(),
            total_bytes: 0,
            notes: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    /// The number of a name. Control characters would break lines and pictures.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(plain(name).chars().take(NAME_MOST).collect());
        self.numbers.insert(name.into(), number);
        number
    }

    /// Adds a stack without labels and lifetimes, unless it has no bytes.
    #[cfg(test)]
    pub fn add(&mut self, frames: Vec<u32>, weight: Weight) -> Result<()> {
        self.add_lived(frames, weight, Vec::new(), None)
    }

    /// Adds a stack, unless it has no bytes.
    pub fn add_lived(
        &mut self,
        frames: Vec<u32>,
        weight: Weight,
        labels: Vec<(u32, u32)>,
        lifetime: Option<usize>,
    ) -> Result<()> {
        if weight.bytes == 0 {
            return Ok(());
        }
        let total = self.total_bytes.checked_add(weight.bytes).filter(|sum| *sum <= BYTES_MOST);
        self.total_bytes = total.context("it has more bytes than any memory")?;
        self.stacks.push(Stack { frames, weight, labels, lifetime });
        Ok(())
    }

    /// How many samples the sums rest on, about. A block of b bytes is sampled with probability 1 - exp(-b / mean), and
    /// a sample stands for one over that many blocks.
    pub fn samples(&self) -> usize {
        let of = |weight: Weight| {
            let each = weight.bytes as f64 / weight.objects.max(1.0);
            let chance = -(-each / self.mean_bytes.max(1) as f64).exp_m1();
            (weight.objects * chance).round().max(1.0)
        };
        self.stacks.iter().map(|stack| of(stack.weight)).sum::<f64>() as usize
    }

    /// The sums by innermost caller.
    pub fn by_function(&self) -> HashMap<&str, Weight> {
        let mut sums: HashMap<&str, Weight> = HashMap::new();
        for stack in &self.stacks {
            *sums.entry(self.function(stack)).or_default() += stack.weight;
        }
        sums
    }

    /// The innermost caller.
    pub fn function(&self, stack: &Stack) -> &str {
        stack.frames.last().map_or(NO_CALLERS, |at| &self.names[*at as usize])
    }

    /// The sums by label: its key and its value.
    pub fn by_label(&self) -> BTreeMap<(&str, &str), Weight> {
        let mut sums: BTreeMap<(&str, &str), Weight> = BTreeMap::new();
        let name = |at: u32| &*self.names[at as usize];
        for stack in &self.stacks {
            for (key, value) in &stack.labels {
                let sum = sums.entry((name(*key), name(*value))).or_default();
                *sum += stack.weight;
            }
        }
        sums
    }

    /// The sums by the values of one label; stacks without it are one row.
    pub fn by_value(&self, key: &str) -> HashMap<&str, Weight> {
        let mut sums: HashMap<&str, Weight> = HashMap::new();
        let name = |at: u32| &*self.names[at as usize];
        for stack in &self.stacks {
            let label = stack.labels.iter().find(|(of, _)| name(*of) == key);
            let sum = sums.entry(label.map_or(NO_LABEL, |(_, value)| name(*value))).or_default();
            *sum += stack.weight;
        }
        sums
    }

    /// Stacks as folded lines name them, each once, in order. Names cannot contain the separators.
    pub fn folded(&self) -> Result<Vec<(String, u64)>> {
        let names: Vec<String> = self.names.iter().map(|name| name.replace(';', ":")).collect();
        let length = |at: &u32| names[*at as usize].len() + 1;
        let lengths = self.stacks.iter().flat_map(|stack| stack.frames.iter().map(length));
        ensure!(lengths.sum::<usize>() <= FOLDED_MOST, "its folded lines would have over 1 GiB");
        let mut sums: HashMap<String, u64> = HashMap::new();
        for stack in &self.stacks {
            let words: Vec<&str> = stack.frames.iter().map(|at| &*names[*at as usize]).collect();
            let line = if words.is_empty() { NO_CALLERS.into() } else { words.join(";") };
            *sums.entry(line).or_default() += stack.weight.bytes;
        }
        let mut lines: Vec<_> = sums.into_iter().collect();
        lines.sort();
        Ok(lines)
    }
}

/// The row of stacks without the label.
pub const NO_LABEL: &str = "(no label)";
/// The name of a stack without a frame.
pub const NO_CALLERS: &str = "(no callers)";

impl Kind {
    /// What the bytes are, in words.
    pub fn text(self) -> &'static str {
        match self {
            Kind::Live => "in use at the end",
            Kind::Allocated => "allocated",
            Kind::Peak => "in use at the peak",
        }
    }

    /// The same for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Live => "live",
            Kind::Allocated => "alloc",
            Kind::Peak => "peak",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(bytes: u64) -> Weight {
        Weight { objects: 1.0, bytes }
    }

    #[test]
    fn equal_stacks_are_one_line() {
        let mut stacks = Stacks::new("p".into(), Kind::Live, 0);
        let (main, f) = (stacks.number("main"), stacks.number("f;\x1b(int)"));
        assert_eq!(stacks.number("main"), main);
        for (frames, bytes) in [(vec![main, f], 5), (vec![main], 1), (vec![main, f], 2)] {
            stacks.add(frames, weight(bytes)).unwrap();
        }
        stacks.add(vec![], weight(3)).unwrap();
        stacks.add(vec![f], weight(0)).unwrap();
        let lines = [(NO_CALLERS, 3), ("main", 1), ("main;f:?(int)", 7)];
        assert_eq!(stacks.folded().unwrap(), lines.map(|(line, bytes)| (line.to_string(), bytes)));
        assert_eq!(stacks.total_bytes, 11);
        let sums = stacks.by_function();
        assert_eq!((sums["main"].bytes, sums["f;?(int)"].objects), (1, 2.0));
    }

    #[test]
    fn labels_have_sums() {
        let mut stacks = Stacks::new("p".into(), Kind::Live, 0);
        let [key, a, b, main] = ["tenant", "a", "b", "main"].map(|name| stacks.number(name));
        for (labels, bytes) in [(vec![(key, a)], 5), (vec![(key, b)], 2), (vec![(key, a)], 1)] {
            stacks.add_lived(vec![main], weight(bytes), labels, None).unwrap();
        }
        stacks.add(vec![main], weight(9)).unwrap();
        let sums = stacks.by_value("tenant");
        assert_eq!([sums["a"].bytes, sums["b"].bytes, sums[NO_LABEL].bytes], [6, 2, 9]);
        let sums: Vec<_> = stacks.by_label().into_iter().map(|(k, sum)| (k, sum.bytes)).collect();
        assert_eq!(sums, [(("tenant", "a"), 6), (("tenant", "b"), 2)]);
        assert_eq!(stacks.by_value("other").len(), 1);
    }

    #[test]
    fn samples_are_known_from_their_weights() {
        let mut stacks = Stacks::new("p".into(), Kind::Live, 1000);
        // 1 in 10.5 blocks of 100 bytes, 1 in 1.58 of 1000; of one block of a million, that.
        for (objects, bytes) in [(105.0, 10_500), (16.0, 16_000), (1.0, 1_000_000), (1.0, 40)] {
            stacks.add(vec![], Weight { objects, bytes }).unwrap();
        }
        assert_eq!(stacks.samples(), 10 + 10 + 1 + 1);
    }

    #[test]
    fn sums_stay_below_any_memory() {
        let mut stacks = Stacks::new("p".into(), Kind::Live, 0);
        stacks.add(vec![], weight(BYTES_MOST)).unwrap();
        assert!(stacks.add(vec![], weight(1)).unwrap_err().to_string().contains("any memory"));
        assert_eq!(stacks.total_bytes, BYTES_MOST);
    }
}
