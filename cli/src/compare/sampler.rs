//! Resident memory over time, seen from outside.
//!
//! A thread reads `/proc/PID/statm` of the program and of its descendants on a fixed beat, at
//! first more often, so that short programs are seen too. It costs a few system calls a beat.
//!
//! The kernel's counters behind statm may lag by some pages for each CPU, and pages that processes
//! share count once for each: good for a curve, not for the last kilobyte.

use crate::witness::is_mapped;
use serde::ser::{Serialize, SerializeSeq, Serializer};
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A curve never has more points than this: beyond, every second one is dropped. Small on purpose,
/// since this process's own size is a floor for what it can measure.
const POINTS_MAX: usize = 1024;

/// At the start, samples come at this distance and then ever wider until the beat is reached.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Resident bytes at moments after the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// (seconds, KiB)
    points: Vec<(f32, u32)>,
    /// Only every n-th sample is kept.
    stride: u32,
    skipped: u32,
}

impl Samples {
    /// Adds a sample, in order of time.
    pub fn push(&mut self, at_s: f64, bytes: u64) {
        self.stride = self.stride.max(1);
        self.skipped += 1;
        if self.skipped < self.stride {
            return;
        }
        self.skipped = 0;
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        self.points.push((at_s as f32, kib));
        if self.points.len() >= POINTS_MAX {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
        }
    }

    /// The points as (seconds, bytes).
    pub fn points(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.points.iter().map(|(at_s, kib)| (f64::from(*at_s), u64::from(*kib) << 10))
    }

    pub fn max_bytes(&self) -> u64 {
        self.points().map(|(_, bytes)| bytes).max().unwrap_or(0)
    }

    /// Resident bytes at a moment: on the straight line between the samples around it.
    pub fn at(&self, at_s: f64) -> f64 {
        let next = self.points.partition_point(|(t, _)| f64::from(*t) <= at_s);
        let point = |i: usize| self.points.get(i).map(|(t, kib)| (f64::from(*t), f64::from(*kib)));
        let kib = match (next.checked_sub(1).and_then(point), point(next)) {
            (Some((t0, a)), Some((t1, b))) => a + (b - a) * (at_s - t0) / (t1 - t0),
            (Some((_, only)), None) | (None, Some((_, only))) => only,
            (None, None) => 0.0,
        };
        kib * 1024.0
    }

    /// The mean over time, each sample lasting until the next. None if there are fewer than three.
    pub fn mean_bytes(&self, until_s: f64) -> Option<f64> {
        let first = self.points.first().filter(|_| self.points.len() >= 3)?;
        let ends = self.points[1..].iter().map(|(t, _)| f64::from(*t)).chain([until_s]);
        let area =
            self.points().zip(ends).map(|((t, bytes), end)| (end - t).max(0.0) * bytes as f64);
        let length = until_s - f64::from(first.0);
        (length > 0.0).then(|| area.sum::<f64>() / length)
    }
}

impl Serialize for Samples {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.points.len()))?;
        for (at_s, bytes) in self.points() {
            list.serialize_element(&((at_s * 1e6).round() / 1e6, bytes))?;
        }
        list.end()
    }
}

/// The thread that samples one run. The child must not be reaped before [`Sampler::stop`].
pub struct Sampler {
    thread: Option<(Sender<()>, JoinHandle<Seen>)>,
}

/// The curve, and whether the watched library was seen.
type Seen = (Samples, bool);

impl Sampler {
    /// Starts to sample `pid`, born at `birth_s`, every `every` (None: not at all), and to look
    /// whether `watched` gets mapped.
    pub fn start(
        pid: i32,
        birth_s: f64,
        every: Option<Duration>,
        watched: Option<PathBuf>,
    ) -> Sampler {
        if every.is_none() && watched.is_none() {
            return Sampler { thread: None };
        }
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let (mut samples, mut mapped) = (Samples::default(), false);
            let mut pause = FIRST_PAUSE;
            loop {
                if let Some(file) = watched.as_deref().filter(|_| !mapped) {
                    mapped = is_mapped(pid, file);
                }
                if every.is_some() {
                    let bytes = resident_bytes(pid);
                    if bytes > 0 {
                        samples.push(crate::launch::clock_s() - birth_s, bytes);
                    }
                }
                match stopped.recv_timeout(pause) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return (samples, mapped),
                }
                pause = (pause * 5 / 4).min(every.unwrap_or(Duration::from_millis(10)));
            }
        });
        Sampler { thread: Some((stop, thread)) }
    }

    /// Ends sampling.
    pub fn stop(self) -> Seen {
        let Some((stop, thread)) = self.thread else { return Default::default() };
        drop(stop);
        thread.join().unwrap_or_default()
    }
}

/// Resident bytes of a process and its living descendants; 0 if it has ended.
fn resident_bytes(pid: i32) -> u64 {
    const TREE_MAX: usize = 1000;
    let mut tree = vec![pid];
    let mut pages = 0;
    let mut next = 0;
    while let Some(pid) = tree.get(next).copied() {
        next += 1;
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        pages += statm.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        if tree.len() < TREE_MAX {
            tree.extend(children(pid));
        }
    }
    pages * page_bytes()
}

/// Children of every thread of a process. Kernels without that file show none.
fn children(pid: i32) -> Vec<i32> {
    const THREADS_MAX: usize = 16;
    let mut threads = vec![pid];
    let count = fs::metadata(format!("/proc/{pid}/task"))
        .map_or(0, |meta| std::os::unix::fs::MetadataExt::nlink(&meta).saturating_sub(2) as usize);
    if count > 1 && count <= THREADS_MAX {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    }
    let lists = threads.iter().map(|thread| format!("/proc/{pid}/task/{thread}/children"));
    let lists = lists.map(|path| fs::read_to_string(path).unwrap_or_default());
    lists
        .flat_map(|list| list.split(' ').filter_map(|n| n.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf only reads.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_weighted_by_time() {
        let mut samples = Samples::default();
        samples.push(0.0, 100 << 10);
        samples.push(1.0, 200 << 10);
        assert_eq!(samples.mean_bytes(2.0), None, "too few to say");
        samples.push(9.0, 0);
        // 1 s at 100, 8 s at 200, 1 s at 0.
        assert!((samples.mean_bytes(10.0).unwrap() / 1024.0 - 170.0).abs() < 1e-6);
        assert_eq!(
            [0.5, 1.0, 5.0, 99.0].map(|at| samples.at(at) / 1024.0),
            [150.0, 200.0, 100.0, 0.0]
        );
    }

    #[test]
    fn long_runs_keep_their_shape_in_few_points() {
        let mut samples = Samples::default();
        for i in 0..100_000u64 {
            samples.push(i as f64 * 0.01, i << 10);
        }
        let count = samples.points().count();
        assert!((POINTS_MAX / 2..POINTS_MAX).contains(&count), "{count}");
        assert!((samples.at(500.0) / 1024.0 - 50_000.0).abs() < 1.0);
        assert!((samples.mean_bytes(1000.0).unwrap() / 1024.0 - 50_000.0).abs() < 500.0);
    }

    #[test]
    fn this_process_has_memory() {
        let own = std::process::id() as i32;
        assert!(resident_bytes(own) > 100 << 10);
        assert_eq!(resident_bytes(i32::MAX), 0);
    }

    #[test]
    fn samples_are_written_as_pairs() {
        let mut samples = Samples::default();
        samples.push(0.25, 4096);
        assert_eq!(serde_json::to_string(&samples).unwrap(), "[[0.25,4096]]");
    }
}
