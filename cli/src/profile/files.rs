//! Profiles that exist as files: shown, drawn, compared.

use super::raw::Profile;
use super::reader::LIMITS;
use super::stacks::Stacks;
use super::symbols::Symbols;
use super::{flame, kind_of, reader, refused, show, table, wanted, write_pprof};
use crate::args::ProfileOptions;
use crate::explain::snapshot;
use crate::output;
use crate::program::Program;
use crate::screen::Screen;
use crate::stop::{Ending, Stop, WRONG_LINE};
use crate::words::{print, say};
use anyhow::{ensure, Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The file that the words name, if they name a profile and no program.
pub fn named(words: &[OsString]) -> Result<Option<PathBuf>> {
    let Some((word, others)) = words.split_first() else { return Ok(None) };
    let path = PathBuf::from(word);
    let says_so = [".pb.gz", ".pprof"].iter().any(|end| word.to_string_lossy().ends_with(end));
    if !says_so && !reader::looks_like_one(&path) {
        return Ok(None);
    }
    // All words behind the first are a program's own, so no option was read from them.
    if !others.is_empty() {
        let message = format!(
            "{} is a profile: options come before the file, and no words after it \
             (--diff compares two files)",
            path.display()
        );
        return Err(Stop { code: WRONG_LINE, message }.into());
    }
    Ok(Some(path))
}

/// Fails if the words name no program that can be started. A file among them is no profile either.
pub fn check(words: &[OsString]) -> Result<()> {
    let Err(stop) = Program::find(words) else { return Ok(()) };
    let word = words.first().map(Path::new).filter(|path| path.exists());
    let Some(shown) = word.map(|path| path.display().to_string()) else { return Err(stop.into()) };
    let why = stop.message.strip_prefix(&format!("{shown}: ")).unwrap_or(&stop.message);
    let message = format!("{shown} is no profile, and no program either: {why}");
    Err(Stop { code: stop.code, message }.into())
}

/// `glebe profile FILE`
pub fn show(options: &ProfileOptions, path: &Path) -> Result<Ending> {
    if options.mean.is_some() || options.children || options.force {
        let message = format!(
            "{} is a profile: --mean, --children and --force are for a program to run",
            path.display()
        );
        return Err(Stop { code: WRONG_LINE, message }.into());
    }
    let stacks = load(path, options)?;
    if options.lifetimes && stacks.stacks.iter().all(|stack| stack.lifetime.is_none()) {
        return Err(refused(format!(
            "{} has no lifetimes: it was written without --lifetimes, or nothing was freed",
            path.display()
        )));
    }
    for note in &stacks.notes {
        say(format!("{}: {note}", path.display()));
    }
    beside(options, &stacks)?;
    if options.json {
        print(show::json(&stacks, options.lifetimes))?;
    } else if !options.quiet {
        print(table(options, &stacks, Screen::stdout()))?;
    }
    Ok(Ending::Exit(0))
}

/// `glebe profile --diff BEFORE AFTER`
pub fn compare(options: &ProfileOptions, paths: &[PathBuf]) -> Result<Ending> {
    let [before, after] = paths else { unreachable!("clap counts them") };
    let read = |path: &Path| load(path, options);
    let stacks = (read(before)?, read(after)?);
    let (kind, other) = (stacks.0.kind, stacks.1.kind);
    if kind != other {
        let (before, after) = (before.display(), after.display());
        return Err(refused(format!(
            "{before} shows what was {}, {after} what was {}: --alloc compares what both have",
            kind.text(),
            other.text()
        )));
    }
    let (before, after) = &stacks;
    if let Some(file) = &options.folded {
        write(file, &show::changes_folded(before, after)?)?;
    }
    if let Some(file) = &options.svg {
        flame::draw(file, Some(before), after)?;
    }
    if options.json {
        print(show::changes_json(before, after))?;
    } else if !options.quiet {
        print(show::changes_table(before, after, Screen::stdout()))?;
    }
    Ok(Ending::Exit(0))
}

/// The files that the options want besides.
pub fn beside(options: &ProfileOptions, stacks: &Stacks) -> Result<()> {
    if let Some(file) = &options.folded {
        write(file, &show::folded(stacks)?)?;
    }
    if let Some(file) = &options.svg {
        flame::draw(file, None, stacks)?;
    }
    Ok(())
}

pub fn write(file: &Path, text: &str) -> Result<()> {
    output::write(file, text)
        .map_err(|error| refused(format!("cannot write {}: {error}", file.display())))
}

/// The stacks of a file in pprof's format, or of a process's text or snapshot.
fn load(path: &Path, options: &ProfileOptions) -> Result<Stacks> {
    if snapshot::is_one(&reader::head_of(path)) {
        return of_process(&super::read(path)?, options, path);
    }
    let bytes = reader::bytes_of(path, &LIMITS)?;
    if !bytes.starts_with(reader::TEXT) {
        ensure!(options.output.is_none(), "{} is in pprof's format already", path.display());
        return reader::parse(&bytes, &path.to_string_lossy(), wanted(options), &LIMITS);
    }
    let no_profile = || format!("{} is no profile", path.display());
    of_process(&Profile::of_bytes(&bytes).with_context(no_profile)?, options, path)
}

/// The stacks of a process's profile, which is written in pprof's format too if the options want that.
fn of_process(profile: &Profile, options: &ProfileOptions, path: &Path) -> Result<Stacks> {
    let mut symbols = Symbols::default();
    if let Some(output) = &options.output {
        write_pprof(options, profile, output, &mut symbols)?;
    }
    super::stacks_of(profile, kind_of(options), options.lifetimes, &mut symbols)
        .with_context(|| format!("{} is no profile", path.display()))
}
