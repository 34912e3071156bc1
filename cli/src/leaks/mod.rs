//! `glebe leaks`: blocks that malloc handed out, and that nothing in the process refers to.
//!
//! ```text
//!   stop   all threads, by ptrace, and their registers       mirror  memory read while the process runs; in the stop
//!   copy   what the search needs, of a mirror or a twin              only what was written since
//!   mark   live blocks, and which of them the roots reach    track   the kernel tells what was written
//!   inject a system call in the process                      twin    a clone of the process, which never runs
//!   room   memory for a copy                                 options
//! ```
//!
//! We read from outside: the process needs no code for this, and a process that hangs can be searched too. What leaks
//! in two looks is reported: a thread that was stopped inside malloc may have free blocks on no list.
//! docs/decisions/0048 and 0067 have the alternatives.

mod copy;
mod inject;
mod mark;
mod mirror;
mod options;
mod room;
mod stop;
mod track;
mod twin;

pub use options::Options;

use crate::explain::program::{self, Moment};
use crate::explain::show::NOW;
use crate::profile::sites::Sites;
use crate::profile::tell_missing;
use crate::screen::Screen;
use crate::size::{amount, counted};
use crate::stop::{with_result, without_result, Ending};
use crate::system::live::{maps_of, or_ended, there_is};
use crate::words::{cut, print};
use anyhow::Result;
use copy::Snapshot;
use mark::Blocks;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Runs the command.
pub fn leaks(options: &Options) -> Result<Ending> {
    if let Some(pid) = options.target.pid {
        let found = find(pid, false)?;
        report(options, &found, NOW)?;
        return Ok(Ending::Exit(0));
    }
    let mut found = None;
    let (name, ending) = program::run(
        &options.target.program,
        options.force,
        options.mean,
        Moment::Exit,
        |pid, _| found = Some(find(pid, true)),
    )?;
    match found {
        Some(found) => {
            let shown = found.and_then(|found| report(options, &found, Moment::Exit.text()));
            with_result(ending, shown)
        }
        None => without_result(ending, program::unseen(&name, "searched")),
    }
}

/// What is shown of a site; JSON has all frames.
const SITE_COLUMNS: usize = 37;

/// Of which blocks a row is: those of a size, or the sampled ones of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Bytes(u64),
    Site(u32),
}

/// Leaked blocks of one site, or of one size.
#[derive(Debug, Default, Clone, Copy)]
struct Leak {
    blocks: u64,
    bytes: u64,
    /// No other leaked block refers to them.
    first_blocks: u64,
}

struct Found {
    program: String,
    pid: i32,
    /// Each with what the text calls it, and the frames of its site.
    rows: Vec<(String, Vec<String>, Leak)>,
    sampled: bool,
    live_blocks: u64,
    live_bytes: u64,
    threads: usize,
    stopped: Duration,
    read_before_stop: bool,
}

fn look(pid: i32, at_exit: bool) -> Result<(Snapshot, Blocks)> {
    let copy = copy::copy(pid, at_exit)?;
    let mut blocks = Blocks::of(&copy);
    blocks.mark(&copy);
    Ok((copy, blocks))
}

/// Looks twice if there are leaks and threads that may have run inside malloc.
fn look_twice(pid: i32, at_exit: bool) -> Result<(Snapshot, Blocks)> {
    let (first, blocks) = look(pid, at_exit)?;
    let leaked = blocks.leaked();
    let only_waits = at_exit && first.threads <= 1;
    if leaked.is_empty() || only_waits {
        return Ok((first, blocks));
    }
    let (times, stopped) = (first.times.clone(), first.stopped);
    drop((first, blocks)); // as large as the process
    stop::wait_to_run(pid, &times);
    let (mut copy, mut blocks) = look(pid, at_exit)?;
    blocks.keep(&leaked);
    copy.stopped = copy.stopped.max(stopped);
    Ok((copy, blocks))
}

