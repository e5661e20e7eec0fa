//! Sizes as `body_size_limit` has them: unlike in our own settings, `MB` is a power of 1024, as in
//! Prometheus.

const UNITS: [(&str, u64); 6] = [
    ("E", 1 << 60),
    ("P", 1 << 50),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
];

const EXPECTED: &str = "a size such as 10MB or 512KiB";

/// `0`, or numbers with units behind them: `10MB`, `1.5GiB`, `1MiB512KiB`.
pub fn parse_binary_size(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let malformed = || EXPECTED.to_owned();
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let (number, tail) = rest.split_at(unit_at.ok_or_else(malformed)?);
        let next = tail.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, tail) = tail.split_at(next.unwrap_or(tail.len()));
        rest = tail;
        let number: f64 = number.parse().map_err(|_| malformed())?;
        let bytes = number * unit_bytes(unit).ok_or_else(malformed)? as f64;
        if bytes >= i64::MAX as f64 {
            return Err("a size below 8EiB".into());
        }
        total = total.saturating_add(bytes as u64);
    }
    if text.is_empty() {
        return Err(malformed());
    }
    Ok(total)
}

fn unit_bytes(unit: &str) -> Option<u64> {
    let letter = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B'))?;
    if letter.is_empty() {
        return (unit == "B").then_some(1);
    }
    let known = UNITS.iter().find(|(name, _)| *name == letter);
    known.map(|(_, bytes)| *bytes)
}

/// The form that Prometheus prints: from large units to small ones.
pub fn show_binary_size(bytes: u64) -> String {
    let mut rest = bytes;
    let mut text = String::new();
    for (unit, unit_bytes) in UNITS {
        let count = rest / unit_bytes;
        rest %= unit_bytes;
        if count > 0 {
            text.push_str(&format!("{count}{unit}iB"));
        }
    }
    if rest > 0 || text.is_empty() {
        text.push_str(&format!("{rest}B"));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_spellings_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("7B", 7),
            ("1KB", 1024),
            ("1KiB", 1024),
            ("10MB", 10 << 20),
            ("1.5GiB", 3 << 29),
            ("1MiB512KiB", (1 << 20) + (512 << 10)),
        ] {
            assert_eq!(parse_binary_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "5",
            "MB",
            "5X",
            "5iB",
            "5 MB",
            "-5MB",
            "1..5MB",
            "é",
            "99999999EB",
        ] {
            assert!(parse_binary_size(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_sizes_read_back(bytes in 0..(1_u64 << 50)) {
            prop_assert_eq!(parse_binary_size(&show_binary_size(bytes)), Ok(bytes));
        }
    }
}
