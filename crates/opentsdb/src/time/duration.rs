//! Durations: a number and a unit, `90s`, `1h`, `500ms`.

use crate::error::Error;

/// A duration in milliseconds. Digits up to the first other character count, and the last character
/// is the unit: `1.5h` is one hour, because that is how the original reads it.
pub(crate) fn parse_duration(text: &str) -> Result<i64, Error> {
    let digits_len = text.chars().take_while(char::is_ascii_digit).count();
    let (digits, rest) = text.split_at(digits_len);
    if rest.is_empty() {
        let problem = "Invalid duration, must have an integer and unit";
        return Err(Error::bad_request(format!("{problem}: {text}")));
    }
    let refused = |problem: &str| Error::bad_request(format!("{problem}: {text}"));
    let count: i64 = digits
        .parse()
        .map_err(|_| refused("Invalid duration (number)"))?;
    if count == 0 {
        return Err(refused("Zero or negative duration"));
    }
    let unit_ms =
        unit_ms(&rest.to_lowercase()).ok_or_else(|| refused("Invalid duration (suffix)"))?;
    count
        .checked_mul(unit_ms)
        .ok_or_else(|| refused("Duration must be < Long.MAX_VALUE ms"))
}

/// The unit at the end of a text in lower case.
fn unit_ms(text: &str) -> Option<i64> {
    const DAY_MS: i64 = 86_400_000;
    Some(match text.chars().next_back()? {
        's' if text.ends_with("ms") => 1,
        's' => 1000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => DAY_MS,
        'w' => 7 * DAY_MS,
        'n' => 30 * DAY_MS,
        'y' => 365 * DAY_MS,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        for (text, ms) in [
            ("1ms", 1),
            ("90s", 90_000),
            ("10ss", 10_000),
            ("10 s", 10_000),
            ("1m", 60_000),
            ("1.5m", 60_000),
            ("1H", 3_600_000),
            ("2d", 172_800_000),
            ("1w", 604_800_000),
            ("1n", 2_592_000_000),
            ("1y", 31_536_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(ms), "{text}");
        }
        for (text, message) in [
            ("1q", "Invalid duration (suffix): 1q"),
            ("h", "Invalid duration (number): h"),
            ("0m", "Zero or negative duration: 0m"),
            ("5", "Invalid duration, must have an integer and unit: 5"),
            ("", "Invalid duration, must have an integer and unit: "),
        ] {
            let error = parse_duration(text).unwrap_err();
            assert_eq!(error.message, message);
        }
        assert!(parse_duration("9223372036854775807y").is_err());
        assert!(parse_duration("99999999999999999999s").is_err());
    }
}
