//! Does typical work with well-known crates, under the global allocator that a feature selects, and prints its cost.
//!
//! ```text
//! glebe-bench-native            prints the workloads' names
//! glebe-bench-native json       {"cpu": seconds of this process, "peak_kib": ..., "checksum": ...}
//! ```
//!
//! The process makes its inputs from fixed seeds, which counts toward its time. The checksum is of the results, so
//! allocators with the same checksum did the same work.

use std::fmt::Write;

#[cfg(feature = "glebe")]
#[global_allocator]
static ALLOC: glebe::Heap = glebe::Heap::new();

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOC: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOC: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(feature = "snmalloc")]
#[global_allocator]
static ALLOC: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

/// A linear congruential generator of 64 bits; the upper half is used.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }

    fn word(&mut self) -> &'static str {
        const WORDS: [&str; 12] = [
            "arable", "barley", "croft", "dale", "earth", "fallow", "glebe", "hedge", "ley",
            "meadow", "orchard", "pasture",
        ];
        WORDS[self.below(WORDS.len())]
    }

    fn words(&mut self, count: usize) -> String {
        (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }
}

/// FNV-1a, over the results.
fn fold(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100000001b3))
}

type Workload = (&'static str, fn() -> u64);

const WORKLOADS: [Workload; 4] =
    [("json", json), ("regex", regex), ("markdown", markdown), ("syn", syn)];

/// serde_json: documents of some 8 KB are made as values, written, parsed and changed; the last 200 live.
fn json() -> u64 {
    use serde_json::{json, Value};
    let (mut random, mut sum, mut live) = (Random(1), 0, vec![Value::Null; 200]);
    for number in 0..8000usize {
        let items: Vec<Value> = (0..40)
            .map(|item| {
                let count = 3 + random.below(8);
                json!({"id": number * 40 + item, "name": random.words(2), "text": random.words(count),
                    "tags": [random.word(), random.word()], "price": random.below(100_000) as f64 / 64.0,
                    "sold": random.below(2) == 0})
            })
            .collect();
        let text = json!({"number": number, "items": items}).to_string();
        let mut document: Value =
            serde_json::from_str(&text).expect("what was written can be read");
        document["items"].as_array_mut().expect("an array").retain(|item| item["sold"] == true);
        sum = fold(sum, document.to_string().as_bytes());
        live[number % 200] = document;
    }
    live.iter().fold(sum, |sum, document| sum ^ document["number"].as_u64().expect("a number"))
}

/// regex: lines of a log are matched, their parts kept as strings and counted; patterns are compiled now and then.
#[allow(clippy::regex_creation_in_loops)] // compiling them is a part of it
fn regex() -> u64 {
    use regex::Regex;
    use std::collections::BTreeMap;
    let (mut random, mut counts) = (Random(2), BTreeMap::<String, usize>::new());
    for part in 0..60 {
        let lines: Vec<String> = (0..3000)
            .map(|line| {
                format!(
                    "2026-11-{:02} 12:{:02}:{:02} [{}] 10.0.{}.{} \"GET /{}/{}?id={line}\" {} {}ms",
                    1 + random.below(30),
                    line / 60 % 60,
                    line % 60,
                    ["INFO", "WARN", "ERROR"][random.below(3)],
                    random.below(256),
                    random.below(256),
                    random.word(),
                    random.word(),
                    200 + random.below(300),
                    random.below(2000)
                )
            })
            .collect();
        let line = Regex::new(
            r#"^(\S+) (\S+) \[(\w+)\] ([\d.]+) "(\w+) ([^"?]+)\?id=(\d+)" (\d+) (\d+)ms$"#,
        )
        .expect("a pattern");
        let digits = Regex::new(&format!(r"\b{}\d*\b", part % 10)).expect("a pattern");
        for text in &lines {
            let found = line.captures(text).expect("every line matches");
            let key = format!("{} {}", &found[3], &found[6]);
            *counts.entry(key).or_default() += found[9].parse::<usize>().expect("a number");
            let hidden = digits.replace_all(text, "<$0>").into_owned();
            *counts.entry(hidden[..10].to_string()).or_default() += hidden.len();
        }
    }
    counts.iter().fold(0, |sum, (key, count)| fold(sum ^ *count as u64, key.as_bytes()))
}

/// pulldown-cmark: documents of some 30 KB are parsed into events, kept as such, and rendered.
fn markdown() -> u64 {
    use pulldown_cmark::{html::push_html, CowStr, Event, Options, Parser};
    let (mut random, mut sum) = (Random(3), 0);
    for _ in 0..400 {
        let mut text = String::new();
        for section in 0..60 {
            let count = 20 + random.below(30);
            write!(
                text,
                "## {} {section}\n\n{} *{}* `{}` [{}](https://example.org/{})\n\n\
                 - {}\n- **{}**\n\n| a | b |\n|---|---|\n| {} | {} |\n\n",
                random.word(), random.words(count), random.words(3), random.word(), random.word(), random.word(),
                random.words(6), random.words(2), random.word(), random.word()
            )
            .expect("a string takes it");
        }
        let owned = |event| match event {
            Event::Text(text) => Event::Text(CowStr::from(text.to_uppercase())),
            other => other,
        };
        let events: Vec<Event> = Parser::new_ext(&text, Options::all()).map(owned).collect();
        let mut html = String::new();
        push_html(&mut html, events.into_iter());
        sum = fold(sum, html.as_bytes());
    }
    sum
}

/// syn: Rust source of some 30 KB is parsed into a tree, and its items are counted and copied; the last 20 trees live.
fn syn() -> u64 {
    let (mut random, mut sum, mut live) = (Random(4), 0, std::collections::VecDeque::new());
    for number in 0..160 {
        let mut text = String::new();
        for item in 0..60 {
            let (a, b) = (random.word(), random.word());
            write!(
                text,
                "/// {}\n#[derive(Debug)]\npub struct S{item}<T> {{ pub {a}_a: Vec<T>, {b}_b: Option<u{}>, }}\n\
                 impl<T: Clone> S{item}<T> {{\n    pub fn {a}(&self, {b}: &str) -> Result<usize, String> {{\n        \
                 let {a} = self.{a}_a.len() * {} + {b}.len();\n        \
                 if {a} > {number} {{ return Err(format!(\"{{}}\", {a})); }}\n        \
                 match self.{b}_b {{ Some(n) if n > 3 => Ok({a} + n as usize), _ => Ok(0) }}\n    }}\n}}\n",
                random.words(5), [8, 16, 32][random.below(3)], random.below(100)
            )
            .expect("a string takes it");
        }
        let file = syn::parse_file(&text).expect("it is Rust");
        let functions = file.items.iter().filter_map(|item| match item {
            syn::Item::Impl(block) => Some(block.items.len()),
            syn::Item::Struct(item) => Some(item.fields.len() + item.attrs.len()),
            _ => None,
        });
        sum = fold(sum, &functions.sum::<usize>().to_le_bytes());
        live.push_back(file.clone());
        if live.len() > 20 {
            sum ^= live.pop_front().map_or(0, |file: syn::File| file.items.len() as u64);
        }
    }
    sum
}

/// CPU seconds of this process, in the program and in the kernel.
fn cpu() -> f64 {
    // SAFETY: all zero is a valid rusage, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The peak of this program. getrusage's peak would be that of our parent process, if that was larger.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

fn main() {
    let name = std::env::args().nth(1);
    let Some(name) = name else {
        WORKLOADS.iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let Some((_, work)) = WORKLOADS.iter().find(|(known, _)| *known == name) else {
        eprintln!("{name} is no workload");
        std::process::exit(2);
    };
    let checksum = work();
    let (cpu, peak) = (cpu(), peak_kib());
    println!("{{\"cpu\": {cpu:.6}, \"peak_kib\": {peak}, \"checksum\": {checksum}}}");
}
