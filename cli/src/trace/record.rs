//! `glebe record`: the program with the recorder in it, and then its traces.
//!
//! ```text
//!   TRACE.raw/PID-N   one for each process, while the program runs; stays if anything fails
//!   TRACE             the process with the most calls
//!   TRACE.d/PID-N     the others, if there are others
//! ```

use super::event::{About, Source, Totals};
use super::format::Writer;
use super::raw::Raw;
use crate::args::RecordOptions;
use crate::compare;
use crate::output;
use crate::program::Program;
use crate::run::{Start, Way};
use crate::stop::{with_result, Ending};
use crate::system::{self, libraries};
use crate::words::say;
use anyhow::{bail, Context, Result};
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

pub fn record(options: &RecordOptions) -> Result<Ending> {
    if cfg!(not(target_pointer_width = "64")) {
        bail!("this system has 32 bits; programs are recorded on 64 bits only so far");
    }
    let program = Program::find(&options.program)?;
    let checked = system::check(&program, options.force, None)?;
    let name = program.name.to_string_lossy();
    match checked.way {
        Way::Under => {}
        Way::StandIn(soname) => {
            say(format!("note: calls of {soname}'s own functions (mi_malloc) are not recorded"))
        }
        Way::Inside => {
            bail!("{name} has glebe linked in, where no recorder can see its calls. Build it without glebe.")
        }
    }
    let beneath = match &options.with {
        None => None,
        Some(word) => compare::choose(&[], std::slice::from_ref(word))?.remove(0).library,
    };
    let recorder = libraries::tool("libglebe-record.so")?;
    let output = Output::begin(&options.output)?;
    let raw = output.beside(".raw");
    let place = fs::canonicalize(&raw).with_context(|| raw.display().to_string())?;
    let changes = vec![("GLEBE_TOOL_RECORD", Some(OsString::from(place)))];
    let start = Start {
        program: &program,
        library: None,
        malloc_stays: beneath.is_none(),
        changes,
        verbose: false,
        stats: None,
        must_show: false,
    };
    if let Some(note) = beneath.as_deref().and_then(|path| system::left_out(Some(path))) {
        say(format!("note: {note}"));
    }
    let ending = system::run_recorded(start, &recorder, beneath.as_deref())
        .inspect_err(|_| _ = fs::remove_dir(&raw))?; // the program did not start, and recorded nothing
    with_result(ending, finish(&output, options.anonymous, options.quiet))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Where the trace goes. A file that was there stays until the trace is whole.
struct Output {
    /// What a link leads to: the trace takes that file's place.
    path: PathBuf,
}

impl Output {
    /// Makes the directory for the raw files, and checks that the trace can be written, before the program starts.
    fn begin(given: &Path) -> Result<Output> {
        let shown = || given.display().to_string();
        let before = fs::metadata(given);
        match &before {
            Ok(meta) if meta.is_dir() => {
                bail!("{}: is a directory; --output names a file", shown())
            }
            Ok(meta) if !meta.is_file() => {
                bail!("{}: is a device or a pipe; --output names a file", shown())
            }
            _ => {}
        }
        fs::OpenOptions::new().append(true).create(true).open(given).with_context(shown)?;
        let path = match given.is_symlink() {
            true => fs::canonicalize(given).with_context(shown)?,
            false => given.into(),
        };
        if before.is_err() {
            output::remove(&path);
        }
        let output = Output { path };
        let (raw, others) = (output.beside(".raw"), output.beside(".d"));
        if others.exists() && !others.is_dir() {
            bail!("{}: is no directory; the traces of other processes go there", others.display());
        }
        match DirBuilder::new().mode(0o700).create(&raw) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => bail!(
                "{}: is there from another recording; read its files with glebe trace, or remove it",
                raw.display()
            ),
            made => made.with_context(|| raw.display().to_string())?,
        }
        Ok(output)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        beside(&self.path, ending)
    }
}

/// A raw file, and what became of it.
struct Made {
    name: OsString,
    raw: PathBuf,
    draft: PathBuf,
    about: About,
    totals: Totals,
}

