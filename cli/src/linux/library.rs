//! The embedded library, and the one file on disk that a preload needs.
//!
//! `LD_PRELOAD` must survive `exec` and reach children, so it needs a path. The bytes go into a
//! cache directory of this user, under a name that carries their SHA-256:
//!
//! ```text
//!   $XDG_CACHE_HOME/glebe   or  ~/.cache/glebe   or  /tmp/glebe-UID      mode 0700, ours
//!        libglebe-3f9a….so    written under another name, then renamed     mode 0500, ours
//! ```
//!
//! A preloaded file is code that runs in every process below, so we trust nothing:
//!
//! 1. The directory is a real directory, belongs to us, and no other user may enter it.
//! 2. No directory above it lets a stranger rename it (owned by us or root, and not writable by
//!    group or others unless sticky).
//! 3. The file that is already there is used only if it is ours and byte for byte the embedded one.
//! 4. The file system allows execution, and the path has no colon or space: the dynamic loader
//!    would split it there.
//!
//! Each version of the command has files of its own there. A file's time is when it was used last, to the day. Where a
//! new one is written, the oldest go beyond [`KEPT`] files, but for those that a process has mapped: a program that it
//! starts later preloads them, too.
//!
//! If a place fails any of these, or the home around its cache is not there, we try the next.

use super::inspect::known_allocator;
use anyhow::{anyhow, Result};
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// Files in the cache. A version of the command writes nine at most.
const KEPT: usize = 32;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// One build of the library, as the build script wrote it down.
pub struct Embedded {
    /// `glebe`, `glebe-secure`, `glebe-safe` or `glebe-audit`; also its name in `compare`. Of a stand-in its soname.
    pub name: &'static str,
    pub sha256: &'static str,
    pub bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

impl Embedded {
    /// The name of its file in the cache.
    fn file_name(&self) -> String {
        let name = self.name.strip_prefix("lib").unwrap_or(self.name);
        let name = name.strip_suffix(".so").unwrap_or(name);
        format!("lib{}-{}.so", name.replace(".so.", "-"), &self.sha256[..16])
    }

    /// Makes sure that the library is on disk, exactly as embedded, and returns its path.
    pub fn place(&self) -> Result<PathBuf> {
        let mut reasons = Vec::new();
        for directory in candidates() {
            match self.place_in(&directory) {
                Ok(path) => return Ok(path),
                Err(reason) => reasons.push(format!("{}: {reason}", directory.display())),
            }
        }
        Err(anyhow!(
            "there is no private place for the library; set XDG_CACHE_HOME to a directory of yours \
             (tried {})",
            reasons.join("; ")
        ))
    }

    fn place_in(&self, directory: &Path) -> Result<PathBuf> {
        if directory.as_os_str().as_bytes().iter().any(|b| b": \t\n".contains(b)) {
            return Err(anyhow!("the dynamic loader splits a preload path at colons and spaces"));
        }
        // A home that is not there stays so.
        if let Some((above, home)) = directory.parent().and_then(|it| Some((it, it.parent()?))) {
            if !home.is_dir() {
                return Err(anyhow!("{} does not exist", home.display()));
            }
            make(&mut DirBuilder::new(), above)?;
        }
        make(DirBuilder::new().mode(0o700), directory)?;
        check_private(directory)?;
        let path = directory.join(self.file_name());
        if !self.is_intact(&path) {
            self.write(directory, &path)?;
            if !self.is_intact(&path) {
                return Err(anyhow!("the file does not read back as it was written"));
            }
            empty(directory, &path);
        }
        Ok(path)
    }

    /// True if the file is ours, not writable by others, and has exactly our bytes.
    fn is_intact(&self, path: &Path) -> bool {
        let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let Ok(mut file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else {
            return false;
        };
        let Ok(meta) = file.metadata() else { return false };
        if !meta.is_file()
            || meta.uid() != effective_uid()
            || meta.mode() & 0o022 != 0
            || meta.len() != self.bytes.len() as u64
        {
            return false;
        }
        let old = meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > DAY));
        if old {
            let _ = file.set_modified(SystemTime::now());
        }
        same_bytes(&mut file, self.bytes)
    }