fn find(pid: i32, at_exit: bool) -> Result<Found> {
    there_is(pid)?;
    maps_of(pid).map_err(|error| or_ended(pid, error))?;
    let (mut copy, blocks) = look_twice(pid, at_exit).map_err(|error| or_ended(pid, error))?;
    let modules = std::mem::take(&mut copy.modules);
    let mut sites = copy.samples.take().map(|samples| Sites::new(samples, modules));
    tell_missing(sites.as_ref().map_or(0, |sites| sites.lost()));
    let key = |block: &mark::Block| {
        let site = sites.as_ref().and_then(|sites| sites.of(block.start));
        site.map_or(Key::Bytes(block.bytes), Key::Site)
    };
    let mut leaks: BTreeMap<Key, Leak> = BTreeMap::new();
    let (mut live_blocks, mut live_bytes) = (0, 0);
    blocks.each(|block, reached| {
        live_blocks += 1;
        live_bytes += block.bytes;
        if !reached {
            let leak = leaks.entry(key(&block)).or_default();
            leak.blocks += 1;
            leak.bytes += block.bytes;
        }
    });
    for block in blocks.first_of_leaks(&copy) {
        leaks.entry(key(&block)).or_default().first_blocks += 1;
    }
    let mut rows: Vec<_> = leaks.into_iter().collect();
    rows.sort_by_key(|(_, leak)| std::cmp::Reverse(leak.bytes));
    let rows = rows.into_iter().map(|(key, leak)| match (key, &mut sites) {
        (Key::Site(site), Some(sites)) => (sites.text(site), sites.frames(site).to_vec(), leak),
        (Key::Bytes(bytes), _) => (format!("{bytes} bytes"), Vec::new(), leak),
        (Key::Site(_), None) => unreachable!("a site is of samples"),
    });
    let rows = rows.collect();
    if let Some(sites) = &sites {
        sites.tell_unread();
    }
    let (program, threads, stopped) = (copy.program.clone(), copy.threads, copy.stopped);
    let (sampled, read_before_stop) = (sites.is_some(), copy.read_before_stop);
    Ok(Found {
        program,
        pid,
        rows,
        sampled,
        live_blocks,
        live_bytes,
        threads,
        stopped,
        read_before_stop,
    })
}

impl Found {
    fn text(&self, moment: &str) -> String {
        let (blocks, bytes) = self.sums();
        let mut out = format!("glebe: {}[{}]: ", self.program, self.pid);
        let mut live = counted(self.live_blocks as usize, "block") + " live";
        if self.live_blocks > 0 {
            let _ = write!(live, ", {}", amount(self.live_bytes));
        }
        if blocks == 0 {
            let _ = write!(out, "no leaks {moment} ({live})");
        } else {
            let _ = write!(
                out,
                "{}, {}, leaked {moment} ({live})",
                counted(blocks as usize, "block"),
                amount(bytes)
            );
            let _ = write!(out, "\n  {:>14}{:>12}{:>12}   site", "bytes", "blocks", "first");
            for (site, frames, leak) in &self.rows {
                let (blocks, first) = (leak.blocks, leak.first_blocks);
                let of = if frames.is_empty() { "blocks of " } else { "" };
                let site = cut(site, SITE_COLUMNS);
                let _ = write!(
                    out,
                    "\n  {:>14}{blocks:>12}{first:>12}   {of}{site}",
                    amount(leak.bytes)
                );
            }
            out += "\nFirst: no other leaked block refers to it.\n";
            out += match self.sampled {
                true => "Sampled blocks have their site (--json has all of it); other rows are block sizes.",
                false => "Sites are not recorded: each row is a block size (--mean 1 records all).",
            };
        }
        if self.threads > 0 {
            let threads = counted(self.threads, "thread");
            let _ = write!(
                out,
                "\n{threads} stopped for {:.1} ms at most.",
                self.stopped.as_secs_f64() * 1e3
            );
        }
        out
    }

    fn sums(&self) -> (u64, u64) {
        self.rows.iter().fold((0, 0), |sum, (.., leak)| (sum.0 + leak.blocks, sum.1 + leak.bytes))
    }

    fn json(&self, moment: &str) -> String {
        let mut leaks = Vec::new();
        for (site, frames, leak) in &self.rows {
            let (blocks, bytes, first) = (leak.blocks, leak.bytes, leak.first_blocks);
            leaks.push(json!({
                "blocks": blocks, "bytes": bytes, "site": site, "frames": frames, "first_blocks": first,
            }));
        }
        let (blocks, bytes) = self.sums();
        json!({
            "program": self.program,
            "pid": self.pid,
            "moment": moment,
            "leaked_blocks": blocks,
            "leaked_bytes": bytes,
            "leaks": leaks,
            "sites_recorded": self.sampled,
            "live_blocks": self.live_blocks,
            "live_bytes": self.live_bytes,
            "threads": self.threads,
            "stopped_ms": self.stopped.as_micros() as f64 / 1e3,
            "read_before_stop": self.read_before_stop,
        })
        .to_string()
    }
}

fn report(options: &Options, found: &Found, moment: &str) -> Result<()> {
    print(match options.json {
        true => found.json(moment),
        false => Screen::stdout().wrapped(&found.text(moment)),
    })
}
