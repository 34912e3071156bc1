//! Did the program really load the library? There are two witnesses, since each misses something.
//!
//! 1. `/proc/PID/maps` names every mapped file. That is proof, but the process must live long enough.
//! 2. inotify on the cached file reports that the dynamic loader opens it, even in a very short program. It does not
//!    report which process opened the file, or whether the loader mapped it.
//!
//! If neither reports the library, the program did not load it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Notices if any process opens a file from now on.
pub struct Witness {
    inotify: Option<OwnedFd>,
}

impl Witness {
    /// Starts to listen. Without inotify (limits, containers) `opened` answers None.
    pub fn listen(file: &Path) -> Witness {
        let inotify = CString::new(file.as_os_str().as_bytes()).ok().and_then(|file| {
            // SAFETY: a new descriptor, owned from here on; `file` ends in NUL.
            unsafe {
                let fd = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
                let fd = (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))?;
                let watch = libc::inotify_add_watch(fd.as_raw_fd(), file.as_ptr(), libc::IN_OPEN);
                (watch >= 0).then_some(fd)
            }
        });
        Witness { inotify }
    }

    /// True if the file was opened since the last call. None if there is no inotify.
    pub fn opened(&self) -> Option<bool> {
        let inotify = self.inotify.as_ref()?;
        let mut events = [0u8; 4096];
        // SAFETY: read writes at most the length of `events`.
        let length =
            unsafe { libc::read(inotify.as_raw_fd(), events.as_mut_ptr().cast(), events.len()) };
        match length {
            1.. => Some(true),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => Some(false),
            _ => None,
        }
    }
}

/// True if the file is mapped in the process now.
pub fn is_mapped(pid: i32, file: &Path) -> bool {
    let wanted = file.as_os_str().as_bytes();
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.split(|b| *b == b'\n').any(|line| line.ends_with(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opened_file_is_heard_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "x").unwrap();
        let witness = Witness::listen(&path);
        if witness.opened().is_none() {
            return; // no inotify on this machine
        }
        fs::read(&path).unwrap();
        assert_eq!(witness.opened(), Some(true));
        assert_eq!(witness.opened(), Some(false));
    }

    #[test]
    fn maps_name_what_is_mapped() {
        let own = std::env::current_exe().unwrap();
        let pid = std::process::id() as i32;
        assert!(is_mapped(pid, &own));
        assert!(!is_mapped(pid, Path::new("/no/such/library.so")));
    }
}
