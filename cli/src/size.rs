//! Sizes as people write and read them.
//!
//! ```text
//!   SIZE = DIGITS[.DIGITS][UNIT]      UNIT = B, K, KB, KiB, M, MB, MiB, G, GB, GiB, T, TB, TiB
//! ```
//!
//! Every unit is a power of 1024, in capitals or small letters. The library reads GLEBE_LIMIT by the same grammar
//! (src/api/options.c), so this file and that one change together.

use std::ops::RangeInclusive;

/// The largest size that the library takes: GB_MAX_BYTES.
const MOST: u64 = i64::MAX as u64;

/// Digits of a fraction that count: the rest is less than 2^-19 bytes, even of a TiB.
const DIGITS: usize = 18;

/// Parses a size into bytes, rounded down. The error says what is wrong and what would be right.
pub fn parse(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (number, None),
    };
    let digits = |text: &str| !text.is_empty() && !text.contains('.');
    if !digits(whole) || !fraction.is_none_or(digits) {
        return Err(format!("{text:?} is not a size: {RIGHT}"));
    }
    let log2 = log2_of(unit).ok_or_else(|| format!("unknown unit {unit:?}: {RIGHT}"))?;
    let part = match fraction {
        Some(_) if log2 == 0 => {
            return Err(format!("{text:?} has a part of a byte: add K, M, G or T (as in 1.5G)"))
        }
        Some(digits) => part_of(digits, log2),
        None => 0,
    };
    // Only digits are left, so a number that does not parse is too long.
    let whole = whole.parse().ok().and_then(|whole: u64| whole.checked_mul(1 << log2));
    let bytes = whole.and_then(|whole| whole.checked_add(part)).filter(|bytes| *bytes <= MOST);
    let bytes = bytes.ok_or_else(|| {
        format!("{text:?} is more than any memory: the most is 2^63 - 1 bytes, below 8388608T")
    })?;
    if fraction.is_some() && bytes == 0 {
        return Err(format!("{text:?} is less than a byte"));
    }
    Ok(bytes)
}

const RIGHT: &str = "write bytes, or a number with K, M, G or T (as in 512M or 1.5G)";

/// The binary logarithm of a unit.
fn log2_of(unit: &str) -> Option<u32> {
    let unit = unit.to_ascii_uppercase();
    let Some(power) = "KMGT".chars().position(|letter| unit.starts_with(letter)) else {
        return matches!(&*unit, "" | "B").then_some(0);
    };
    matches!(&unit[1..], "" | "B" | "IB").then_some(10 * (power as u32 + 1))
}

/// The part 0.`digits` of 2^`log2`.
fn part_of(digits: &str, log2: u32) -> u64 {
    let digits = &digits[..digits.len().min(DIGITS)];
    let part: u128 = digits.parse().unwrap_or(0);
    ((part << log2) / 10u128.pow(digits.len() as u32)) as u64
}

/// Parses a whole number of this range.
pub fn whole(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let right = || match *range.end() {
        u64::MAX => format!("write a whole number from {}, below 2^64", range.start()),
        most => format!("write a whole number from {} to {most}", range.start()),
    };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} is no whole number: {}", right()));
    }
    // Only digits are left, so a number that does not parse is too large.
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{text} is out of range: {}", right()))
}

/// `1 run`, `2 runs`.
pub fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Bytes as the statistics show them: MiB, or KiB below 1 MiB, rounded down to a tenth.
#[cfg_attr(windows, allow(dead_code, reason = "only Linux has the commands that show it"))]
pub fn amount(bytes: u64) -> String {
    let (log2, unit) = if bytes >> 20 > 0 { (20, "MiB") } else { (10, "KiB") };
    let tenths = ((bytes & ((1 << log2) - 1)) * 10) >> log2;
    format!("{}.{tenths} {unit}", bytes >> log2)
}

