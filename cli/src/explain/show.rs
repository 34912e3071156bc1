//! An explanation in words and as JSON (docs/json.md has the fields), and the advice.

use super::part::Part;
use super::parts::Explanation;
use super::process::{Limit, OWN_LIMIT};
use crate::screen::Screen;
use crate::size::{amount, percent};
use crate::words::cut;
use serde_json::{json, Map, Value};
use std::fmt::Write;

/// The moment of a look at a process that runs on.
pub const NOW: &str = "now";
/// Classes with the most resident bytes.
const CLASSES_SHOWN: usize = 8;
const MAPPINGS_SHOWN: usize = 5;
const PINS_SHOWN: usize = 6;
const SITE_COLUMNS: usize = 41;
/// The bar of a whole resident set, if there is room for it beside the numbers.
const BAR_COLUMNS: usize = 30;
const PART_COLUMNS: usize = 55;

pub fn text(e: &Explanation, moment: &str, screen: Screen) -> String {
    let rss = e.rss_bytes();
    let head = format!("glebe: {}[{}]: resident set {moment}", e.program, e.pid);
    let mut out = screen.wrapped(&head);
    let mut line = |text: String| {
        let _ = write!(out, "\n{}", screen.wrapped(text.trim_end()));
    };
    let bar_columns = BAR_COLUMNS.min(screen.width.saturating_sub(PART_COLUMNS)) as f64;
    // On a narrow screen there is no room for columns.
    let row = |name: &str, bytes: u64| match screen.width >= PART_COLUMNS {
        true => format!("  {name:<28}{:>14}", amount(bytes)),
        false => format!("  {name}: {}", amount(bytes)),
    };
    for part in Part::ALL {
        let bytes = e.part(part);
        if bytes == 0 {
            continue;
        }
        let share = percent(bytes, rss);
        let bar = "#".repeat((share / 100.0 * bar_columns).round() as usize);
        line(format!("{}{share:>7.1} %  {bar}", row(part.text(), bytes)));
    }
    line(row("resident set", rss));
    if e.swap_bytes > 0 {
        line(row("and in swap", e.swap_bytes));
    }
    if e.glebes.is_empty() {
        line(String::new());
        line(
            "No glebe is in this process: the parts are what the kernel knows of its mappings."
                .into(),
        );
    } else {
        details(e, &mut line);
    }
    let of_others: Vec<_> =
        e.mappings.iter().filter(|(file, _)| !file.is_empty()).take(MAPPINGS_SHOWN).collect();
    if !of_others.is_empty() {
        line(String::new());
        line("Largest mappings of files and of the system:".into());
        for (file, bytes) in of_others {
            line(format!("  {:>12}  {file}", amount(*bytes)));
        }
    }
    line(String::new());
    for limit in limits(e) {
        let left = limit.limit_bytes.saturating_sub(limit.used_bytes);
        line(format!("Limit: {}; {} left", limit.text(), amount(left)));
    }
    line(format!("Advice: {}", advice(e, moment)));
    out
}

