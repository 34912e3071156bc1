//! Resident memory over time, seen from outside.
//!
//! A thread takes a sample on a fixed beat, and more often at first, for short programs. A sample costs a few system
//! calls.

use serde::ser::{Serialize, SerializeSeq, Serializer};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// A curve has fewer points than this: when it reaches this number, we drop every second point. The number is small,
/// since this process's own size is a floor for the sizes that it can measure.
const POINTS_MAX: usize = 1024;

/// The first pause between samples; pauses grow until they reach the beat.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Resident bytes at moments after the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// (seconds, KiB)
    points: Vec<(f32, u32)>,
    /// We keep only every n-th sample.
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

    /// Takes so many bytes from each sample.
    #[cfg_attr(windows, allow(dead_code, reason = "for replays, which are for Linux"))]
    pub fn lower(&mut self, bytes: u64) {
        let by = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        self.points.iter_mut().for_each(|(_, kib)| *kib = kib.saturating_sub(by));
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

/// Calls `look` at once and then on a beat, in a thread of its own, until `end` returns. With no beat, never.
pub fn sample<T>(
    beat: Option<Duration>,
    mut look: impl FnMut() + Send,
    end: impl FnOnce() -> T,
) -> T {
    let Some(beat) = beat else { return end() };
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        let looks = move || {
            let mut pause = FIRST_PAUSE;
            loop {
                look();
                match stopped.recv_timeout(pause) {
                    Err(RecvTimeoutError::Timeout) => pause = (pause * 5 / 4).min(beat),
                    _ => return,
                }
            }
        };
        let _ = thread::Builder::new().spawn_scoped(scope, looks); // at a limit of threads or memory: no samples
        let ended = end();
        drop(stop);
        ended
    })
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
    fn samples_are_written_as_pairs() {
        let mut samples = Samples::default();
        samples.push(0.25, 4096);
        assert_eq!(serde_json::to_string(&samples).unwrap(), "[[0.25,4096]]");
    }
}
