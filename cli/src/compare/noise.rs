//! Is the difference larger than the noise? One exact test, without assumptions on the noise's distribution.
//!
//! Every round runs every allocator once, so two allocators give one *pair* per round; a disturbance longer than a
//! round affects both. Each pair has a log ratio d = ln(a/b), and all results come from these:
//!
//! - **the effect**: the median of all Walsh averages (d_i + d_j)/2, i <= j (Hodges-Lehmann);
//! - **the interval**: the k-th lowest to the k-th highest Walsh average, where k is chosen from
//!   the exact distribution of Wilcoxon's signed-rank statistic so that the interval covers the true effect in
//!   99 % of cases, for any noise that is symmetric about the effect.
//!
//! A difference is *beyond the noise* if that interval leaves out zero: the same as a two-sided signed-rank test at 1
//! %. A table makes a dozen such statements, hence 1 % and not 5 %. With fewer than 8 pairs no interval reaches 99 %,
//! and the table makes no statement.
//!
//! Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, chapter 3.

/// Coverage of the interval.
pub const CONFIDENCE: f64 = 0.99;

/// The fewest pairs that allow a statement.
pub const PAIRS_MIN: usize = 8;

/// Up to this many pairs we use the exact distribution; beyond, the normal approximation is as good.
const EXACT_MAX: usize = 60;

/// `a` against `b`, as ratios: 0.9 means that `a` is 10 % lower.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    pub ratio: f64,
    /// 99 % interval; None if there are too few pairs.
    pub interval: Option<(f64, f64)>,
}

impl Difference {
    /// True if the interval leaves out "no difference".
    pub fn is_beyond_noise(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }
}

/// Compares values paired by round. Values that are not positive (too small to measure) cannot form
/// a ratio; their pairs are left out. None if no pair is left.
pub fn difference(a: &[f64], b: &[f64]) -> Option<Difference> {
    let pairs = a.iter().zip(b).filter(|(a, b)| **a > 0.0 && **b > 0.0);
    let logs: Vec<f64> = pairs.map(|(a, b)| (a / b).ln()).collect();
    let mut walsh = Vec::with_capacity(logs.len() * (logs.len() + 1) / 2);
    for (i, x) in logs.iter().enumerate() {
        walsh.extend(logs[i..].iter().map(|y| (x + y) / 2.0));
    }
    let ratio = median(&walsh)?.exp();
    walsh.sort_by(f64::total_cmp);
    let interval = rank(logs.len()).map(|k| (walsh[k - 1].exp(), walsh[walsh.len() - k].exp()));
    Some(Difference { ratio, interval })
}

/// The largest k with P(W < k) <= (1 - CONFIDENCE) / 2 for W of `n` pairs; None if that is 0.
fn rank(n: usize) -> Option<usize> {
    if n < PAIRS_MIN {
        return None;
    }
    let tail = (1.0 - CONFIDENCE) / 2.0;
    if n > EXACT_MAX {
        let n = n as f64;
        let (mean, variance) = (n * (n + 1.0) / 4.0, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0);
        const NORMAL_995: f64 = 2.575_829_303_548_901;
        return Some((mean - NORMAL_995 * variance.sqrt()).floor().max(1.0) as usize);
    }
    // ways[w]: how many of the 2^n signs give the rank sum w, as a share of all.
    let sums = n * (n + 1) / 2;
    let mut ways = vec![0.0; sums + 1];
    ways[0] = 1.0;
    for i in 1..=n {
        for w in (0..=sums).rev() {
            let with = if w >= i { ways[w - i] } else { 0.0 };
            ways[w] = (ways[w] + with) / 2.0;
        }
    }
    let mut below = 0.0;
    let mut k = 0;
    while below + ways[k] <= tail {
        below += ways[k];
        k += 1;
    }
    (k > 0).then_some(k)
}

/// The middle value, or the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Median absolute deviation from the median, as it is (not scaled to a standard deviation).
pub fn deviation(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    median(&values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>())
}

/// Tests of damaged input try one of so many cases: all of them, unless `make test` asks for less.
#[cfg(test)]
pub fn stride() -> usize {
    let asked = std::env::var("GLEBE_TEST_STRIDE").ok().and_then(|stride| stride.parse().ok());
    asked.unwrap_or(1)
}

