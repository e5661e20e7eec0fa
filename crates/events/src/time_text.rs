//! Times as text: RFC 3339 from and to nanoseconds since the epoch.
//!
//! Holds always: what is printed reads back as the same time. All times of 64 bits can be printed:
//! from 1677-09-21 to 2262-04-11.

const NS_PER_S: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// Reads `2026-11-09T10:00:01.25+01:00`. Digits beyond nanoseconds are cut off; a leap second is
/// the first second of the next minute. Nothing for what has no offset, or is no time of 64 bits.
pub fn parse_time(text: &str) -> Option<i64> {
    let mut rest = text.as_bytes();
    let year = digits(&mut rest, 4)?;
    byte(&mut rest, b"-")?;
    let month = digits(&mut rest, 2).filter(|month| (1..=12).contains(month))?;
    byte(&mut rest, b"-")?;
    let day = digits(&mut rest, 2)?;
    if day < 1 || day > days_of_month(year, month) {
        return None;
    }
    byte(&mut rest, b"Tt ")?;
    let hour = digits(&mut rest, 2).filter(|hour| *hour < 24)?;
    byte(&mut rest, b":")?;
    let minute = digits(&mut rest, 2).filter(|minute| *minute < 60)?;
    byte(&mut rest, b":")?;
    let second = digits(&mut rest, 2).filter(|second| *second <= 60)?;
    let fraction_ns = fraction(&mut rest)?;
    let offset_s = offset(&mut rest)?;
    if !rest.is_empty() {
        return None;
    }
    let local_s = days_from_epoch(year, month, day) * DAY_S + hour * 3_600 + minute * 60 + second;
    // Of a time before the epoch the seconds alone can be out of range when the whole is not.
    let ns = i128::from(local_s - offset_s) * i128::from(NS_PER_S) + i128::from(fraction_ns);
    i64::try_from(ns).ok()
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (digits, after) = rest.split_at_checked(count)?;
    *rest = after;
    digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + i64::from(digit - b'0'))
    })
}

fn byte(rest: &mut &[u8], allowed: &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    allowed.contains(first).then_some(*first)
}

/// `.25` in nanoseconds; 0 if there is none.
fn fraction(rest: &mut &[u8]) -> Option<i64> {
    let Some((b'.', after)) = rest.split_first() else {
        return Some(0);
    };
    let count = after
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (fraction, after) = after.split_at(count);
    *rest = after;
    let padded = fraction.iter().copied().chain(std::iter::repeat(b'0'));
    let ns = padded
        .take(9)
        .fold(0, |ns, digit| ns * 10 + i64::from(digit - b'0'));
    (count > 0).then_some(ns)
}

/// `Z` or `+01:00`, in seconds.
fn offset(rest: &mut &[u8]) -> Option<i64> {
    let sign = match byte(rest, b"Zz+-")? {
        b'+' => 1,
        b'-' => -1,
        _ => return Some(0),
    };
    let hours = digits(rest, 2).filter(|hours| *hours < 24)?;
    byte(rest, b":")?;
    let minutes = digits(rest, 2).filter(|minutes| *minutes < 60)?;
    Some(sign * (hours * 3_600 + minutes * 60))
}

/// In UTC, with 0, 3, 6 or 9 digits of a fraction: as few as lose nothing.
pub fn time_text(ns: i64) -> String {
    let mut text = String::with_capacity(30);
    push_time(&mut text, ns);
    text
}

/// Appends [`time_text`].
pub fn push_time(out: &mut String, ns: i64) {
    let seconds = ns.div_euclid(NS_PER_S);
    let fraction_ns = ns.rem_euclid(NS_PER_S);
    let (year, month, day) = date_of(seconds.div_euclid(DAY_S));
    let second = seconds.rem_euclid(DAY_S);
    for (number, count, after) in [
        (year, 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (second / 3_600, 2, ':'),
        (second / 60 % 60, 2, ':'),
    ] {
        push_digits(out, number, count);
        out.push(after);
    }
    push_digits(out, second % 60, 2);
    let (number, count) = match fraction_ns {
        0 => (0, 0),
        ns if ns % 1_000_000 == 0 => (ns / 1_000_000, 3),
        ns if ns % 1_000 == 0 => (ns / 1_000, 6),
        ns => (ns, 9),
    };
    if count > 0 {
        out.push('.');
        push_digits(out, number, count);
    }
    out.push('Z');
}

fn push_digits(out: &mut String, number: i64, count: u32) {
    for place in (0..count).rev() {
        let digit = number / 10_i64.pow(place) % 10;
        out.push(char::from(b'0' + digit as u8));
    }
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Years that begin in March have the leap day at their end; 400 of them are an era.
const DAYS_PER_ERA: i64 = 146_097;

/// Days from 0000-03-01, where the first era begins, to the epoch.
const EPOCH_DAY: i64 = 719_468;

fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_DAY
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAY;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era;
    (if month > 2 { year } else { year + 1 }, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_times() {
        for (ns, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_794_218_401_250_000_000, "2026-11-09T10:00:01.250Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000_001_000, "2000-03-01T00:00:00.000001Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
        ] {
            assert_eq!(time_text(ns), text);
            assert_eq!(parse_time(text), Some(ns));
        }
    }

    #[test]
    fn other_spellings() {
        let ns = 1_794_218_401_250_000_000;
        for text in [
            "2026-11-09T10:00:01.25Z",
            "2026-11-09t10:00:01.2500000009999z",
            "2026-11-09 11:00:01.25+01:00",
            "2026-11-08T22:15:01.25-11:45",
        ] {
            assert_eq!(parse_time(text), Some(ns), "{text}");
        }
        assert_eq!(
            parse_time("2016-12-31T23:59:60Z"),
            parse_time("2017-01-01T00:00:00Z")
        );
    }

    #[test]
    fn what_is_no_time() {
        for text in [
            "",
            "now",
            "2026-11-09",
            "2026-11-09T10:00:01",
            "2026-11-09T10:00Z",
            "2026-11-09T10:00:01.Z",
            "2026-11-09T10:00:01Z ",
            "2026-11-09T10:00:61Z",
            "2026-11-09T24:00:00Z",
            "2026-13-09T10:00:00Z",
            "2026-00-09T10:00:00Z",
            "2026-11-31T10:00:00Z",
            "2025-02-29T10:00:00Z",
            "2026-11-09T10:00:01+0100",
            "2026-11-09T10:00:01+24:00",
            "+026-11-09T10:00:01Z",
            "2262-04-11T23:47:16.854775808Z",
            "1677-09-21T00:12:43.145224191Z",
            "0000-01-01T00:00:00Z",
            "2026-11-09T10:00:01ä",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_time_reads_back(ns in any::<i64>(), cut in 0..4u32) {
            let ns = ns - ns % 1_000_i64.pow(cut);
            prop_assert_eq!(parse_time(&time_text(ns)), Some(ns));
        }

        #[test]
        fn any_text_is_an_answer(text in "[0-9TZ:.+-]{0,30}") {
            let _ = parse_time(&text);
        }
    }
}
