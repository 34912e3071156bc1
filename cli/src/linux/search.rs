//! Finds the file for execve from a name, and the file that the kernel finally loads.
//!
//! We search as a shell does: a name with a slash is a path, and any other name is searched in `PATH`.
//! We follow a script to the program that will really run: `#!/usr/bin/env python3` is `env` for the kernel, and
//! `/bin/sh` runs a file without `#!` that is not an ELF image, as with execvp(3).

use super::c_string;
use crate::stop::{Stop, NOT_EXECUTABLE, NOT_FOUND};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Linux follows at most this many `#!` lines in a row.
const SCRIPT_DEPTH: usize = 5;

/// The file that a name on the command line means.
pub fn search(name: &OsStr) -> Result<PathBuf, Stop> {
    search_in(name, env::var_os("PATH").as_deref())
}

/// Skips files that cannot be executed, but remembers the first for the error.
fn search_in(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Stop> {
    let shown = name.to_string_lossy();
    let cannot = |why: &str| Stop { code: NOT_EXECUTABLE, message: format!("{shown}: {why}") };
    if name.as_bytes().contains(&b'/') {
        return match executable(Path::new(name)) {
            Ok(()) => Ok(PathBuf::from(name)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(Stop { code: NOT_FOUND, message: format!("{shown}: no such file") })
            }
            Err(e) => Err(cannot(&reason(&e))),
        };
    }
    if name.is_empty() {
        let message = "an empty word was given where the program goes".into();
        return Err(Stop { code: NOT_FOUND, message });
    }
    let mut blocked = None;
    for directory in env::split_paths(path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"))) {
        let here = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
        let candidate = here.join(name);
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) if e.raw_os_error() == Some(libc::ENOTDIR) => {}
            Err(e) => {
                blocked.get_or_insert(format!("{}: {}", candidate.display(), reason(&e)));
            }
        }
    }
    match blocked {
        Some(message) => Err(Stop { code: NOT_EXECUTABLE, message }),
        _ => Err(Stop {
            code: NOT_FOUND,
            message: format!("{shown}: command not found (a file here needs ./ in front)"),
        }),
    }
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EISDIR) => "is a directory".into(),
        Some(libc::EACCES) => "permission denied (is it executable?)".into(),
        _ => error.to_string(),
    }
}

/// Opens a file for reading, unless it is a pipe, a device or the like. Opening one of these may wait for another
/// process.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("is not a regular file")),
    }
}

/// Ok if this is a file that we may execute.
fn executable(path: &Path) -> io::Result<()> {
    let meta = fs::metadata(path)?;
    if meta.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if !meta.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let path = c_string(path.as_os_str());
    // SAFETY: `path` ends in NUL; faccessat reads it and nothing else.
    let answer =
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

const ELF: &[u8] = b"\x7fELF";

/// The first bytes of a file; none of what is not to be read.
fn head_of(path: &Path) -> Vec<u8> {
    let mut head = vec![0; 256];
    let length = open_regular(path).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
    head.truncate(length);
    head
}

fn first_line(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

/// Whether a file cannot be a shell's script: it begins like an ELF image, or its first line has a NUL. Shells look at
/// that, too.
pub fn is_binary(path: &Path) -> bool {
    let head = head_of(path);
    head.starts_with(ELF) || first_line(&head).contains(&0)
}

/// Follows `#!` to the file that the kernel will load.
pub fn image_of(path: &Path) -> PathBuf {
    let mut image = path.to_path_buf();
    for _ in 0..SCRIPT_DEPTH {
        match interpreter(&image) {
            Some(next) => image = next,
            None => break,
        }
    }
    image
}

/// The interpreter of a script; None for an ELF image and for anything unreadable.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let head = head_of(path);
    if head.starts_with(ELF) || head.is_empty() {
        return None;
    }
    let Some(line) = head.strip_prefix(b"#!") else {
        return Some(PathBuf::from("/bin/sh"));
    };
    let mut words =
        first_line(line).split(|b| b" \t\r".contains(b)).filter(|word| !word.is_empty());
    words.next().map(|word| PathBuf::from(OsString::from_vec(word.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(dir: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn path_is_searched_in_order_and_blocked_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        fs::create_dir(one.join("tool")).unwrap();
        let good = script(&two, "tool", "#!/bin/sh\n", 0o755);
        let path = env::join_paths([&one, &two]).unwrap();
        assert_eq!(search_in("tool".as_ref(), Some(&path)).unwrap(), good);

        let stop = search_in("tool".as_ref(), Some(one.as_os_str())).unwrap_err();
        assert_eq!(stop.code, NOT_EXECUTABLE);
        assert!(stop.message.contains("is a directory"), "{}", stop.message);

        let fifo = one.join("fifo");
        let path_of_fifo = std::ffi::CString::new(fifo.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends in NUL.
        assert_eq!(unsafe { libc::mkfifo(path_of_fifo.as_ptr(), 0o755) }, 0);
        let stop = search_in(fifo.as_os_str(), None).unwrap_err();
        assert_eq!(stop.code, NOT_EXECUTABLE);
        assert!(stop.message.contains("is not a regular file"), "{}", stop.message);
        assert_eq!(image_of(&fifo), fifo, "it is not opened");

        let stop = search_in("nothing".as_ref(), Some(&path)).unwrap_err();
        assert_eq!(stop.code, NOT_FOUND);
        assert_eq!(search_in("".as_ref(), Some(&path)).unwrap_err().code, NOT_FOUND);
        assert_eq!(search_in("./no/such".as_ref(), None).unwrap_err().code, NOT_FOUND);
        let plain = script(&one, "plain", "text", 0o644);
        assert_eq!(search_in(plain.as_os_str(), None).unwrap_err().code, NOT_EXECUTABLE);
    }

    #[test]
    fn scripts_lead_to_their_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let env = script(dir.path(), "a", "#! /usr/bin/env -S python3 -O\nprint(1)\n", 0o755);
        assert_eq!(interpreter(&env), Some("/usr/bin/env".into()));
        let bare = script(dir.path(), "b", "echo hello\n", 0o755);
        assert_eq!(interpreter(&bare), Some("/bin/sh".into()));
        let chain = script(dir.path(), "c", &format!("#!{}\n", bare.display()), 0o755);
        assert_eq!(image_of(&chain), Path::new("/bin/sh"));
        let circle = dir.path().join("d");
        script(dir.path(), "d", &format!("#!{}\n", circle.display()), 0o755);
        assert_eq!(image_of(&circle), circle);
        assert_eq!(interpreter(&env::current_exe().unwrap()), None);
    }
}
