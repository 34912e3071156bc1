//! Starting programs: in place of this process, or as a child that is measured.
//!
//! `glebe run` becomes the program (execve), so the caller sees the program's own process id, signals and exit
//! status. Commands that must look at the program afterwards fork.
//!
//! A measured child comes from fork(2), not from vfork or posix_spawn:
//!
//! ```text
//!   parent            child
//!   fork ───────────▶ set stdin, stdout, stderr
//!   read pipe ◀────── Birth { clock, rusage so far }     the cost of fork itself
//!      │              execve
//!   EOF: it runs      └─ on failure: errno ────────────▶ the error, exactly
//! ```
//!
//! ru_maxrss survives execve: Linux keeps the high-water mark of the memory that execve discards. After vfork or
//! posix_spawn that is the peak of the *parent*. After fork it is only the pages that fork copied, well below the size
//! of any dynamically linked program. The child reports that floor in its `Birth`, so a caller can tell a measurement
//! from a floor. It reports CPU time and faults before execve too, and the caller subtracts them.

use super::c_string;
use super::closed::close_again;
use super::live::state_of_thread;
use super::search::is_binary;
use crate::program::Program;
use crate::stop::{Ending, Stop, NOT_EXECUTABLE, NOT_FOUND};
use anyhow::{Context, Result};
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// A program ready for execve. All allocations are done, since the child of a fork must not allocate.
pub struct Image {
    name: String,
    path: CString,
    argv: Vec<CString>,
    /// `/bin/sh path args…`, for a file that is executable but neither ELF nor `#!`. Empty for one that is no text.
    shell_argv: Vec<CString>,
    envp: Vec<CString>,
}

impl Image {
    /// The program in this process's environment with `changes` made to it (None removes).
    pub fn new(program: &Program, changes: &[(&str, Option<OsString>)]) -> Image {
        let words = std::iter::once(&program.name).chain(&program.args);
        let argv: Vec<CString> = words.map(|word| c_string(word)).collect();
        let path = c_string(program.path.as_os_str());
        let mut shell_argv = Vec::new();
        if !is_binary(&program.path) {
            shell_argv.extend([c"/bin/sh".to_owned(), path.clone()]);
            shell_argv.extend_from_slice(&argv[1..]);
        }
        let kept = env::vars_os().filter(|(key, _)| changes.iter().all(|(name, _)| key != *name));
        let set = changes.iter().filter_map(|(name, value)| Some(((*name).into(), value.clone()?)));
        let envp = kept.chain(set).map(|(key, value): (OsString, OsString)| {
            let mut line = key;
            line.push("=");
            line.push(value);
            c_string(&line)
        });
        let envp = envp.collect();
        Image { name: program.name.to_string_lossy().into_owned(), path, argv, shell_argv, envp }
    }

    /// Becomes the program. Returns only if that fails.
    pub fn exec(&self) -> Stop {
        let pointers = Pointers::of(self);
        restore_sigpipe();
        close_again(|_| false);
        // SAFETY: every pointer is to NUL-terminated memory of `self` or `pointers`.
        let error = unsafe { pointers.exec() };
        self.exec_error(error)
    }

    fn exec_error(&self, errno: i32) -> Stop {
        let code = if errno == libc::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE };
        let reason = match errno {
            libc::ENOENT => "its interpreter does not exist".into(),
            libc::ENOEXEC => "is in a format that this system does not execute".into(),
            _ => io::Error::from_raw_os_error(errno).to_string(),
        };
        Stop { code, message: format!("{}: {reason}", self.name) }
    }

    /// Forks and starts the program as a child. None leaves that stream as it is.
    pub fn spawn(&self, streams: [Option<RawFd>; 3]) -> Result<Child> {
        self.spawn_under(&HeldBack::nothing(), streams)
    }

    /// The same, while signals are held back from this process; the child has the mask of before.
    pub fn spawn_under(&self, held: &HeldBack, streams: [Option<RawFd>; 3]) -> Result<Child> {
        let pointers = Pointers::of(self);
        let cannot = || format!("cannot start {}", self.name);
        let (news, report) = pipe().with_context(cannot)?;
        // If SIGCHLD is ignored, the kernel reaps the child, and its status is lost. The child ignores it as before.
        // SAFETY: sets a disposition.
        let sigchld = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        // SAFETY: until execve or _exit the child calls only async-signal-safe functions, on memory
        // that was made ready before the fork.
        let pid = unsafe {
            match libc::fork() {
                -1 => return Err(io::Error::last_os_error()).with_context(cannot),
                0 => {
                    for (target, source) in streams.iter().enumerate() {
                        if let Some(source) = source {
                            libc::dup2(*source, target as RawFd);
                        }
                    }
                    close_again(|target| streams[target as usize].is_some());
                    restore_sigpipe();
                    libc::signal(libc::SIGCHLD, sigchld);
                    libc::pthread_sigmask(libc::SIG_SETMASK, &held.before, ptr::null_mut());
                    tell(report.as_raw_fd(), &Birth::now());
                    let error = pointers.exec();
                    tell(report.as_raw_fd(), &error);
                    libc::_exit(OWN_CHILD_FAILURE);
                }
                pid => pid,
            }
        };
        drop(report);
        let birth: Birth = hear(&news).unwrap_or_default();
        if let Some(errno) = hear::<i32>(&news) {
            wait(pid)?;
            return Err(self.exec_error(errno).into());
        }
        Ok(Child { pid, birth })
    }
}

