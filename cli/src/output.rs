//! Files that the command writes: each is there whole, or not at all. A disk may be full.

use crate::stop::{Stop, OWN_FAILURE};
use anyhow::Result;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Fails if a file cannot be written, before the work whose result goes there. A file that was not there is not there
/// afterwards: an empty one would look like a result.
pub fn probe(path: &Path) -> io::Result<()> {
    let is_new = fs::metadata(path).is_err();
    OpenOptions::new().append(true).create(true).open(path)?;
    if is_new {
        remove(path);
    }
    Ok(())
}

/// The same for files that options ask for; the command stops if one cannot be written.
pub fn probe_each<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    for path in paths {
        probe(path).map_err(|error| {
            let message = format!("cannot write {}: {error}", path.display());
            Stop { code: OWN_FAILURE, message }
        })?;
    }
    Ok(())
}

/// Writes a file. If that fails, nothing is left of it; one that could not be opened stays as it was.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content.as_ref()).inspect_err(|_| remove(path))
}

/// Removes what a path leads to if it is a file: no link, device or pipe.
pub fn remove(path: &Path) {
    if let Ok(file) = fs::canonicalize(path) {
        if file.is_file() {
            let _ = fs::remove_file(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_leaves_what_was_there() {
        let home = tempfile::tempdir().unwrap();
        let [new, old] = ["new", "old"].map(|name| home.path().join(name));
        fs::write(&old, "precious").unwrap();
        probe(&new).unwrap();
        probe(&old).unwrap();
        assert!(!new.exists());
        assert_eq!(fs::read(&old).unwrap(), b"precious");
        assert!(probe(&home.path().join("no/such")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay() {
        let home = tempfile::tempdir().unwrap();
        let [link, full] = ["link", "full"].map(|name| home.path().join(name));
        std::os::unix::fs::symlink(home.path().join("file"), &link).unwrap();
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        probe(&link).unwrap();
        assert!(link.is_symlink() && !link.exists());
        assert!(write(&full, "x").is_err());
        assert!(full.exists());
        write(&link, "x").unwrap();
        assert_eq!(fs::read(home.path().join("file")).unwrap(), b"x");
    }
}
