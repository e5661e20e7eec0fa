//! Start timestamps: lines `metric{labels}@st -30s-1mx2 _ *x3` before the line of samples they
//! belong to, or `@st …` for all lines that follow.

use icecore_model::Labels;

use super::cursor::Cursor;
use super::series::{POINTS_MAX, parse_labels};
use crate::parse::parse_duration_ms;

/// Offsets of start timestamps from those of the samples in milliseconds; `None` for no start.
pub(crate) type Offsets = Vec<Option<i64>>;

/// Whether a line has start timestamps: its first word ends with `@st`.
pub(crate) fn is_start_line(line: &str) -> bool {
    line.split_once([' ', '\t'])
        .is_some_and(|(word, _)| word.ends_with("@st"))
}

/// The series that the line is about (`None`: all that follow) and the offsets.
pub(crate) fn parse_start_line(line: &str) -> Result<(Option<Labels>, Offsets), String> {
    let (word, items) = line
        .split_once([' ', '\t'])
        .ok_or("expected offsets after @st")?;
    let series = word.strip_suffix("@st").unwrap_or(word);
    let offsets = parse_offsets(items)?;
    if series.is_empty() {
        return Ok((None, offsets));
    }
    let mut cursor = Cursor::new(series);
    let labels = parse_labels(&mut cursor)?;
    if cursor.is_at_end() {
        Ok((Some(labels), offsets))
    } else {
        Err(cursor.unexpected("\"@st\""))
    }
}

fn parse_offsets(items: &str) -> Result<Offsets, String> {
    let mut offsets = Offsets::new();
    for item in items.split_ascii_whitespace() {
        let mut cursor = Cursor::new(item);
        parse_item(&mut cursor, &mut offsets)?;
        if !cursor.is_at_end() {
            return Err(cursor.unexpected("a blank"));
        }
        if offsets.len() > POINTS_MAX {
            return Err(format!("more than {POINTS_MAX} offsets"));
        }
    }
    Ok(offsets)
}

fn parse_item(cursor: &mut Cursor<'_>, offsets: &mut Offsets) -> Result<(), String> {
    if cursor.take("_") {
        let times = if cursor.take("x") { cursor.count()? } else { 1 };
        offsets.extend(std::iter::repeat_n(None, times.min(POINTS_MAX + 1)));
        return Ok(());
    }
    let mut offset = if cursor.take("*") {
        offsets.iter().rev().find_map(|o| *o).unwrap_or(0)
    } else {
        parse_offset(cursor)?
    };
    let step = match cursor.peek() {
        None => {
            offsets.push(Some(offset));
            return Ok(());
        }
        Some('x') => 0,
        Some(_) => {
            let negative = cursor.take("-");
            if !negative {
                cursor.expect("+")?;
            }
            let step = parse_offset(cursor)?;
            if negative { -step } else { step }
        }
    };
    cursor.expect("x")?;
    for _ in 0..=cursor.count()?.min(POINTS_MAX) {
        offsets.push(Some(offset));
        offset = offset.saturating_add(step);
    }
    Ok(())
}

/// One number with one unit, with or without a sign.
fn parse_offset(cursor: &mut Cursor<'_>) -> Result<i64, String> {
    let before = *cursor;
    let negative = cursor.take("-");
    if !negative {
        cursor.take("+");
    }
    let digits = cursor.take_while(|c| c.is_ascii_digit());
    let unit = cursor.take_while(|c| c.is_ascii_alphabetic() && c != 'x');
    let offset = parse_duration_ms(&format!("{digits}{unit}"))
        .ok_or_else(|| before.unexpected("a duration"))?;
    Ok(if negative { -offset } else { offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, series: &str, offsets: &[Option<i64>]) {
        let (labels, parsed) = parse_start_line(line).unwrap();
        assert_eq!(labels.map(|l| l.to_string()).unwrap_or_default(), series);
        assert_eq!(parsed, offsets);
    }

    #[test]
    fn offsets() {
        check("@st -1m", "", &[Some(-60_000)]);
        check(
            "m{a=\"b\"}@st _ _x2 -30s-1mx1 0-1msx1 +1m",
            "m{a=\"b\"}",
            &[
                None,
                None,
                None,
                Some(-30_000),
                Some(-90_000),
                Some(0),
                Some(-1),
                Some(60_000),
            ],
        );
        check(
            "m@st 1s+1sx1 *x1 _ *",
            "m",
            &[
                Some(1000),
                Some(2000),
                Some(2000),
                Some(2000),
                None,
                Some(2000),
            ],
        );
        check("m@st -59999msx1", "m", &[Some(-59_999), Some(-59_999)]);
    }

    #[test]
    fn which_lines() {
        assert!(is_start_line("m{a=\"b\"}@st 1s"));
        assert!(is_start_line("@st\t1s"));
        assert!(!is_start_line("m 1"));
        assert!(!is_start_line("m@st"));
        for line in [
            "m@st x",
            "m@st 1",
            "m@st 1sx",
            "m@st 1s*2",
            "{@st 1s",
            "m@st 1s+x3",
        ] {
            assert!(parse_start_line(line).is_err(), "{line}");
        }
    }
}
