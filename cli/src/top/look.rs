//! One look at a process.

use crate::explain::{settled, Explanation};
use crate::profile::Written;
use crate::system::live::{stat_of, statistic_of};
use anyhow::{bail, Result};
use std::time::Instant;

/// What a process is doing at one moment.
pub struct Look {
    pub at: Instant,
    pub explanation: Explanation,
    /// Since the process began.
    pub faults: u64,
    pub cpu_ticks: u64,
    pub threads: u64,
    /// Of glebe.
    pub heaps: Option<u64>,
    pub sites: Option<Sites>,
}

/// What the profile of the process says, as it was written last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sites {
    /// Bytes allocated in a second; None before the profile was written twice.
    pub rate: Option<f64>,
    pub live_bytes: u64,
    /// Functions with the most live bytes.
    pub functions: Vec<(String, u64)>,
    pub age_s: f64,
}

/// A process that is looked at again and again.
pub struct Watched {
    pid: i32,
    name: Option<String>,
    /// When it began: another process may get its id.
    began: Option<String>,
    written: Option<Written>,
}

impl Watched {
    pub fn new(pid: i32) -> Result<Watched> {
        let Some(words) = stat_of(pid) else { bail!("there is no process {pid}") };
        Ok(Watched { pid, name: None, began: words.get(19).cloned(), written: Written::of(pid) })
    }

    pub fn name(&self) -> String {
        match &self.name {
            Some(name) => format!("{name}[{}]", self.pid),
            None => format!("process {}", self.pid),
        }
    }

    /// Whether the process that we watched is gone.
    pub fn has_ended(&self) -> bool {
        let words = stat_of(self.pid);
        let state = words.as_ref().and_then(|words| words.first()).map_or("X", |state| state);
        let began = words.as_ref().and_then(|words| words.get(19));
        matches!(state, "Z" | "X") || began != self.began.as_ref()
    }

    pub fn look(&mut self) -> Result<Look> {
        let pid = self.pid;
        let explanation = settled(pid)?.explain();
        self.name = Some(explanation.program.clone());
        let words = stat_of(pid).unwrap_or_default();
        let number = |at: usize| words.get(at).and_then(|w| w.parse::<u64>().ok()).unwrap_or(0);
        Ok(Look {
            at: Instant::now(),
            faults: number(7) + number(9),
            cpu_ticks: number(11) + number(12),
            threads: number(17),
            heaps: statistic_of(pid, "heaps"),
            sites: self.written.as_mut().and_then(Written::read),
            explanation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_once() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let mut watched = Watched::new(child.id() as i32).unwrap();
        assert!(!watched.has_ended());
        let look = watched.look().unwrap();
        assert_eq!((look.threads, look.heaps), (1, None));
        assert!(look.explanation.rss_bytes() > 0 && look.sites.is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(watched.has_ended());
        assert!(watched.look().is_err());
        // Another process with its id is another one.
        let mut own = Watched::new(std::process::id() as i32).unwrap();
        assert!(!own.has_ended());
        own.began = Some("1".into());
        assert!(own.has_ended());
    }
}
