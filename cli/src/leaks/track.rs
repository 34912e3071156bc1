//! Which pages of a process were written to since we last looked, told by the kernel (Linux 6.7 and later).
//!
//! ```text
//!   the process     userfaultfd() ─▶ descriptor ─▶ close(), when this command has a copy of it
//!   this command    UFFDIO_REGISTER each mapping
//!                   PAGEMAP_SCAN: pages that are not protected; protects them        a write takes the protection away
//!                   UFFDIO_UNREGISTER, in pieces
//! ```
//!
//! 1. The kernel serves the faults itself (UFFD_FEATURE_WP_ASYNC). The process never waits for this command, and goes
//!    on as before if this command dies: the last descriptor is closed then.
//! 2. Each scan and each piece holds the lock of the address space for at most `AT_ONCE` bytes.
//! 3. A page without protection counts as written. So a mapping that cannot be registered is only read more often.

use super::inject::{call, fitting, instruction, is_filtered};
use super::stop::{stop, Steady};
use crate::system::live::Memory;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// 4096 page table entries.
const AT_ONCE: u64 = 16 << 20;

/// Of include/uapi/linux/userfaultfd.h and fs.h: not in the crate libc.
mod kernel {
    pub const UFFDIO_API: u64 = 0xc018_aa3f;
    pub const UFFDIO_REGISTER: u64 = 0xc020_aa00;
    pub const UFFDIO_UNREGISTER: u64 = 0x8010_aa01;
    pub const PAGEMAP_SCAN: u64 = 0xc060_6610;
    pub const USER_MODE_ONLY: u64 = 1;
    pub const API: u64 = 0xaa;
    pub const WP_UNPOPULATED: u64 = 1 << 13;
    pub const WP_ASYNC: u64 = 1 << 15;
    pub const MODE_WP: u64 = 1 << 1;
    pub const SCAN_PROTECT: u64 = 1 << 0;
    pub const SCAN_CHECK_ASYNC: u64 = 1 << 1;
    pub const WRITTEN: u64 = 1 << 1;
    pub const FILE: u64 = 1 << 2;
    pub const PRESENT: u64 = 1 << 3;
    pub const SWAPPED: u64 = 1 << 4;
    pub const ZERO: u64 = 1 << 5;
    pub const HUGE: u64 = 1 << 6;

    #[repr(C)]
    #[derive(Default)]
    pub struct Scan {
        pub size: u64,
        pub flags: u64,
        pub start: u64,
        pub end: u64,
        pub walk_end: u64,
        pub regions: u64,
        pub regions_count: u64,
        pub pages_most: u64,
        pub inverted: u64,
        pub all_of: u64,
        pub any_of: u64,
        pub wanted: u64,
    }
}

/// Neighbouring pages in the same state. Pages without contents of their own are in none.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    categories: u64,
}

impl Region {
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Since the last look that protected, or never protected.
    pub fn is_written(&self) -> bool {
        self.categories & kernel::WRITTEN != 0
    }

    /// The contents are those of the mapping's file, if that was asked.
    pub fn is_file(&self) -> bool {
        self.categories & kernel::FILE != 0
    }
}

fn ioctl<T>(file: &impl AsRawFd, request: u64, argument: &mut T) -> io::Result<i32> {
    // SAFETY: each request here reads and writes one structure of type T.
    match unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument as *mut T) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// Asks for pages with contents, and which were written to.
fn contents(files: bool) -> kernel::Scan {
    kernel::Scan {
        inverted: kernel::ZERO,
        all_of: kernel::ZERO,
        any_of: kernel::PRESENT | kernel::SWAPPED,
        wanted: kernel::WRITTEN | if files { kernel::FILE } else { 0 },
        ..Default::default()
    }
}

/// The kernel's table of a process's pages.
pub struct Pages(File);

impl Pages {
    pub fn of(pid: i32) -> io::Result<Pages> {
        File::open(format!("/proc/{pid}/pagemap")).map(Pages)
    }

    fn scan(
        &self,
        (start, end): (u64, u64),
        scan: impl Fn() -> kernel::Scan,
        mut each: impl FnMut(Region),
    ) -> io::Result<()> {
        let mut regions = [Region::default(); 512];
        let mut at = start;
        while at < end {
            let mut scan = kernel::Scan {
                size: std::mem::size_of::<kernel::Scan>() as u64,
                start: at,
                end: end.min(at + AT_ONCE),
                regions: regions.as_mut_ptr() as u64,
                regions_count: regions.len() as u64,
                ..scan()
            };
            let count = ioctl(&self.0, kernel::PAGEMAP_SCAN, &mut scan)?;
            regions[..count as usize].iter().for_each(|region| each(*region));
            at = scan.walk_end.max(at + 1);
        }
        Ok(())
    }

    /// Bytes of [start, end) that have page table entries of their own, and not those of a huge page.
    pub fn small_bytes(&self, start: u64, end: u64) -> io::Result<u64> {
        let mut bytes = 0;
        let scan = || kernel::Scan {
            inverted: kernel::HUGE,
            all_of: kernel::PRESENT | kernel::HUGE,
            wanted: kernel::PRESENT,
            ..Default::default()
        };
        self.scan((start, end), scan, |region| bytes += region.bytes())?;
        Ok(bytes)
    }