fn details(e: &Explanation, line: &mut impl FnMut(String)) {
    let mut rows: Vec<_> =
        e.classes.iter().filter(|(_, class)| class.live_bytes + class.free_bytes > 0).collect();
    rows.sort_by_key(|(_, class)| std::cmp::Reverse(class.live_bytes + class.free_bytes));
    if !rows.is_empty() {
        line(String::new());
        line(format!(
            "  {:>12}{:>14}{:>16}{:>16}",
            "block bytes", "live blocks", "live", "free in pages"
        ));
        for (each, class) in rows.iter().take(CLASSES_SHOWN) {
            let each = if **each == 0 { "many sizes".into() } else { each.to_string() };
            let (live, free) = (amount(class.live_bytes), amount(class.free_bytes));
            line(format!("  {each:>12}{:>14}{live:>16}{free:>16}", class.blocks));
        }
        if rows.len() > CLASSES_SHOWN {
            line(format!("  and {} more sizes (--json has all)", rows.len() - CLASSES_SHOWN));
        }
    }
    let pins = e.pins.iter().filter(|pin| pin.free_bytes > 0).take(PINS_SHOWN);
    let pins: Vec<_> = pins.collect();
    if !pins.is_empty() {
        line(String::new());
        line("Sampled blocks between free bytes, oldest first:".into());
        line(format!("  {:>12}{:>14}{:>8}   site", "block bytes", "live", "age"));
        for pin in pins {
            let (each, live) = (pin.block_bytes, amount(pin.bytes));
            let site = cut(&pin.text, SITE_COLUMNS);
            line(format!("  {each:>12}{live:>14}{:>6.0} %   {site}", pin.age_percent));
        }
    }
    line(String::new());
    if e.live_absent_bytes > 0 {
        line(format!(
            "Of live blocks {} are not resident: never touched, returned by the program, or in swap.",
            amount(e.live_absent_bytes)
        ));
    }
    line(format!(
        "Rounding of requests to block sizes is not known, since requests are not recorded: at most {} of live blocks.",
        amount(e.rounding_most_bytes)
    ));
    if e.part(Part::Retained) > 0 {
        line(goes(e));
    }
}

/// When the retained memory goes.
fn goes(e: &Explanation) -> String {
    let options = e.glebes[0].options;
    let lazy = if e.lazy_bytes > 0 {
        format!(" The kernel takes {} of it when it needs memory.", amount(e.lazy_bytes))
    } else {
        String::new()
    };
    let ms = options.purge_ms;
    let when = if options.background {
        format!("the background thread returns it {ms} ms after it was freed")
    } else {
        format!(
            "a request that comes more than {ms} ms (purge_ms) after it was freed returns it; an idle process keeps it"
        )
    };
    format!("Retained memory: {when}.{lazy}")
}

/// The limits from outside, and glebe's own.
pub fn limits(e: &Explanation) -> Vec<Limit> {
    let own = e.glebes.iter().filter(|glebe| glebe.options.limit > 0);
    let own = own.map(|glebe| Limit {
        name: OWN_LIMIT.into(),
        limit_bytes: glebe.options.limit,
        used_bytes: glebe.used_bytes,
    });
    e.limits.iter().cloned().chain(own).collect()
}

/// One sentence that names an option or a part.
fn advice(e: &Explanation, moment: &str) -> String {
    let rss = e.rss_bytes();
    let share = |part| percent(e.part(part), rss);
    if let Some(limit) =
        limits(e).into_iter().find(|limit| limit.used_bytes > limit.limit_bytes / 10 * 9)
    {
        return format!(
            "{} is over 90 % used; glebe_on_pressure lets the program drop caches before requests fail.",
            limit.name
        );
    }
    if e.glebes.is_empty() {
        let name = &e.program;
        if moment != NOW {
            return "glebe was not in it yet; --at-exit looks at its end.".into();
        }
        return format!(
            "start it as `glebe run -- {name} ...` to see its blocks, or give explain the program."
        );
    }
    let options = e.glebes[0].options;
    if share(Part::Retained) > 20.0 {
        return match options.background {
            true => "a lower purge_ms, or glebe_trim() after a phase, returns the retained memory sooner.".into(),
            false => "the option background (GLEBE_BACKGROUND=1) returns the retained memory also while the process \
                      idles."
                .into(),
        };
    }
    if share(Part::FreeInPages) > 25.0 {
        let most = e.classes.iter().max_by_key(|(_, class)| class.free_bytes);
        let of = most.map_or(String::new(), |(each, class)| {
            let each = if *each == 0 { "many sizes".into() } else { format!("{each} bytes") };
            format!(" ({} of it between blocks of {each})", amount(class.free_bytes))
        });
        return format!(
            "free bytes in pages in use{of} serve the next requests of those sizes; blocks that live long, kept in a \
             heap of their own (glebe_heap_create), would let the other pages become empty."
        );
    }
    if share(Part::HugePageExcess) > 10.0 {
        return "the option huge_pages (GLEBE_HUGE_PAGES=0) gives up huge pages for memory that was never used.".into();
    }
    let largest = Part::ALL.into_iter().max_by_key(|part| e.part(*part)).unwrap_or(Part::Others);
    let name = largest.text();
    match largest {
        part if part <= Part::LiveHuge => {
            let which =
                if moment == NOW { e.pid.to_string() } else { format!("-- {} ...", e.program) };
            format!(
                "the program holds the largest part itself ({name}): `glebe leaks {which}` says whether anything still \
                 reaches it."
            )
        }
        Part::LiveCollected => {
            format!("the largest part, {name}, shrinks with a lower percent in glebe_gc_pace.")
        }
        Part::Tables => format!("the largest part, {name}, shrinks with fewer heaps and threads."),
        _ => format!("the largest part, {name}, is not malloc's; no option of glebe changes it."),
    }
}

