//! The profile that a running process writes into a file while it samples: GLEBE_PROFILE is in its environment.
//!
//! The library writes PATH.PID.N at most once a second, as it allocates (src/debug/profile.c). We read the newest, by
//! the process's own root and working directory, so this works for a process in a container.

use super::pprof::Kind;
use super::raw::Profile;
use super::stacks_of;
use super::symbols::Symbols;
use crate::system::live::text_of;
use crate::top::Sites;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::SystemTime;

/// Functions that are kept.
const FUNCTIONS: usize = 10;

pub struct Written {
    folder: PathBuf,
    /// The file's name, without the number of the program.
    prefix: String,
    symbols: Symbols,
    /// When the file was written last, and how much had been allocated.
    last: Option<(SystemTime, u64)>,
    sites: Sites,
}

impl Written {
    /// None if the process writes no profile.
    pub fn of(pid: i32) -> Option<Written> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut all = environment.split(|byte| *byte == 0);
        let path = all.find_map(|variable| variable.strip_prefix(b"GLEBE_PROFILE="))?;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        let from = if path.is_absolute() { "root" } else { "cwd" };
        let base = PathBuf::from(format!("/proc/{pid}/{from}"));
        let path = base.join(path.strip_prefix("/").unwrap_or(&path));
        let name = path.file_name()?.to_str()?;
        Some(Written {
            folder: path.parent()?.into(),
            prefix: format!("{name}.{}.", inner_pid(pid)),
            symbols: Symbols::default(),
            last: None,
            sites: Sites::default(),
        })
    }

    /// The file of the newest program that the process became by exec.
    fn newest(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(&self.folder).ok()?.flatten();
        let numbered = entries.filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(&self.prefix)?.parse::<u32>().ok()?;
            Some((number, entry.path()))
        });
        numbered.max().map(|(_, path)| path)
    }

    /// What the file says now. None before it was written.
    pub fn read(&mut self) -> Option<Sites> {
        let path = self.newest()?;
        let at = fs::metadata(&path).ok()?.modified().ok()?;
        let is_new = self.last.is_none_or(|(last, _)| last != at);
        // A file that is being written has no end yet: then what was read before stays.
        let bytes = is_new.then(|| fs::read(&path).ok()).flatten();
        if let Some(profile) = bytes.and_then(|bytes| Profile::of_bytes(&bytes).ok()) {
            self.update(&profile, at);
        }
        let age = SystemTime::now().duration_since(self.last?.0).unwrap_or_default();
        Some(Sites { age_s: age.as_secs_f64(), ..self.sites.clone() })
    }

    fn update(&mut self, profile: &Profile, at: SystemTime) {
        let all =
            profile.sites.iter().fold(0, |sum: u64, site| sum.saturating_add(site.allocated.bytes));
        self.sites.rate = self.last.and_then(|(last, before)| {
            let seconds = at.duration_since(last).ok()?.as_secs_f64();
            (seconds > 0.0).then(|| all.saturating_sub(before) as f64 / seconds)
        });
        self.last = Some((at, all));
        let Ok(stacks) = stacks_of(profile, Kind::Live, false, &mut self.symbols) else { return };
        self.sites.live_bytes = stacks.total_bytes;
        let mut functions: Vec<(String, u64)> =
            stacks.by_function().into_iter().map(|(name, sum)| (name.into(), sum.bytes)).collect();
        functions.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        functions.truncate(FUNCTIONS);
        self.sites.functions = functions;
    }
}

/// The process's id as it sees it itself, in a container.
fn inner_pid(pid: i32) -> i32 {
    let status = text_of(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.and_then(|ids| ids.split_whitespace().last()?.parse().ok()).unwrap_or(pid)
}