    /// Calls `each` with the regions of [start, end) that have contents. `files` asks which are a file's: the kernel
    /// must look at the record of each page for it, which takes 90 ns.
    pub fn all(
        &self,
        (start, end): (u64, u64),
        files: bool,
        each: impl FnMut(Region),
    ) -> io::Result<()> {
        self.scan((start, end), || contents(files), each)
    }

    /// The same with those that were written to only, which it protects again.
    fn protect(
        &self,
        (start, end): (u64, u64),
        files: bool,
        each: impl FnMut(Region),
    ) -> io::Result<()> {
        let scan = || kernel::Scan {
            flags: kernel::SCAN_PROTECT | kernel::SCAN_CHECK_ASYNC,
            all_of: kernel::ZERO | kernel::WRITTEN,
            ..contents(files)
        };
        self.scan((start, end), scan, each)
    }
}

/// Pages of a process that the kernel watches. They are as before when this is dropped.
pub struct Tracked {
    pub pages: Pages,
    watch: OwnedFd,
    /// What was registered, and not unmapped as far as we know.
    registered: BTreeSet<(u64, u64)>,
    /// How long the threads were stopped for it.
    pub stopped: Duration,
}

/// Lets the kernel watch the process. Returns why not, if that cannot be done without harm to it.
pub fn track(pid: i32, maps: &str) -> Result<Result<Tracked, String>> {
    let flags = kernel::USER_MODE_ONLY | (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64;
    if let Err(error) = try_it(flags) {
        return Ok(Err(format!("userfaultfd: {error}")));
    }
    let Some(at) = instruction(&Memory { pid }, maps) else {
        return Ok(Err("it has no system call instruction that can be read".into()));
    };
    let _steady = Steady::new();
    let mut stopped = stop(pid)?;
    let tid = match fitting(pid, stopped.quiet()) {
        Ok(tid) if !is_filtered(tid) => tid,
        Ok(_) => return Ok(Err("a seccomp filter checks its system calls".into())),
        Err(why) => return Ok(Err(why)),
    };
    let make = (libc::SYS_userfaultfd, [flags, 0, 0, 0]);
    let theirs = call(pid, tid, at, make, stopped.signal_of(tid))?.value;
    if theirs < 0 {
        let error = io::Error::from_raw_os_error(-theirs as i32);
        return Ok(Err(format!("userfaultfd: {error}")));
    }
    let ours = descriptor_of(pid, theirs as i32);
    let close = (libc::SYS_close, [theirs as u64, 0, 0, 0]);
    call(pid, tid, at, close, stopped.signal_of(tid))?;
    let stopped = stopped.go_on();
    let watch = match ours.and_then(|watch| begin(&watch).map(|()| watch)) {
        Ok(watch) => watch,
        Err(error) => return Ok(Err(format!("userfaultfd: {error}"))),
    };
    let pages = Pages::of(pid).context("/proc/PID/pagemap")?;
    Ok(Ok(Tracked { pages, watch, registered: BTreeSet::new(), stopped }))
}

/// Whether this kernel can do it.
fn try_it(flags: u64) -> io::Result<()> {
    // SAFETY: makes a descriptor, which nobody else knows.
    let own = unsafe {
        match libc::syscall(libc::SYS_userfaultfd, flags) {
            -1 => return Err(io::Error::last_os_error()),
            own => OwnedFd::from_raw_fd(own as i32),
        }
    };
    begin(&own)
}

fn begin(watch: &OwnedFd) -> io::Result<()> {
    let mut api = [kernel::API, kernel::WP_ASYNC | kernel::WP_UNPOPULATED, 0];
    ioctl(watch, kernel::UFFDIO_API, &mut api).map(drop)
}

/// A copy of a descriptor of a process that we may trace.
fn descriptor_of(pid: i32, number: i32) -> io::Result<OwnedFd> {
    // SAFETY: makes descriptors, which nobody else knows.
    unsafe {
        let process = match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
            -1 => return Err(io::Error::last_os_error()),
            process => OwnedFd::from_raw_fd(process as i32),
        };
        match libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) {
            -1 => Err(io::Error::last_os_error()),
            copy => Ok(OwnedFd::from_raw_fd(copy as i32)),
        }
    }
}

impl Tracked {
    /// Calls `each` with the regions of a mapping that were written to since the last call, and has the kernel watch
    /// them from now on.
    pub fn written(
        &mut self,
        (start, end): (u64, u64),
        files: bool,
        mut each: impl FnMut(Region),
    ) -> io::Result<()> {
        let mut range = [start, end - start, kernel::MODE_WP, 0];
        if ioctl(&self.watch, kernel::UFFDIO_REGISTER, &mut range).is_ok() {
            self.registered.insert((start, end));
            return self.pages.protect((start, end), files, each);
        }
        self.pages.all((start, end), files, |region| {
            if region.is_written() {
                each(region)
            }
        })
    }
}

impl Drop for Tracked {
    /// In pieces: to close the descriptor at once would hold the lock of the address space for all of them.
    fn drop(&mut self) {
        for (start, end) in &self.registered {
            for at in (*start..*end).step_by(AT_ONCE as usize) {
                let mut range = [at, AT_ONCE.min(end - at)];
                let _ = ioctl(&self.watch, kernel::UFFDIO_UNREGISTER, &mut range);
            }
        }
    }
}