    /// Writes under a name that no other thread or process uses, then renames: no program ever maps half a library.
    fn write(&self, directory: &Path, path: &Path) -> Result<()> {
        static DRAFTS: AtomicU32 = AtomicU32::new(0);
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let draft =
            directory.join(format!(".{}.{}.{number}", self.file_name(), std::process::id()));
        let _ = fs::remove_file(&draft);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o500)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&draft)?;
        let written = file.write_all(self.bytes).and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        Ok(written?)
    }
}

/// Removes what was used longest ago, and drafts of commands that were killed while they wrote. What cannot be removed
/// stays.
fn empty(directory: &Path, newest: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| Some((entry.metadata().ok()?, entry.path())))
        .filter(|(meta, path)| meta.is_file() && meta.uid() == effective_uid() && path != newest)
        .filter_map(|(meta, path)| Some((meta.modified().ok()?, path)))
        .collect();
    files.retain(|(at, path)| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let is_left = name.starts_with(b".lib") && at.elapsed().is_ok_and(|age| age > DAY);
        if is_left {
            let _ = fs::remove_file(path);
        }
        name.starts_with(b"lib") && name.ends_with(b".so")
    });
    let beyond = (files.len() + 1).saturating_sub(KEPT);
    if beyond == 0 {
        return;
    }
    files.sort();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let maps: Vec<Vec<u8>> =
        numbers.filter_map(|pid| fs::read(format!("/proc/{pid}/maps")).ok()).collect();
    let is_mapped = |path: &Path| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        maps.iter().any(|maps| maps.windows(name.len()).any(|bytes| bytes == name))
    };
    for (_, path) in files.iter().take(beyond).filter(|(_, path)| !is_mapped(path)) {
        let _ = fs::remove_file(path);
    }
}

/// Makes a directory, unless it is there.
fn make(builder: &mut DirBuilder, directory: &Path) -> Result<()> {
    match builder.create(directory) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(e.into()),
        _ => Ok(()),
    }
}

/// Compares in small pieces, so that checking the library does not make the command bigger.
fn same_bytes(file: &mut File, expected: &[u8]) -> bool {
    let mut buffer = [0u8; 16 << 10];
    let mut rest = expected;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return rest.is_empty(),
            Ok(n) if n <= rest.len() && buffer[..n] == rest[..n] => rest = &rest[n..],
            _ => return false,
        }
    }
}

/// Where the library may go, best place first.
fn candidates() -> Vec<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let mut places = Vec::new();
    places.extend(absolute("XDG_CACHE_HOME").map(|dir| dir.join("glebe")));
    places.extend(absolute("HOME").map(|dir| dir.join(".cache/glebe")));
    places.push(PathBuf::from(format!("/tmp/glebe-{}", effective_uid())));
    places
}

/// Rules 1, 2 and the execution half of 4.
fn check_private(directory: &Path) -> Result<()> {
    let meta = fs::symlink_metadata(directory)?;
    if !meta.is_dir() {
        return Err(anyhow!("not a directory"));
    }
    if meta.uid() != effective_uid() {
        return Err(anyhow!("belongs to user {}", meta.uid()));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(anyhow!("others may enter it (mode {:03o}, wanted 700)", meta.mode() & 0o777));
    }
    for above in fs::canonicalize(directory)?.ancestors().skip(1) {
        let meta = fs::symlink_metadata(above)?;
        let stranger = meta.uid() != effective_uid() && meta.uid() != 0;
        let open_to_all = meta.mode() & 0o022 != 0 && meta.mode() & libc::S_ISVTX == 0;
        if stranger || open_to_all {
            return Err(anyhow!("others can move it, since they may write to {}", above.display()));
        }
    }
    if mount_flags(directory) & libc::ST_NOEXEC != 0 {
        return Err(anyhow!("its file system is mounted noexec"));
    }
    Ok(())
}

