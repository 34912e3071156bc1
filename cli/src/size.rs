//! Sizes as people write and read them.
//!
//! `512M`, `2G`, `64KiB`, `1.5g` and plain bytes all parse; every unit is a power of 1024, since a
//! limit on memory is a limit on pages. Printing always goes to MiB: one unit in one table.

/// The largest size that the library takes: GB_MAX_BYTES.
const MOST: u64 = i64::MAX as u64;

/// Parses a size into bytes. The error says what is wrong with the text, and what would be right.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("unknown unit {unit:?}: write bytes, or K, M, G, T (as in 512M)")),
    };
    let scale = 1u64 << shift;
    let bytes = if number.contains('.') {
        let value: f64 = number.parse().map_err(|_| not_a_number(text))?;
        let bytes = value * scale as f64;
        if bytes >= MOST as f64 {
            return Err(too_big(text));
        }
        bytes.round() as u64
    } else if number.is_empty() {
        return Err(not_a_number(text));
    } else {
        // Digits alone: what does not parse is too long.
        let value = number.parse().ok().and_then(|value: u64| value.checked_mul(scale));
        value.filter(|bytes| *bytes <= MOST).ok_or_else(|| too_big(text))?
    };
    if bytes == 0 {
        return Err("a size must be more than zero".into());
    }
    Ok(bytes)
}

fn not_a_number(text: &str) -> String {
    format!("{text:?} is not a size: write bytes, or a number with K, M, G, T (as in 512M)")
}

fn too_big(text: &str) -> String {
    format!(
        "{text:?} is more than any memory: less than 8388608T, which is 2^63 bytes, can be said"
    )
}

/// `1 run`, `2 runs`.
pub fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
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
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("2G"), Ok(2 << 30));
        assert_eq!(parse("64 KiB"), Ok(64 << 10));
        assert_eq!(parse("1.5g"), Ok(3 << 29));
        assert_eq!(parse("1t"), Ok(1 << 40));
        assert_eq!(parse("7b"), Ok(7));
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(parse("").unwrap_err().contains("not a size"));
        assert!(parse("M").unwrap_err().contains("not a size"));
        assert!(parse("1.2.3M").unwrap_err().contains("not a size"));
        assert!(parse("12 parsecs").unwrap_err().contains("unknown unit"));
        assert!(parse("-1").unwrap_err().contains("unknown unit"));
        assert!(parse("0").unwrap_err().contains("more than zero"));
        for much in
            ["8388608T", "99999999999T", "9999999999.9T", "8388608.0T", "18446744073709551616"]
        {
            assert!(parse(much).unwrap_err().contains("more than any memory"), "{much}");
        }
        assert_eq!(parse("9223372036854775807"), Ok(MOST));
        assert!(parse("9223372036854775808").is_err());
    }
}