/// Blocks signals while it lives: those that come between fork and the installation of handlers that need the child.
pub struct HeldBack {
    before: libc::sigset_t,
}

impl HeldBack {
    pub fn all() -> HeldBack {
        HeldBack::block(libc::sigfillset)
    }

    fn nothing() -> HeldBack {
        HeldBack::block(libc::sigemptyset)
    }

    fn block(fill: unsafe extern "C" fn(*mut libc::sigset_t) -> libc::c_int) -> HeldBack {
        // SAFETY: all three calls write to structs of ours.
        unsafe {
            let (mut set, mut before) = std::mem::zeroed();
            fill(&mut set);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
            HeldBack { before }
        }
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // SAFETY: the mask is the one that the kernel gave us.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

/// The caller never sees it: the parent reads the errno and reports that.
const OWN_CHILD_FAILURE: i32 = 127;

/// A child that runs the program.
pub struct Child {
    pub pid: i32,
    pub birth: Birth,
}

/// The child's usage just before execve.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Birth {
    /// CLOCK_MONOTONIC, seconds.
    pub clock_s: f64,
    pub cpu_user_s: f64,
    pub cpu_sys_s: f64,
    pub minor_faults: i64,
    pub major_faults: i64,
    /// No ru_maxrss of this child can be lower than this.
    pub floor_rss_bytes: i64,
}

impl Birth {
    fn now() -> Birth {
        // SAFETY: getrusage writes to the struct that it is given; it is async-signal-safe on Linux.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        Birth {
            clock_s: clock_s(),
            cpu_user_s: seconds(usage.ru_utime),
            cpu_sys_s: seconds(usage.ru_stime),
            minor_faults: usage.ru_minflt,
            major_faults: usage.ru_majflt,
            floor_rss_bytes: usage.ru_maxrss * 1024,
        }
    }
}

/// CLOCK_MONOTONIC in seconds: the same clock in parent and child.
pub fn clock_s() -> f64 {
    // SAFETY: clock_gettime writes to the struct that it is given.
    let now = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
        now
    };
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// A timeval as seconds.
pub fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 * 1e-6
}

pub fn ending(status: i32) -> Ending {
    if libc::WIFSIGNALED(status) {
        Ending::Signal(libc::WTERMSIG(status))
    } else {
        Ending::Exit(libc::WEXITSTATUS(status))
    }
}

/// Ends this process as the program ended, so that our caller sees the same.
pub fn pass_on(program: Ending) -> ! {
    if let Ending::Signal(signal) = program {
        // SAFETY: plain system calls. The core limit is dropped so that the program's own core
        // file is not overwritten by ours.
        unsafe {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::signal(signal, libc::SIG_DFL);
            let mut only: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&mut only, signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, &only, ptr::null_mut());
            libc::raise(signal);
        }
    }
    std::process::exit(program.code())
}

/// What waitid says of the child, which it leaves to be reaped. None after an error.
fn look(pid: i32, at: libc::c_int) -> Option<libc::c_int> {
    // SAFETY: waitid writes to the struct that it is given.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let answer = libc::waitid(libc::P_PID, pid as u32, &mut info, at | libc::WNOWAIT);
        (answer == 0).then_some(info.si_code)
    }
}

/// By /proc: a wait may have taken the news already.
fn is_stopped(pid: i32) -> bool {
    state_of_thread(pid, pid) == Some('T')
}

/// Called after SIGCONT continued us. A shell sends it to the whole group, and it may reach us first, so the child gets
/// a moment to continue by itself. If it stays stopped, the signal was for us alone, and we forward it.
pub fn continue_too(pid: i32) {
    const MOMENTS: u32 = 20;
    for _ in 0..MOMENTS {
        if !is_stopped(pid) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // SAFETY: only sends a signal, to our unreaped child.
    unsafe { libc::kill(pid, libc::SIGCONT) };
}

/// Waits until the child has ended, but does not reap it, so its id is not reused.
pub fn wait_ended(pid: i32) -> Result<()> {
    while look(pid, libc::WEXITED).is_none() {
        interrupted()?;
    }
    Ok(())
}

/// The same, and stops with the child, as a shell expects of its job, until SIGCONT continues both. We stop by SIGSTOP,
/// since the other signals do not stop a group without a shell.
pub fn wait_ended_or_stop(pid: i32) -> Result<()> {
    loop {
        match look(pid, libc::WEXITED | libc::WSTOPPED) {
            None => interrupted()?,
            Some(libc::CLD_STOPPED) => {
                // SAFETY: only sends a signal.
                unsafe { libc::raise(libc::SIGSTOP) };
                continue_too(pid);
            }
            Some(_) => return Ok(()),
        }
    }
}

/// Reaps the child. Returns how it ended, and the usage of it and of the children that it waited for.
pub fn wait(pid: i32) -> Result<(Ending, libc::rusage)> {
    loop {
        let mut status = 0;
        // SAFETY: wait4 writes to the two places that it is given.
        let (answer, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, &mut status, 0, &mut usage), usage)
        };
        match answer {
            -1 => interrupted()?,
            _ => return Ok((ending(status), usage)),
        }
    }
}