/// The flags of the file system that a path is on; 0 if they cannot be read.
pub fn mount_flags(path: &Path) -> libc::c_ulong {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return 0 };
    // SAFETY: `path` ends in NUL and statvfs only writes to the struct it is given.
    unsafe {
        let mut info: libc::statvfs = std::mem::zeroed();
        match libc::statvfs(path.as_ptr(), &mut info) {
            0 => info.f_flag,
            _ => 0,
        }
    }
}

fn effective_uid() -> u32 {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// The value of `LD_PRELOAD` that adds `library` after what is already there.
pub fn preload_with(existing: Option<OsString>, library: &Path) -> OsString {
    let mut value = existing.unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library);
    value
}

/// An `LD_PRELOAD` in two lists: what is no allocator, joined again, and the allocators. The first malloc in it serves
/// the program, so an allocator before ours would take its place.
pub fn without_allocators(existing: &OsStr) -> (OsString, Vec<OsString>) {
    let parts = existing.as_bytes().split(|byte| b": \t\n".contains(byte));
    let parts = parts.filter(|part| !part.is_empty()).map(OsStr::from_bytes);
    let (gone, kept): (Vec<_>, Vec<_>) = parts.partition(|part| is_allocator(part));
    (kept.join(OsStr::new(":")), gone.into_iter().map(OsStr::to_owned).collect())
}

