//! Collects the statistics that the processes of one run print at their exit: the program's own come first, and one
//! line sums up its children.
//!
//! ```text
//!   glebe run --stats ──▶ GLEBE_TOOL_STATS=FILE ──▶ the program and its descendants
//!       FILE, a line of JSON from each ──▶ one text, and one line ──▶ stderr
//! ```
//!
//! The library appends to an existing file; if it cannot, it writes to stderr. So a process of another user, in a
//! chroot, or that outlives this command still prints its statistics.

use super::statistics::{summary, Statistics};
use crate::args::StatsFormat;
use crate::words::{say, tell};
use std::env;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

/// What was there to print; if not all, why.
pub enum Printed {
    All,
    Children(String),
    Nothing(String),
}

/// The file. Dropping this removes it.
pub struct Collection(PathBuf);

impl Collection {
    /// Makes the file, for this user alone.
    pub fn begin() -> io::Result<Collection> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("glebe-stats-{}-{}", process::id(), now.as_nanos());
        let path = fs::canonicalize(env::temp_dir())?.join(name);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Collection(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Prints the collected statistics of the program, which was process `pid`, and of its children.
    pub fn print(&self, program: &str, pid: i32, format: StatsFormat) -> Printed {
        let text = fs::read(&self.0).unwrap_or_default();
        let _ = fs::remove_file(&self.0); // a reader of stderr that is gone ends this command
        let text = String::from_utf8_lossy(&text);
        let (own, children) = text
            .lines()
            .filter_map(Statistics::parse)
            .partition::<Vec<_>, _>(|statistics| i64::from(statistics.pid) == i64::from(pid));
        match format {
            StatsFormat::Text => {
                own.iter().for_each(|statistics| tell(statistics.text()));
                summary(program, &children).iter().for_each(say);
            }
            StatsFormat::Json => {
                own.iter().chain(&children).for_each(|statistics| tell(statistics.json()));
            }
        }
        let why = format!(
            "{program}[{pid}] printed no statistics: it ended by a signal or by _exit, or glebe was not in it"
        );
        match (own.is_empty(), children.is_empty()) {
            (false, _) => Printed::All,
            (true, false) => Printed::Children(why),
            (true, true) => Printed::Nothing(why),
        }
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