/// After a failed call: Ok if it was only interrupted.
fn interrupted() -> Result<()> {
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        _ => Err(error.into()),
    }
}

/// Rust ignores SIGPIPE, and an ignored signal stays ignored over execve; programs expect it.
pub fn restore_sigpipe() {
    // SAFETY: sets a disposition to the default.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// The C arrays that execve takes.
struct Pointers {
    path: *const libc::c_char,
    argv: Vec<*const libc::c_char>,
    shell_argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
}

impl Pointers {
    fn of(image: &Image) -> Pointers {
        let array = |words: &[CString]| {
            words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
        };
        Pointers {
            path: image.path.as_ptr(),
            argv: array(&image.argv),
            shell_argv: array(&image.shell_argv),
            envp: array(&image.envp),
        }
    }

    /// execve with the shell's fallback. Returns the errno.
    ///
    /// # Safety
    /// The [`Image`] must still be alive. Async-signal-safe.
    unsafe fn exec(&self) -> i32 {
        libc::execve(self.path, self.argv.as_ptr(), self.envp.as_ptr());
        if *libc::__errno_location() == libc::ENOEXEC && !self.shell_argv[0].is_null() {
            libc::execve(self.shell_argv[0], self.shell_argv.as_ptr(), self.envp.as_ptr());
        }
        *libc::__errno_location()
    }
}

fn pipe() -> io::Result<(File, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: pipe2 fills the two descriptors, which become owned here and nowhere else.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Writes a plain value, small enough to be atomic, to a pipe. Async-signal-safe.
fn tell<T: Copy>(pipe: RawFd, value: &T) {
    // SAFETY: reads size_of::<T>() bytes of a live value.
    unsafe { libc::write(pipe, ptr::from_ref(value).cast(), size_of::<T>()) };
}

/// Reads a value that [`tell`] wrote; None at the end of the pipe.
fn hear<T: Copy + Default>(mut pipe: &File) -> Option<T> {
    let mut value = T::default();
    // SAFETY: T is one of our plain structs of numbers, for which every byte pattern is a value.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(ptr::from_mut(&mut value).cast::<u8>(), size_of::<T>())
    };
    io::Read::read_exact(&mut pipe, bytes).ok().map(|()| value)
}

/// The environment's value under `name`, unless empty.
pub fn variable(name: &OsStr) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Image {
        let words = ["sh", "-c", script].map(OsString::from);
        Image::new(&Program::find(&words).unwrap(), &[("GLEBE_SAMPLE", Some("yes".into()))])
    }

    fn ends(script: &str) -> Ending {
        let child = sh(script).spawn([None; 3]).unwrap();
        wait(child.pid).unwrap().0
    }

    #[test]
    fn endings_are_told_apart() {
        assert_eq!(ends("exit 0"), Ending::Exit(0));
        assert_eq!(ends("exit 42"), Ending::Exit(42));
        assert_eq!(ends("kill -9 $$"), Ending::Signal(9));
        assert_eq!(Ending::Signal(9).code(), 137);
    }

    #[test]
    fn the_environment_is_changed() {
        assert_eq!(ends("test $GLEBE_SAMPLE = yes"), Ending::Exit(0));
    }

    #[test]
    fn sigpipe_is_back_to_its_default() {
        assert_eq!(ends("kill -PIPE $$; exit 3"), Ending::Signal(libc::SIGPIPE));
    }

    #[test]
    fn a_failed_exec_is_an_error_of_the_parent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lost");
        std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        let program = Program::find(&[path.into()]).unwrap();
        let error = Image::new(&program, &[]).spawn([None; 3]).err().unwrap();
        assert_eq!(crate::stop::code_of(&error), NOT_FOUND);
        assert!(error.to_string().contains("interpreter"), "{error}");
    }

    #[test]
    fn a_big_parent_is_no_floor_for_a_small_child() {
        // 64 MiB touched and given back: posix_spawn's child would inherit that peak.
        drop(std::hint::black_box(vec![1u8; 64 << 20]));
        let child = sh("exit 0").spawn([None; 3]).unwrap();
        let (_, usage) = wait(child.pid).unwrap();
        assert!(child.birth.floor_rss_bytes > 0);
        assert!(usage.ru_maxrss * 1024 < 48 << 20, "{} KiB", usage.ru_maxrss);
    }
}
