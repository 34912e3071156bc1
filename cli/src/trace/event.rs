//! What a program did with its memory: calls in their order over all threads, on blocks with numbers for names.

use crate::words::plain;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// The call that allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Malloc,
    Calloc,
    /// aligned_alloc, posix_memalign, memalign, valloc, pvalloc, and new with an alignment.
    Aligned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A new block. Ids count up from 0.
    Allocate {
        kind: Kind,
        id: u64,
        bytes: u64,
        align_log2: u8,
    },
    /// realloc of a block, which keeps its id.
    Resize {
        id: u64,
        bytes: u64,
    },
    Free {
        id: u64,
    },
    /// An allocation or realloc of so many bytes returned NULL.
    Fail {
        bytes: u64,
    },
}

/// A call, when and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the recording began; never less than that of the event before.
    pub at_ns: u64,
    /// From 0, in the order of first calls.
    pub thread: u32,
    pub call: Call,
}

/// What a trace says of its process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// No words, ids or dates of the process.
    pub anonymous: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub process: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<u64>,
    /// Nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub date_ns: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub command: Vec<String>,
}

impl About {
    /// The same without words, ids and dates.
    pub fn anonymous() -> About {
        About { anonymous: true, ..About::default() }
    }

    /// The command line, as a person would read it.
    pub fn title(&self) -> String {
        match self.command.is_empty() {
            true => "an anonymous program".into(),
            false => plain(&self.command.join(" ")),
        }
    }
}

/// What is known after the last event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub events: u64,
    pub threads: u32,
    /// Frees and reallocs of blocks from before the recording, or that the recorder did not see. They are no events.
    pub unknown_frees: u64,
    /// The errno that ended the recording before the program ended; 0: none.
    pub stopped: u32,
}

/// A source of events: a raw file or a trace.
pub trait Source {
    fn about(&self) -> &About;
    /// None after the last.
    fn next(&mut self) -> Result<Option<Event>>;
    /// Right after the last event.
    fn totals(&self) -> &Totals;
}
