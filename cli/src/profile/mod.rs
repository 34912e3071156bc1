//! `glebe profile`: which callers allocate memory, and which hold it.
//!
//! ```text
//!   raw       the text that the library writes       symbols   addresses -> functions and lines
//!   pprof     a profile as pprof's file              reader    and back; checks every reference
//!   stacks    names and bytes, of either             show      tables, folded stacks, JSON
//!   flame     the flame graph                        files     profiles that exist: FILE, --diff
//!   live      a process that runs, sampled meanwhile  sites    the sites of sampled blocks
//!   lifetimes how long blocks lived
//!   written   the profile that a process writes      mod       the run
//! ```
//!
//! The library samples inside the program, and each process writes a text into a folder of ours, at its exit and once a
//! second. Afterwards this process resolves the addresses, so the program pays nothing for that.

mod files;
mod flame;
#[cfg(test)]
mod hostile;
pub mod lifetimes;
mod live;
mod pprof;
pub mod raw;
pub mod reader;
mod show;
pub mod sites;
mod stacks;
pub mod symbols;
mod written;

pub use written::Written;

use crate::args::{ProfileOptions, RunOptions};
use crate::explain::snapshot::{self, Snapshot};
use crate::output::probe_each;
use crate::run;
use crate::screen::Screen;
use crate::size::counted;
use crate::stop::{with_result, Ending, Stop, OWN_FAILURE, WRONG_LINE};
use crate::system;
use crate::words::{print, say, tell};
use anyhow::{Context, Result};
use pprof::Kind;
use raw::{Profile, Site, Weight};
use stacks::Stacks;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use symbols::{Function, Symbols};

/// What the user wants to see.
fn wanted(options: &ProfileOptions) -> Option<Kind> {
    match (options.alloc || options.lifetimes, options.live, options.peak) {
        (true, ..) => Some(Kind::Allocated),
        (_, true, _) => Some(Kind::Live),
        (.., true) => Some(Kind::Peak),
        _ => None,
    }
}

fn kind_of(options: &ProfileOptions) -> Kind {
    wanted(options).unwrap_or(Kind::Peak)
}

pub fn profile(options: &ProfileOptions) -> Result<Ending> {
    if !options.diff.is_empty() {
        return files::compare(options, &options.diff);
    }
    if let Some(path) = files::named(&options.program)? {
        return files::show(options, &path);
    }
    probe_each(options.svg.iter().chain(&options.folded))?;
    let output_of = |program: &str| {
        let output = options.output.clone().unwrap_or_else(|| default_name(program));
        probe_each([&output]).map(|()| output)
    };
    if let Some(path) = &options.from {
        let profile = read(path)?;
        let output = output_of(&profile.program)?;
        write_all(options, &profile, &output)?;
        return Ok(Ending::Exit(0));
    }
    if let Some(pid) = pid_of(options)? {
        let output = output_of(&system::live::name_of(pid))?;
        let profile = live::profile(pid, options)?;
        write_all(options, &profile, &output)?;
        return Ok(Ending::Exit(0));
    }
    let name = options.program.first().map(PathBuf::from).unwrap_or_default();
    let name = name.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    files::check(&options.program)?;
    let output = output_of(&name)?;
    let folder = Folder::new()?;
    let prefix = folder.0.join("p");
    let run_options = RunOptions {
        force: options.force,
        quiet: options.quiet,
        program: options.program.clone(),
        ..RunOptions::default()
    };
    let (pid, ending) = run::run_with(&run_options, |mut start| {
        let mut set = |name, value: OsString| start.changes.push((name, Some(value)));
        set("GLEBE_PROFILE", prefix.clone().into());
        if let Some(mean) = options.mean {
            set("GLEBE_PROFILE_BYTES", mean.to_string().into());
        }
        system::run_as_child(start, &folder.0)
    })?;
    with_result(ending, folder.collect(pid, options, &output))
}

/// The process, if the first word is a number.
fn pid_of(options: &ProfileOptions) -> Result<Option<i32>> {
    let Some(word) = options.program.first().and_then(|word| word.to_str()) else {
        return Ok(None);
    };
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = |message: &str| Err(Stop { code: WRONG_LINE, message: message.into() }.into());
    match crate::pid::pid(word) {
        Ok(_) if options.program.len() > 1 => {
            wrong("options come before the PID, and no arguments after it")
        }
        Ok(_) if options.children => wrong("--children is for a program that glebe starts"),
        Ok(pid) => Ok(Some(pid)),
        Err(error) if is_number => wrong(&format!("{word} is no PID: {error}")),
        Err(_) if options.seconds.is_some() => wrong("--seconds is for a process that runs"),
        Err(_) => Ok(None),
    }
}