/// A small generator (SplitMix64) for shuffled orders and made-up data: repeatable from its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `end`; a remainder is even enough for tests.
    #[cfg(test)]
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Fisher and Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n` runs about `level`, with relative noise of up to ±`noise` and a few outliers.
    fn runs(random: &mut Random, n: usize, level: f64, noise: f64) -> Vec<f64> {
        let mut one = || {
            let uniform = random.next() as f64 / u64::MAX as f64 * 2.0 - 1.0;
            let outlier = if random.next() % 20 == 0 { 1.5 } else { 1.0 };
            level * (1.0 + noise * uniform) * outlier
        };
        (0..n).map(|_| one()).collect()
    }

    fn share_detected(n: usize, effect: f64) -> f64 {
        let mut random = Random(7);
        let trials = (16_000 / n).min(2000);
        let found = (0..trials).filter(|_| {
            let a = runs(&mut random, n, 1.0 * effect, 0.05);
            let b = runs(&mut random, n, 1.0, 0.05);
            difference(&a, &b).unwrap().is_beyond_noise()
        });
        found.count() as f64 / trials as f64
    }

    #[test]
    fn no_difference_is_hardly_ever_found() {
        for n in [8, 10, 20, 80] {
            let false_alarms = share_detected(n, 1.0);
            assert!(false_alarms <= 0.02, "{n} runs: {false_alarms}");
        }
    }

    #[test]
    fn a_known_difference_is_found() {
        for (n, effect, at_least) in [(10, 0.75, 0.8), (20, 1.10, 0.7), (80, 1.05, 0.9)] {
            let share = share_detected(n, effect);
            assert!(share >= at_least, "{n} runs, effect {effect}: {share}");
        }
    }

    #[test]
    fn the_interval_covers_the_truth() {
        let mut random = Random(11);
        let covered = (0..2000).filter(|_| {
            let a = runs(&mut random, 12, 0.9, 0.1);
            let b = runs(&mut random, 12, 1.0, 0.1);
            let (low, high) = difference(&a, &b).unwrap().interval.unwrap();
            low <= 0.9 && 0.9 <= high
        });
        assert!(covered.count() >= 1966);
    }

    #[test]
    fn equal_values_are_no_difference_and_constant_ones_are() {
        let same = difference(&[5.0; 10], &[5.0; 10]).unwrap();
        assert_eq!((same.ratio, same.interval), (1.0, Some((1.0, 1.0))));
        assert!(!same.is_beyond_noise());
        let half = difference(&[5.0; 10], &[10.0; 10]).unwrap();
        assert!((half.ratio - 0.5).abs() < 1e-12 && half.is_beyond_noise());
    }

    #[test]
    fn few_pairs_allow_no_statement() {
        let few = difference(&[1.0; 7], &[2.0; 7]).unwrap();
        assert_eq!(few.interval, None);
        assert!(!few.is_beyond_noise());
        assert_eq!(difference(&[], &[]), None);
        assert_eq!(difference(&[0.0, 1.0], &[1.0, 0.0]), None);
    }

    #[test]
    fn ranks_agree_with_the_printed_tables() {
        // Critical values of the signed-rank test, two-sided 1 %: one less than our k.
        for (n, critical) in
            [(8, 0), (9, 1), (10, 3), (12, 7), (15, 15), (20, 37), (25, 68), (30, 109)]
        {
            assert_eq!(rank(n), Some(critical + 1), "n = {n}");
        }
        assert_eq!(rank(7), None);
        let (exact, approximate) = (rank(EXACT_MAX).unwrap(), rank(EXACT_MAX + 1).unwrap());
        assert!((exact..exact + 40).contains(&approximate), "{exact} {approximate}");
    }

    #[test]
    fn medians_and_deviations() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(deviation(&[1.0, 2.0, 3.0, 100.0]), Some(1.0));
    }

    #[test]
    fn shuffling_loses_nothing_and_repeats() {
        let shuffled = |seed| {
            let mut items = [1, 2, 3, 4, 5, 6];
            Random(seed).shuffle(&mut items);
            items
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut sorted = shuffled(3);
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2, 3, 4, 5, 6]);
    }
}
