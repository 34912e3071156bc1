//! `glebe record`, `glebe replay` and `glebe trace`: a program's allocations as a file.
//!
//! ```text
//!   record   the program with libglebe-record.so ──▶ raw files ──▶ traces
//!   replay   a trace ──▶ plan ──▶ glebe-replayer under each allocator ──▶ the table of `glebe compare`
//!   trace    a trace ──▶ analysis ──▶ tables, JSON, a picture
//!
//!   event    calls, and the trait of their sources       raw      the recorder's files
//!   format   traces, written and read                    hostile  tests with damaged files
//! ```

mod analysis;
mod event;
mod format;
#[cfg(test)]
mod hostile;
mod picture;
mod plan;
mod raw;
mod record;
mod replay;
mod show;

pub use record::record;
pub use replay::replay;
pub use show::show;

use anyhow::{bail, Context, Result};
use event::Source;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// Opens a trace, or a raw file that was never made into one.
fn open(path: &Path) -> Result<Box<dyn Source>> {
    let shown = || path.display().to_string();
    let mut head = [0u8; 8];
    if path.is_dir() {
        bail!("{}: a directory; name one of the files in it", path.display());
    }
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    match read {
        Ok(()) if head == format::MAGIC => Ok(Box::new(format::Reader::open(path)?)),
        Ok(()) if head == raw::MAGIC => Ok(Box::new(raw::Raw::open(path)?)),
        Err(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => Err(e).with_context(shown),
        _ => bail!("{} is no trace of glebe", path.display()),
    }
}

/// Bytes that a live block takes in a reader, about.
const BLOCK_BYTES: u64 = 128;

/// A small file can claim any number of blocks. An error if they need more than half of the machine's memory.
fn check_live(blocks: usize) -> Result<()> {
    static MOST: OnceLock<u64> = OnceLock::new();
    let most = *MOST.get_or_init(|| memory_bytes() / 2 / BLOCK_BYTES);
    match blocks as u64 > most {
        true => {
            bail!("the trace has more than {most} live blocks, too many for this machine's memory")
        }
        false => Ok(()),
    }
}

fn memory_bytes() -> u64 {
    // SAFETY: sysconf only reads.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(u64::MAX).saturating_mul(u64::try_from(page).unwrap_or(4096))
}
