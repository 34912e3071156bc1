//! From the words after `--` to a program that can be started.
//!
//! The search is the shell's: a name with a slash is a path, any other is looked for in `PATH`.
//! A script is followed to the program that will really run: `#!/usr/bin/env python3` is `env`
//! for the kernel, and a file without `#!` that is not an ELF image goes to `/bin/sh`, as
//! execvp(3) does it.

use crate::stop::{Stop, NOT_EXECUTABLE, NOT_FOUND, WRONG_LINE};
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Linux follows at most this many `#!` lines in a row.
const SCRIPT_DEPTH: usize = 5;

/// A program as found, with its arguments.
pub struct Program {
    /// What the user typed; `argv[0]`.
    pub name: OsString,
    pub args: Vec<OsString>,
    /// The file that is handed to execve.
    pub path: PathBuf,
    /// The file that the kernel loads in the end: `path`, or the interpreter of a script.
    pub image: PathBuf,
}

impl Program {
    /// Finds the program that `words` start. The error carries exit code 126 or 127.
    pub fn find(words: &[OsString]) -> Result<Program, Stop> {
        let (name, args) = words.split_first().ok_or_else(|| Stop {
            code: NOT_FOUND,
            message: "no program given; write it after --".into(),
        })?;
        let path = search(name, env::var_os("PATH").as_deref()).map_err(|stop| {
            let meant = mistaken(name, args).filter(|_| stop.code == NOT_FOUND);
            meant.unwrap_or(stop)
        })?;
        let image = image_of(&path);
        Ok(Program { name: name.clone(), args: args.to_vec(), path, image })
    }

    /// Name and arguments, as a person would read them.
    pub fn display(&self) -> String {
        let words = std::iter::once(&self.name).chain(&self.args);
        words.map(|word| quote(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
    }

    /// `argv` for execve.
    pub fn argv(&self) -> Vec<CString> {
        std::iter::once(&self.name).chain(&self.args).map(|word| c_string(word)).collect()
    }
}

/// Text as C has it. Words of a command line and of an environment cannot hold a NUL.
pub fn c_string(text: &OsStr) -> CString {
    let bytes = text.as_bytes().iter().copied().take_while(|b| *b != 0).collect::<Vec<u8>>();
    CString::new(bytes).unwrap_or_default()
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A word that was meant for glebe: an option that it does not have, or an option's value. The
/// program begins at the first word that is neither, so it was looked for as a program.
fn mistaken(name: &OsStr, args: &[OsString]) -> Option<Stop> {
    let shown = name.to_string_lossy();
    let message = if shown.starts_with('-') {
        format!("{shown}: no such option (--help has the list), and no such program")
    } else if args.iter().any(|arg| arg == "--") {
        format!(
            "{shown}: no such program, and only options stand before -- (a value that may be left \
             out is joined to its option by =, as in --stats=json)"
        )
    } else {
        return None;
    };
    Some(Stop { code: WRONG_LINE, message })
}

/// The shell's search. Directories of PATH that hold something which cannot be executed are
/// passed over, but remembered for the error.
fn search(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Stop> {
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
        Some(message) if !name.is_empty() => Err(Stop { code: NOT_EXECUTABLE, message }),
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

/// Is this a file that we may execute?
fn executable(path: &Path) -> io::Result<()> {
    let meta = fs::metadata(path)?;
    if meta.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
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

/// Follows `#!` to the file that the kernel will load.
fn image_of(path: &Path) -> PathBuf {
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
    let mut head = [0u8; 256];
    let length = File::open(path).and_then(|mut file| file.read(&mut head)).ok()?;
    let head = &head[..length];
    if head.starts_with(b"\x7fELF") || head.is_empty() {
        return None;
    }
    let Some(line) = head.strip_prefix(b"#!") else {
        return Some(PathBuf::from("/bin/sh"));
    };
    let line = line.split(|b| *b == b'\n').next()?;
    let mut words = line.split(|b| b" \t\r".contains(b)).filter(|word| !word.is_empty());
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
        assert_eq!(search("tool".as_ref(), Some(&path)).unwrap(), good);

        let stop = search("tool".as_ref(), Some(one.as_os_str())).unwrap_err();
        assert_eq!(stop.code, NOT_EXECUTABLE);
        assert!(stop.message.contains("is a directory"), "{}", stop.message);

        let stop = search("nothing".as_ref(), Some(&path)).unwrap_err();
        assert_eq!(stop.code, NOT_FOUND);
        assert_eq!(search("".as_ref(), Some(&path)).unwrap_err().code, NOT_FOUND);
        assert_eq!(search("./no/such".as_ref(), None).unwrap_err().code, NOT_FOUND);
        let plain = script(&one, "plain", "text", 0o644);
        assert_eq!(search(plain.as_os_str(), None).unwrap_err().code, NOT_EXECUTABLE);
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

    #[test]
    fn a_command_line_is_shown_as_a_shell_takes_it() {
        assert_eq!(quote("-O2"), "-O2");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
    }
}
