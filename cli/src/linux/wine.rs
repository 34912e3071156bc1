//! Windows programs: this process becomes Wine with glebe.exe and the same command line.
//!
//! ```text
//!   glebe run --stats -- game.exe a b    ──▶    wine …/glebe.exe run --stats -- game.exe a b
//! ```
//!
//! glebe.exe is built from `src/windows`. This file passes the options on as they were typed, so it needs no list of
//! them.

use super::launch::{variable, Image};
use super::search;
use super::search::open_regular;
use crate::program::Program;
use crate::stop::{Stop, OWN_FAILURE};
use anyhow::Result;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Returns only if `words` do not start a Windows program, or if Wine or glebe.exe is missing. Like Windows, it also
/// finds a name in the current directory, unlike a shell.
pub fn hand_over(words: &[OsString]) -> Result<()> {
    let Some((name, args)) = words.split_first() else { return Ok(()) };
    let path = search(name).unwrap_or_else(|_| PathBuf::from(name));
    if !is_windows(&path) {
        return Ok(());
    }
    let shown = name.to_string_lossy();
    let missing = |what: &str| Stop {
        code: OWN_FAILURE,
        message: format!("{shown} is a Windows program and needs {what}"),
    };
    let exe = glebe_exe().ok_or_else(|| {
        missing("glebe.exe: build it with `make windows`, or set GLEBE_TOOL_EXE to where it is")
    })?;
    let wine = wine().ok_or_else(|| {
        missing("Wine: install it (Debian: wine, wine64), or set WINE to the command")
    })?;
    let own: Vec<OsString> = env::args_os().skip(1).collect();
    let mut options = own[..own.len() - words.len()].to_vec();
    if options.last().is_some_and(|word| word == "--") {
        options.pop();
    }
    let line = [exe.into()].into_iter().chain(options).chain(["--".into(), windows_path(&path)]);
    let line = line.chain(args.iter().cloned()).collect();
    let wine = Program { name: wine.clone().into(), args: line, path: wine };
    // The library has no such option, and glebe.exe does not need it.
    Err(Image::new(&wine, &[("GLEBE_TOOL_EXE", None)]).exec().into())
}

/// True if the file begins like a Windows program: `MZ`, and `PE` where the word at 0x3c points.
fn is_windows(path: &Path) -> bool {
    let signature = || {
        let mut file = open_regular(path).ok()?;
        let (mut head, mut inner) = ([0; 64], [0; 4]);
        file.read_exact(&mut head).ok().filter(|()| head.starts_with(b"MZ"))?;
        let at = u32::from_le_bytes(head[0x3c..].try_into().ok()?);
        file.seek(SeekFrom::Start(at.into())).ok()?;
        file.read_exact(&mut inner).ok()?;
        Some(inner)
    };
    signature() == Some(*b"PE\0\0")
}

/// `$GLEBE_TOOL_EXE`, or glebe.exe beside this command: in its directory, or as in the repository.
fn glebe_exe() -> Option<PathBuf> {
    if let Some(exe) = variable(OsStr::new("GLEBE_TOOL_EXE")) {
        return Some(PathBuf::from(exe)).filter(|exe| exe.is_file());
    }
    let own = env::current_exe().ok()?;
    let directory = own.parent()?;
    ["glebe.exe", "windows/glebe.exe", "../windows/glebe.exe", "../../build/windows/glebe.exe"]
        .iter()
        .map(|place| directory.join(place))
        .find(|exe| exe.is_file())
}

fn wine() -> Option<PathBuf> {
    match variable(OsStr::new("WINE")) {
        Some(wine) => search(&wine).ok(),
        None => ["wine", "wine64"].iter().find_map(|name| search(name.as_ref()).ok()),
    }
}

/// Wine shows the whole file system as drive Z. A relative path stays as it is.
fn windows_path(path: &Path) -> OsString {
    let mut drive = OsString::from(if path.is_absolute() { "Z:" } else { "" });
    drive.push(path);
    drive
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn windows_programs_are_told_by_both_marks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.exe");
        let mut image = [0; 128];
        image[..2].copy_from_slice(b"MZ");
        image[0x3c] = 100;
        let mut is = |marks: &[u8]| {
            image[100..100 + marks.len()].copy_from_slice(marks);
            fs::write(&path, image).unwrap();
            is_windows(&path)
        };
        assert!(!is(b"NE\0\0") && is(b"PE\0\0"));
        fs::write(&path, "MZ but short").unwrap();
        assert!(
            !is_windows(&path) && !is_windows(dir.path()) && !is_windows(Path::new("/no/such"))
        );
    }

    #[test]
    fn the_root_is_drive_z() {
        assert_eq!(windows_path(Path::new("/a/b.exe")), "Z:/a/b.exe");
        assert_eq!(windows_path(Path::new("./b.exe")), "./b.exe");
    }
}