pub fn json(e: &Explanation, moment: &str) -> String {
    let parts: Vec<Value> =
        Part::ALL.iter().map(|part| json!({"name": part.name(), "bytes": e.part(*part)})).collect();
    let classes: Vec<Value> = e
        .classes
        .iter()
        .map(|(each, class)| {
            json!({
                "block_bytes": if *each == 0 { Value::Null } else { json!(each) },
                "live_blocks": class.blocks,
                "live_bytes": class.live_bytes,
                "free_bytes": class.free_bytes,
            })
        })
        .collect();
    let limits: Vec<Value> = limits(e).iter().map(Limit::json).collect();
    let mappings: Vec<Value> =
        e.mappings.iter().map(|(file, bytes)| json!({"name": file, "bytes": bytes})).collect();
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.into(), value);
    put("program", json!(e.program));
    put("pid", json!(e.pid));
    put("moment", json!(moment));
    put("glebe", json!(!e.glebes.is_empty()));
    put("rss_bytes", json!(e.rss_bytes()));
    put("kernel_rss_bytes", json!(e.kernel_bytes));
    put("peak_rss_bytes", json!(e.peak_bytes));
    put("swap_bytes", json!(e.swap_bytes));
    put("parts", Value::Array(parts));
    if let Some(glebe) = e.glebes.first() {
        put("live_bytes", json!(e.live_blocks_bytes));
        put("live_absent_bytes", json!(e.live_absent_bytes));
        put("rounding_bytes", Value::Null);
        put("rounding_most_bytes", json!(e.rounding_most_bytes));
        put("retained_lazy_bytes", json!(e.lazy_bytes));
        put("purge_ms", json!(glebe.options.purge_ms));
        put("background", json!(glebe.options.background));
        put("classes", Value::Array(classes));
        let pins = e.pins.iter().map(|pin| {
            json!({
                "block_bytes": pin.block_bytes,
                "live_blocks": pin.blocks,
                "live_bytes": pin.bytes,
                "age_percent": pin.age_percent,
                "class_free_bytes": pin.free_bytes,
                "frames": pin.frames,
            })
        });
        put("sites_recorded", json!(e.sampled));
        put("sites", pins.collect());
    }
    put("limits", Value::Array(limits));
    put("mappings", Value::Array(mappings));
    put("advice", json!(advice(e, moment)));
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_parts_that_sum_to_rss() {
        let e = super::super::look(std::process::id() as i32).unwrap().explain();
        let object: Value = serde_json::from_str(&json(&e, "now")).unwrap();
        let parts = object["parts"].as_array().unwrap().iter();
        let sum: u64 = parts.map(|part| part["bytes"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), object["rss_bytes"].as_u64());
        assert!(sum > 1 << 20 && object["glebe"] == false);
        for width in [20, 40, 80, 200] {
            let screen = Screen { width, unicode: false, moves: false, styles: false };
            let text = text(&e, "now", screen);
            assert!(text.lines().all(|line| line.len() <= width), "{text}");
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("No glebe is in this process: the parts are what the kernel"));
        }
    }
}
