//! Sizes in bytes as people write them: `64MiB`, `16KiB`, `1GB`, or a plain number of bytes.
//!
//! Holds always: what [`show`] prints, [`parse`] reads back as the same number of bytes. `KiB` is
//! 1024 bytes and `KB` is 1000: the letters mean what the standard says, not what is customary in
//! one program or the other.

use crate::text::{BadValue, whole_number};

/// Units from large to small: the first that divides a size is the one it is printed in.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

const EXPECTED: &str = "a size such as 64MiB, 16KiB, 1GB or a number of bytes";

pub fn parse(text: &str) -> Result<usize, BadValue> {
    let digits_end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits_end).unwrap_or(("", text));
    let number = whole_number(number).ok_or_else(|| BadValue::expected(EXPECTED))?;
    let unit_bytes = match unit {
        "" => 1,
        _ => UNITS
            .iter()
            .find_map(|(name, bytes)| (*name == unit).then_some(*bytes))
            .ok_or_else(|| BadValue::expected(EXPECTED))?,
    };
    number
        .checked_mul(unit_bytes)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| BadValue::expected("a size that fits into this machine's address space"))
}

pub fn show(bytes: &usize) -> String {
    // A usize is at most 64 bits wide on every platform Rust has.
    let bytes = u64::try_from(*bytes).unwrap_or(u64::MAX);
    UNITS
        .iter()
        .filter(|(_, unit_bytes)| bytes > 0 && bytes.is_multiple_of(*unit_bytes))
        .map(|(unit, unit_bytes)| format!("{}{unit}", bytes / unit_bytes))
        .next()
        .unwrap_or_else(|| "0B".into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_binary_decimal_and_plain() {
        for (text, bytes) in [
            ("0", 0),
            ("123", 123),
            ("7B", 7),
            ("16KiB", 16 << 10),
            ("64MiB", 64 << 20),
            ("2GiB", 2 << 30),
            ("1TiB", 1 << 40),
            ("1KB", 1_000),
            ("1MB", 1_000_000),
            ("1GB", 1_000_000_000),
            ("3TB", 3_000_000_000_000),
        ] {
            let parsed = parse(text).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
            assert_eq!(parsed, bytes, "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            "MiB",
            "-1",
            "+1",
            "1.5GiB",
            "1 MiB",
            " 1",
            "1mib",
            "1M",
            "1kB",
            "1e6",
            "0x10",
            "01",
            "1_000",
            "٣MiB",
            "18446744073709551616",
            "16777216TiB",
            "1MiBé",
            "é",
        ] {
            assert!(
                parse(text).is_err(),
                "{text:?} was read as {:?}",
                parse(text)
            );
        }
    }

    #[test]
    fn prints_the_largest_unit_that_is_exact() {
        for (bytes, text) in [
            (0, "0B"),
            (1, "1B"),
            (1 << 20, "1MiB"),
            (1536, "1536B"),
            (1_000_000_000, "1GB"),
            (1024 << 20, "1GiB"),
            (usize::MAX, "18446744073709551615B"),
        ] {
            assert_eq!(show(&bytes), text);
        }
    }

    proptest! {
        #[test]
        fn printed_sizes_read_back(bytes in any::<usize>(), shift in 0..50_u32) {
            for bytes in [bytes, (bytes >> 20) << (shift % 20), (bytes >> 50) * 1_000] {
                prop_assert_eq!(parse(&show(&bytes)).unwrap(), bytes);
            }
        }

        #[test]
        fn no_text_panics(text in "[0-9KMGTiBé. ]{0,24}") {
            let _ = parse(&text);
        }
    }
}