/// A part as percent of the whole; a whole of 0 is taken as 1.
#[cfg_attr(windows, allow(dead_code, reason = "only Linux has the commands that show it"))]
pub fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Bytes as MiB, the unit of every table and picture here.
pub fn mib(bytes: f64) -> f64 {
    bytes / (1u64 << 20) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("2G"), Ok(2 << 30));
        assert_eq!(parse("64KiB"), Ok(64 << 10));
        assert_eq!(parse("1.5g"), Ok(3 << 29));
        assert_eq!(parse("1t"), Ok(1 << 40));
        assert_eq!(parse("7b"), Ok(7));
    }

    /// The same rows as in test/unit/options_test.c.
    #[test]
    fn the_library_reads_the_same() {
        for (text, bytes) in [
            ("5k", 5 << 10),
            ("6KB", 6 << 10),
            ("8mib", 8 << 20),
            ("0.5gIb", 1 << 29),
            ("1.0K", 1 << 10),
            ("0.0009765625K", 1),
            ("0.001953124K", 1),
            ("1.999G", 2_146_409_906),
            ("1.999999999999999999999999999999999999K", 2047),
            ("00001.50M", 3 << 19),
            ("1.999999999T", 2_199_023_254_452),
            ("0.000000000001T", 1),
            ("8388607.9999999999999T", MOST),
            ("8388607.999999999999T", MOST - 1),
            ("8388607.99999999999999999999T", MOST),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in [
            "1.",
            ".5",
            "1.5",
            "1.5B",
            "1.G",
            ".5G",
            ".",
            "1.5.5G",
            "0.0009K",
            "0.0G",
            "1 G",
            " 1G",
            "1G ",
            "1GG",
            "1Gi",
            "1iB",
            "1BB",
            "1GBx",
            "1E",
            "1,5G",
            "K",
            "B",
            "",
            "8388608T",
            "8388608.0T",
            "\u{661}",
            "1\u{212a}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn whole_numbers_have_bounds() {
        assert_eq!(whole("1", 1..=10), Ok(1));
        assert_eq!(whole("010", 1..=10), Ok(10));
        assert_eq!(whole("18446744073709551615", 0..=u64::MAX), Ok(u64::MAX));
        for text in ["", "-1", "+1", "1.0", "x", " 1", "\u{661}"] {
            assert!(whole(text, 0..=10).unwrap_err().contains("no whole number"), "{text}");
        }
        for text in ["0", "11", "18446744073709551616"] {
            assert!(whole(text, 1..=10).unwrap_err().ends_with("from 1 to 10"), "{text}");
        }
        assert!(whole("x", 0..=u64::MAX).unwrap_err().contains("below 2^64"));
    }

    #[test]
    fn amounts_are_those_of_the_statistics() {
        assert_eq!(amount(0), "0.0 KiB");
        assert_eq!(amount(1023), "0.9 KiB");
        assert_eq!(amount((1 << 20) - 1), "1023.9 KiB");
        assert_eq!(amount(3 << 19), "1.5 MiB");
    }

    #[test]
    fn parts_of_nothing_are_no_error() {
        assert_eq!((percent(1, 8), percent(3, 2), percent(0, 0)), (12.5, 150.0, 0.0));
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(parse("").unwrap_err().contains("not a size"));
        assert!(parse("M").unwrap_err().contains("not a size"));
        assert!(parse("1.2.3M").unwrap_err().contains("not a size"));
        assert!(parse("1.5").unwrap_err().contains("part of a byte"));
        assert!(parse("0.0001K").unwrap_err().contains("less than a byte"));
        assert!(parse("12 parsecs").unwrap_err().contains("unknown unit"));
        assert!(parse("12parsecs").unwrap_err().contains("unknown unit"));
        assert!(parse("-1").unwrap_err().contains("not a size"));
        for much in
            ["8388608T", "99999999999T", "9999999999.9T", "8388608.0T", "18446744073709551616"]
        {
            assert!(parse(much).unwrap_err().contains("more than any memory"), "{much}");
        }
        assert_eq!(parse("9223372036854775807"), Ok(MOST));
        assert!(parse("9223372036854775808").is_err());
    }
}