/// True for glebe's builds and the allocators that we know by their files' names.
fn is_allocator(path: &OsStr) -> bool {
    let file = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
    let tool = TOOLS.iter().any(|tool| file.starts_with(tool.name.trim_end_matches(".so")));
    known_allocator(&file).is_some() || (file.starts_with("libglebe") && !tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const SAMPLE: Embedded = Embedded {
        name: "sample",
        sha256: "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        bytes: b"not a library, but bytes are bytes",
    };

    #[test]
    fn a_private_place_is_made_and_used_again() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("cache/glebe");
        let path = SAMPLE.place_in(&dir).unwrap();
        assert_eq!(fs::read(&path).unwrap(), SAMPLE.bytes);
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        let first = fs::metadata(&path).unwrap().ino();
        assert_eq!(SAMPLE.place_in(&dir).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().ino(), first);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "no draft is left behind");
    }

    #[test]
    fn a_home_that_is_not_there_is_not_made() {
        let above = tempfile::tempdir().unwrap();
        let home = above.path().join("no/home");
        for dir in [home.join(".cache/glebe"), home.join("glebe")] {
            let refusal = SAMPLE.place_in(&dir).unwrap_err().to_string();
            assert!(refusal.ends_with(" does not exist"), "{refusal}");
        }
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
        fs::create_dir_all(&home).unwrap();
        SAMPLE.place_in(&home.join(".cache/glebe")).unwrap();
    }

    #[test]
    fn a_file_that_was_changed_is_written_again() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("glebe");
        let path = SAMPLE.place_in(&dir).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, vec![b'x'; SAMPLE.bytes.len()]).unwrap();
        SAMPLE.place_in(&dir).unwrap();
        assert_eq!(fs::read(&path).unwrap(), SAMPLE.bytes);
    }

    /// A folder that has this mode whatever the umask is.
    fn folder(home: &tempfile::TempDir, mode: u32) -> PathBuf {
        let dir = home.path().join("glebe");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
        dir
    }

    /// A file of the cache, with bytes, that was used so many days ago.
    fn old_file(dir: &Path, name: &str, bytes: &[u8], days: u32) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        file.set_modified(SystemTime::now() - DAY * days).unwrap();
        path
    }

    #[test]
    fn the_oldest_go_but_for_what_a_process_has_mapped() {
        let home = tempfile::tempdir().unwrap();
        let dir = folder(&home, 0o700);
        let names: Vec<String> = (0..KEPT + 5).map(|i| format!("libold-{i:016x}.so")).collect();
        let days = |i: usize| 100 - i as u32;
        let old: Vec<PathBuf> = names
            .iter()
            .enumerate()
            .map(|(i, name)| old_file(&dir, name, b"bytes that are mapped", days(i)))
            .collect();
        let draft = old_file(&dir, ".libold-1.so.7.0", b"", 2);
        let [young, other] = [(".libold-2.so.7.0", 0), ("notes", 200)]
            .map(|(name, days)| old_file(&dir, name, b"", days));
        let mapped = File::open(&old[1]).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&mapped);
        // SAFETY: a new mapping, of a file that nobody changes.
        let area = unsafe {
            libc::mmap(std::ptr::null_mut(), 4, libc::PROT_READ, libc::MAP_SHARED, descriptor, 0)
        };
        assert_ne!(area, libc::MAP_FAILED);
        let path = SAMPLE.place_in(&dir).unwrap();
        let gone: Vec<usize> = (0..old.len()).filter(|i| !old[*i].exists()).collect();
        assert_eq!(gone, [0, 2, 3, 4, 5], "six are beyond, and one of them is in use");
        assert!(!draft.exists() && young.exists() && other.exists() && path.exists());
        // One that is used becomes the newest, though its time was the oldest.
        let file = File::open(&path).unwrap();
        file.set_modified(SystemTime::now() - DAY * 300).unwrap();
        SAMPLE.place_in(&dir).unwrap();
        let age = fs::metadata(&path).unwrap().modified().unwrap().elapsed().unwrap();
        assert!(age < DAY, "{age:?}");
        // SAFETY: our own mapping.
        unsafe { libc::munmap(area, 4) };
    }

    #[test]
    fn threads_may_place_it_at_once() {
        for _ in 0..50 {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("glebe");
            let place = || {
                std::thread::spawn({
                    let dir = dir.clone();
                    move || SAMPLE.place_in(&dir)
                })
            };
            let threads: Vec<_> = (0..8).map(|_| place()).collect();
            for thread in threads {
                assert_eq!(fs::read(thread.join().unwrap().unwrap()).unwrap(), SAMPLE.bytes);
            }
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_symbolic_link_is_never_followed() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("glebe");
        let path = SAMPLE.place_in(&dir).unwrap();
        let elsewhere = home.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        SAMPLE.place_in(&dir).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn an_open_directory_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let dir = folder(&home, 0o777);
        assert!(SAMPLE.place_in(&dir).unwrap_err().to_string().contains("others may enter"));
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert!(SAMPLE.place_in(&link).unwrap_err().to_string().contains("not a directory"));
    }

    #[test]
    fn a_directory_that_others_can_move_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let open = folder(&home, 0o777);
        let refusal = SAMPLE.place_in(&open.join("glebe")).unwrap_err().to_string();
        assert!(refusal.contains("others can move it"), "{refusal}");
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_refused() {
        let home = tempfile::tempdir().unwrap();
        for name in ["with space", "with:colon"] {
            assert!(SAMPLE.place_in(&home.path().join(name)).is_err());
        }
    }

    #[test]
    fn allocators_are_taken_out_of_a_preload() {
        let split = |text: &str| {
            let (kept, gone) = without_allocators(text.as_ref());
            (kept.into_string().unwrap(), gone.len())
        };
        assert_eq!(split(""), (String::new(), 0));
        assert_eq!(split("/a.so: b.so"), ("/a.so:b.so".into(), 0));
        let builds = "/c/libglebe.so.0 libglebe-secure-3f9a.so:x.so:/usr/lib/libjemalloc.so.2";
        assert_eq!(split(builds), ("x.so".into(), 3));
        let recorder = "/c/libglebe-record-3f9a.so:libfaketime.so.1:libgc-1-3f9a.so";
        assert_eq!(split(recorder), (recorder.into(), 0));
    }

    #[test]
    fn an_existing_preload_stays_in_front() {
        let ours = Path::new("/c/libglebe.so");
        assert_eq!(preload_with(None, ours), "/c/libglebe.so");
        assert_eq!(preload_with(Some("".into()), ours), "/c/libglebe.so");
        assert_eq!(preload_with(Some("/a.so".into()), ours), "/a.so:/c/libglebe.so");
    }
}
