//! Whether a signal came to this process alone, or to its whole group.
//!
//! The kernel tells a receiver which process sent a signal, not how many processes got it. So a sentinel joins the
//! group: a small process that blocks every signal and answers one question, "has this one come to you too?".
//!
//! ```text
//!   kill -TERM COMMAND       the command                                     forward it to the program
//!   kill -TERM -- -GROUP     the program, the sentinel, the command          the program has it
//!   systemd's stop           each process of the service, one after another  the same, a moment later
//! ```
//!
//! The sentinel ends when the command's end of their socket closes, however the command ends. After a SIGKILL, nothing
//! else is left to remove its temporary file or folder.

use super::c_string;
use std::ffi::CStr;
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// Our end of the socket; -1 without a sentinel.
static SOCKET: AtomicI32 = AtomicI32::new(-1);
/// How long the sentinel waits for a signal that has reached us first.
const MOMENT: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// How long we wait for the sentinel, in ms.
const PATIENCE: libc::c_int = 1000;

/// Starts the sentinel, once. Without one, a signal to the group counts as one to us alone. `temporary`: a file, or a
/// folder of files, to remove when this command has ended.
pub fn start(temporary: Option<&CStr>) {
    if SOCKET.load(Ordering::Relaxed) < 0 {
        begin(temporary).iter().for_each(|socket| SOCKET.store(*socket, Ordering::Relaxed));
    }
}

/// Has a sentinel of its own remove a file, or a folder of files, when this command has ended. Nothing asks it about
/// signals, so a command that takes signals in several threads can use it too.
pub fn remove_at_end(temporary: &Path) {
    begin(Some(&c_string(temporary.as_os_str())));
}

/// Returns our end of the socket, which stays open.
fn begin(temporary: Option<&CStr>) -> Option<RawFd> {
    let (ours, theirs) = UnixStream::pair().ok()?;
    // SAFETY: the child calls only async-signal-safe functions, on memory of its own.
    match unsafe { libc::fork() } {
        0 => unsafe { watch(theirs.into_raw_fd(), temporary) },
        -1 => None,
        _ => Some(ours.into_raw_fd()),
    }
}

/// True if this signal, which we have just got, came to the sentinel too. Async-signal-safe. All signals must be
/// blocked, here and in all other threads.
pub fn has_got(signal: libc::c_int) -> bool {
    let socket = SOCKET.load(Ordering::Relaxed);
    if socket < 0 {
        return false;
    }
    let mut answer = 0u8;
    let mut ready = libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
    // SAFETY: the calls read and write one byte and one struct of ours.
    let heard = unsafe {
        let question = signal as u8;
        libc::send(socket, ptr::from_ref(&question).cast(), 1, libc::MSG_NOSIGNAL) == 1
            && libc::poll(&mut ready, 1, PATIENCE) == 1
            && libc::read(socket, ptr::from_mut(&mut answer).cast(), 1) == 1
    };
    if !heard {
        SOCKET.store(-1, Ordering::Relaxed); // it was killed or stopped: a later answer would be to this question
    }
    heard && answer != 0
}

/// The sentinel.
unsafe fn watch(socket: RawFd, temporary: Option<&CStr>) -> ! {
    let mut all: libc::sigset_t = std::mem::zeroed();
    libc::sigfillset(&mut all);
    libc::sigprocmask(libc::SIG_SETMASK, &all, ptr::null_mut());
    libc::prctl(libc::PR_SET_NAME, c"glebe-sentinel".as_ptr());
    // No pipe or terminal must stay open for its sake, nor our end of the socket.
    libc::dup2(socket, 0);
    if libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0) != 0 {
        (1..1024).for_each(|descriptor| _ = libc::close(descriptor));
    }
    let mut byte = 0u8;
    while libc::read(0, ptr::from_mut(&mut byte).cast(), 1) == 1 {
        let mut asked: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut asked, byte.into());
        byte = (libc::sigtimedwait(&asked, ptr::null_mut(), &MOMENT) > 0).into();
        libc::send(0, ptr::from_ref(&byte).cast(), 1, libc::MSG_NOSIGNAL);
    }
    if let Some(file) = temporary {
        remove(file);
    }
    libc::_exit(0)
}

/// Removes a file, or a folder of files. Async-signal-safe: no memory is allocated.
unsafe fn remove(path: &CStr) {
    /// A program that still runs may write into the folder between our last look and its removal.
    const ROUNDS: u32 = 10;
    if libc::unlink(path.as_ptr()) == 0 {
        return;
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    for _ in 0..ROUNDS {
        let folder = libc::open(path.as_ptr(), flags);
        if folder < 0 {
            return;
        }
        empty(folder);
        libc::close(folder);
        if libc::rmdir(path.as_ptr()) == 0 {
            return;
        }
    }
}

/// Removes the files of a folder.
unsafe fn empty(folder: RawFd) {
    /// In a `linux_dirent64`: the bytes of this entry, and its name.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    #[repr(align(8))]
    struct Entries([u8; 4096]);
    let mut entries = Entries([0; 4096]);
    let room = entries.0.len();
    loop {
        match libc::syscall(libc::SYS_getdents64, folder, entries.0.as_mut_ptr(), room) {
            bytes @ 1.. => {
                let mut at = 0;
                while at < bytes as usize {
                    let name = entries.0[at + NAME..].as_ptr();
                    libc::unlinkat(folder, name.cast(), 0);
                    at += usize::from(u16::from_ne_bytes([
                        entries.0[at + LENGTH],
                        entries.0[at + LENGTH + 1],
                    ]));
                }
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_and_a_folder_of_files_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let [file, folder, deep] = ["file", "folder", "deep"].map(|name| home.path().join(name));
        fs::write(&file, "x").unwrap();
        fs::create_dir(&folder).unwrap();
        // More than one call returns.
        (0..400)
            .for_each(|i| fs::write(folder.join(format!("a-rather-long-name-{i}")), "x").unwrap());
        fs::create_dir_all(deep.join("below")).unwrap();
        fs::write(deep.join("below/precious"), "x").unwrap();
        for path in [&file, &folder, &deep, &home.path().join("nowhere")] {
            // SAFETY: the text ends in NUL.
            unsafe { remove(&c_string(path.as_os_str())) };
        }
        assert!(!file.exists() && !folder.exists());
        assert!(deep.join("below/precious").exists(), "no folder below is entered");
    }
}