fn default_name(program: &str) -> PathBuf {
    format!("{program}.pb.gz").into()
}

fn refused(message: String) -> anyhow::Error {
    Stop { code: OWN_FAILURE, message }.into()
}

fn read(path: &Path) -> Result<Profile> {
    let bytes =
        reader::bytes_if(path, |head| head.starts_with(reader::TEXT) || snapshot::is_one(head))?;
    let profile = if snapshot::is_one(&bytes) {
        let snapshot = Snapshot::of_file(&bytes, path)?;
        let text = snapshot.profile.ok_or_else(|| {
            refused(format!(
                "{} has no profile: its process was started without --mean (GLEBE_PROFILE_BYTES)",
                path.display()
            ))
        })?;
        Profile::of_bytes(&text)
    } else {
        Profile::of_bytes(&bytes)
    };
    profile.with_context(|| format!("{} is no profile", path.display()))
}

/// A folder for the processes' profiles, which goes away with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let place = std::env::temp_dir();
        let place = fs::canonicalize(&place).unwrap_or(place); // the program may leave its working directory
        for number in 0..1000 {
            let path = place.join(format!("glebe-profile-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(refused(format!(
                        "cannot make a folder in {}: {error}",
                        place.display()
                    )))
                }
            }
        }
        Err(refused(format!("{} is full of folders glebe-profile-*", place.display())))
    }

    /// The profiles: process, number of its program (exec begins the next), file.
    fn files(&self) -> Vec<(i32, u32, PathBuf)> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let (process, round) = name.strip_prefix("p.")?.split_once('.')?;
                Some((process.parse().ok()?, round.parse().ok()?, entry.path()))
            })
            .collect();
        files.sort();
        files
    }

    fn collect(&self, pid: i32, options: &ProfileOptions, output: &Path) -> Result<()> {
        let files = self.files();
        let is_empty = |path: &Path| fs::metadata(path).is_ok_and(|about| about.len() == 0);
        let own = files.iter().rev().find(|(process, _, path)| *process == pid && !is_empty(path));
        let program = options.program.first().map(|word| word.to_string_lossy());
        let none = format!(
            "{} wrote no profile: it ended within a second by a signal or _exit, it could write no file, or glebe was \
             not in it",
            program.unwrap_or_default()
        );
        let (path, profile) = match own {
            Some((_, _, path)) => (path, read(path)?),
            None => most(&files).ok_or_else(|| refused(none.clone()))?,
        };
        if own.is_none() {
            say(format!("{none}; this is the profile of its child {}", profile.process));
        }
        let kept = || if output.is_file() { None } else { self.keep(path) };
        write_all(options, &profile, output).map_err(|error| match kept() {
            Some(kept) => {
                refused(format!("{error:#}; {} has all of it, for --from", kept.display()))
            }
            None => error,
        })?;
        let mut others = 0;
        for (process, round, other) in files.iter().filter(|(_, _, other)| other != path) {
            let Ok(profile) = read(other) else { continue };
            if profile.samples == 0 {
                continue;
            }
            others += 1;
            if options.children {
                let name = output.file_name().unwrap_or_default().to_string_lossy();
                let stem = name.strip_suffix(".pb.gz").unwrap_or(&name);
                let file = output.with_file_name(format!("{stem}.{process}.{round}.pb.gz"));
                write_pprof(options, &profile, &file, &mut Symbols::default())?;
            }
        }
        if others > 0 && !options.children && !options.quiet {
            let profiles = counted(others, "profile");
            say(format!("{profiles} of other processes: --children writes them"));
        }
        Ok(())
    }

    /// Takes a profile out of the folder, beside it: it could not be written where it belongs, as on a full disk.
    fn keep(&self, path: &Path) -> Option<PathBuf> {
        let kept = self.0.with_extension("text");
        fs::rename(path, &kept).ok().map(|()| kept)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// The profile with most samples: that of the program behind a shell, which ends by _exit.
fn most(files: &[(i32, u32, PathBuf)]) -> Option<(&PathBuf, Profile)> {
    let profiles = files.iter().filter_map(|(_, _, path)| Some((path, read(path).ok()?)));
    profiles.filter(|(_, profile)| profile.samples > 0).max_by_key(|(_, profile)| profile.samples)
}

fn write_pprof(
    options: &ProfileOptions,
    profile: &Profile,
    output: &Path,
    symbols: &mut Symbols,
) -> Result<()> {
    let file = pprof::build(profile, kind_of(options), options.lifetimes, symbols);
    let bytes = pprof::compressed(&file)?;
    crate::output::write(output, bytes)
        .map_err(|error| refused(format!("cannot write {}: {error}", output.display())))?;
    say(format!("{}[{}]: profile in {}", profile.program, profile.process, output.display()));
    Ok(())
}

/// Writes all that the options want. What cannot be written does not keep back the rest.
fn write_all(options: &ProfileOptions, profile: &Profile, output: &Path) -> Result<()> {
    let mut symbols = Symbols::default();
    let written = write_pprof(options, profile, output, &mut symbols);
    let stacks = stacks_of(profile, kind_of(options), options.lifetimes, &mut symbols)?;
    let beside = files::beside(options, &stacks);
    tell_missing(profile.lost);
    symbols.tell_unread();
    if options.json {
        print(show::json(&stacks, options.lifetimes))?;
    } else if !options.quiet {
        tell(table(options, &stacks, Screen::stderr()));
    }
    written.and(beside)
}

/// How notes on missing samples end, after their number.
pub const MISSING: &str =
    " samples are missing, so figures are too low: take a larger --mean (350,000 sampled blocks have a record)";

fn missing(lost: u64) -> Option<String> {
    (lost > 0).then(|| format!("{lost}{MISSING}"))
}

pub fn tell_missing(lost: u64) {
    if let Some(text) = missing(lost) {
        say(text);
    }
}

fn table(options: &ProfileOptions, stacks: &Stacks, screen: Screen) -> String {
    match options.lifetimes {
        true => lifetimes::table(stacks, screen),
        false => show::table(stacks, options.by.as_deref(), screen),
    }
}

fn weight_of(site: &Site, kind: Kind) -> Weight {
    match kind {
        Kind::Live => site.live,
        Kind::Allocated => site.allocated,
        Kind::Peak => site.peak,
    }
}

/// The functions on a stack as `text` shows them, the innermost first, with those that were inlined.
fn names(
    profile: &Profile,
    site: &Site,
    symbols: &mut Symbols,
    text: impl Fn(&Function) -> String,
) -> Vec<String> {
    let mut names = Vec::new();
    for address in pprof::callers(profile, &site.callers, symbols) {
        let functions = symbols.of(&profile.modules, *address);
        names.extend(functions.iter().map(&text));
        if functions.is_empty() {
            let module = symbols::module_of(&profile.modules, *address - 1);
            let file = module.and_then(|m| m.path.file_name());
            let file = file.map_or("?".into(), |f| f.to_string_lossy().into_owned());
            let from = module.map_or(0, |m| m.start.wrapping_sub(m.offset));
            names.push(format!("{file}+{:#x}", (*address - 1).wrapping_sub(from)));
        }
    }
    names
}

/// With `lived`, freed blocks are stacks of their own: lifetimes.rs.
fn stacks_of(profile: &Profile, kind: Kind, lived: bool, symbols: &mut Symbols) -> Result<Stacks> {
    let title = format!("{}[{}]", profile.program, profile.process);
    let mut stacks = Stacks::new(title, kind, profile.mean_bytes);
    for site in &profile.sites {
        let names = names(profile, site, symbols, |function| function.name.clone());
        let frames: Vec<u32> = names.iter().rev().map(|name| stacks.number(name)).collect();
        let labels = &site.labels;
        let labels = labels.iter().map(|(key, value)| (stacks.number(key), stacks.number(value)));
        let labels: Vec<_> = labels.collect();
        let parts = match lived {
            true => site.by_lifetime(),
            false => vec![(None, weight_of(site, kind))],
        };
        for (lifetime, Weight { objects, bytes }) in parts {
            // As in pprof's file, which has whole numbers: both show the same.
            let weight = Weight { objects: objects.round(), bytes };
            stacks.add_lived(frames.clone(), weight, labels.clone(), lifetime)?;
        }
    }
    Ok(stacks)
}