/// Makes traces of the raw files, and removes these.
fn finish(output: &Output, anonymous: bool, quiet: bool) -> Result<()> {
    let raw = output.beside(".raw");
    let (mut made, mut left) = (Vec::new(), 0);
    for entry in fs::read_dir(&raw).with_context(|| raw.display().to_string())? {
        let path = entry?.path();
        if let Some(process) = still_runs(&path) {
            say(format!(
                "note: process {process} still runs; its recording stays in {}",
                path.display()
            ));
            left += 1;
            continue;
        }
        let about_file =
            || format!("{} stays, since it could not be made into a trace", path.display());
        let name = path.file_name().unwrap_or_default().to_owned();
        made.push(convert(&path, name, anonymous).with_context(about_file)?);
    }
    made.sort_by(|a, b| (b.totals.events, &a.name).cmp(&(a.totals.events, &b.name)));
    let Some(most) = made.first() else {
        if left > 0 {
            return Ok(());
        }
        let _ = fs::remove_dir(&raw);
        say("note: nothing was recorded: the program called no malloc, dropped LD_PRELOAD, or found no room");
        return Ok(());
    };
    let why = |one: &Made| io::Error::from_raw_os_error(one.totals.stopped as i32);
    if most.totals.events == 0 && most.totals.stopped != 0 {
        for file in made.iter().flat_map(|one| [&one.draft, &one.raw]) {
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir(&raw);
        bail!("{}: nothing was recorded: {}", output.path.display(), why(most));
    }
    for one in made.iter().filter(|one| one.totals.stopped != 0) {
        let why = why(one);
        say(format!(
            "note: the recording of process {} ended early: {why}",
            one.name.to_string_lossy()
        ));
    }
    let others = output.beside(".d");
    if made.len() > 1 {
        fs::create_dir_all(&others).with_context(|| others.display().to_string())?;
    }
    for (i, one) in made.iter().enumerate() {
        let to = if i == 0 { output.path.clone() } else { others.join(&one.name) };
        fs::rename(&one.draft, &to).with_context(|| to.display().to_string())?;
        fs::remove_file(&one.raw).with_context(|| one.raw.display().to_string())?;
    }
    if left == 0 {
        fs::remove_dir(&raw).with_context(|| raw.display().to_string())?;
    }
    if !quiet {
        let bytes = fs::metadata(&output.path).map_or(0, |meta| meta.len());
        let calls = most.totals.events;
        let mean = bytes as f64 / calls.max(1) as f64;
        let shown = output.path.display();
        say(format!("{shown}: {calls} calls of {}, {mean:.2} bytes a call", most.about.title()));
        match made.len() - 1 {
            0 => {}
            1 => say(format!("{}: one other process", others.display())),
            n => say(format!("{}: {n} other processes", others.display())),
        }
    }
    Ok(())
}

/// The process of a raw file, if it has it mapped: a daemon that outlives the program.
fn still_runs(path: &Path) -> Option<i32> {
    let name = path.file_name()?.to_str()?;
    let process = name.split('-').next()?.parse().ok()?;
    let path = fs::canonicalize(path).ok()?;
    system::is_mapped(process, &path).then_some(process)
}

fn convert(path: &Path, name: OsString, anonymous: bool) -> Result<Made> {
    let mut source = Raw::open(path)?;
    let about = if anonymous { About::anonymous() } else { source.about().clone() };
    let draft = beside(path, ".trace");
    let totals = copy(&mut source, &draft, &about)?;
    Ok(Made { name, raw: path.to_path_buf(), draft, about: source.about().clone(), totals })
}

/// Writes a source's events as a trace. If that fails, nothing is left of it.
pub fn copy<S: Source + ?Sized>(source: &mut S, to: &Path, about: &About) -> Result<Totals> {
    let mut writer = Writer::create(to, about)?;
    let mut write = || {
        while let Some(event) = source.next()? {
            if let Err(error) = writer.write(&event) {
                return Err(error.context(to.display().to_string()));
            }
        }
        anyhow::Ok(())
    };
    let written = write();
    let written = written
        .and_then(|()| writer.finish(source.totals()).with_context(|| to.display().to_string()));
    written.inspect_err(|_| output::remove(to))?;
    Ok(source.totals().clone())
}
