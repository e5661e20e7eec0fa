//! Series descriptions: `name{label="value"} 1 2+3x4 _ stale {{…}}`.

use icecore_model::{Labels, METRIC_NAME, STALE_NAN_BITS};

use super::cursor::Cursor;
use super::histogram::{ScriptHistogram, combine, parse_histogram};

/// One value of a sequence.
#[derive(Clone, Debug)]
pub(crate) enum Point {
    Missing,
    Float(f64),
    Histogram(ScriptHistogram),
}

/// Most points of a line: far more than a test needs, few enough for memory.
pub(crate) const POINTS_MAX: usize = 200_000;

/// A line of a `load` or of an expectation.
pub(crate) fn parse_series(line: &str) -> Result<(Labels, Vec<Point>), String> {
    let mut cursor = Cursor::new(line);
    let labels = parse_labels(&mut cursor)?;
    let mut points = Vec::new();
    while cursor.skip_blanks() && !cursor.is_at_end() {
        parse_item(&mut cursor, &mut points)?;
        if points.len() > POINTS_MAX {
            return Err(format!("more than {POINTS_MAX} values"));
        }
    }
    if cursor.is_at_end() {
        Ok((labels, points))
    } else {
        Err(cursor.unexpected("a blank"))
    }
}

/// `name`, `name{…}` or `{…}`, where a quoted string without a value is the name.
pub(crate) fn parse_labels(cursor: &mut Cursor<'_>) -> Result<Labels, String> {
    let before = *cursor;
    let name = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(before.unexpected("a series"));
    }
    let mut pairs = Vec::new();
    if !name.is_empty() {
        pairs.push((METRIC_NAME.to_owned(), name.to_owned()));
    }
    if cursor.starts_with("{") && !cursor.starts_with("{{") {
        parse_label_list(cursor, &mut pairs)?;
    } else if name.is_empty() {
        return Err(before.unexpected("a series"));
    }
    Ok(Labels::from_pairs(pairs))
}

fn parse_label_list(
    cursor: &mut Cursor<'_>,
    pairs: &mut Vec<(String, String)>,
) -> Result<(), String> {
    cursor.expect("{")?;
    loop {
        cursor.skip_blanks();
        if cursor.take("}") {
            return Ok(());
        }
        let quoted = cursor.peek().is_some_and(|c| matches!(c, '"' | '\'' | '`'));
        let name = if quoted {
            cursor.quoted()?
        } else {
            cursor
                .take_while(|c| c.is_ascii_alphanumeric() || c == '_')
                .to_owned()
        };
        if name.is_empty() {
            return Err(cursor.unexpected("a label"));
        }
        cursor.skip_blanks();
        if cursor.take("=") {
            cursor.skip_blanks();
            pairs.push((name, cursor.quoted()?));
        } else if quoted {
            pairs.push((METRIC_NAME.to_owned(), name));
        } else {
            return Err(cursor.unexpected("\"=\""));
        }
        cursor.skip_blanks();
        if !cursor.take(",") && !cursor.starts_with("}") {
            return Err(cursor.unexpected("\",\" or \"}\""));
        }
    }
}

fn parse_item(cursor: &mut Cursor<'_>, points: &mut Vec<Point>) -> Result<(), String> {
    if cursor.take("_") {
        let times = if cursor.take("x") { cursor.count()? } else { 1 };
        repeat(points, &Point::Missing, times);
        return Ok(());
    }
    if cursor.starts_with("{{") {
        return parse_histograms(cursor, points);
    }
    let mut value = if cursor.take("stale") {
        f64::from_bits(STALE_NAN_BITS)
    } else {
        cursor.number()?
    };
    let step = match cursor.peek() {
        Some('+' | '-') => cursor.number()?,
        Some('x') => 0.0,
        _ => {
            points.push(Point::Float(value));
            return Ok(());
        }
    };
    cursor.expect("x")?;
    // Adding 0 would lose the staleness marker and the sign of −0.
    let constant = step == 0.0;
    for _ in 0..=cursor.count()?.min(POINTS_MAX) {
        points.push(Point::Float(value));
        if !constant {
            value += step;
        }
    }
    Ok(())
}

fn parse_histograms(cursor: &mut Cursor<'_>, points: &mut Vec<Point>) -> Result<(), String> {
    let mut current = parse_histogram(cursor)?;
    let sign = match cursor.peek() {
        Some('+') => 1.0,
        Some('-') => -1.0,
        Some('x') => {
            cursor.expect("x")?;
            let times = cursor.count()?.saturating_add(1);
            repeat(points, &Point::Histogram(current), times);
            return Ok(());
        }
        _ => {
            points.push(Point::Histogram(current));
            return Ok(());
        }
    };
    cursor.take("+");
    cursor.take("-");
    let step = parse_histogram(cursor)?;
    cursor.expect("x")?;
    let times = cursor.count()?.min(POINTS_MAX);
    for _ in 0..times {
        let next = combine(&current.histogram, &step.histogram, sign)?;
        let written = ScriptHistogram {
            histogram: next,
            hint_written: current.hint_written,
        };
        points.push(Point::Histogram(std::mem::replace(&mut current, written)));
    }
    points.push(Point::Histogram(current));
    Ok(())
}

/// Repeats a point; one more than the maximum is enough to be rejected.
fn repeat(points: &mut Vec<Point>, point: &Point, times: usize) {
    let times = times.min(POINTS_MAX + 1);
    points.extend(std::iter::repeat_n(point, times).cloned());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(line: &str, labels: &str, points: &str) {
        let (parsed, values) = parse_series(line).unwrap();
        let texts: Vec<String> = values
            .iter()
            .map(|point| match point {
                Point::Missing => "_".to_owned(),
                Point::Float(v) if icecore_model::is_stale_nan(*v) => "stale".to_owned(),
                Point::Float(v) => crate::parse::go_float(*v),
                Point::Histogram(h) => h.histogram.script_text(),
            })
            .collect();
        assert_eq!(
            (parsed.to_string().as_str(), texts.join(" ").as_str()),
            (labels, points)
        );
    }

    #[test]
    fn values() {
        check("m 1 -2 3.5", "m", "1 -2 3.5");
        check("m{} 1+2x3", "m", "1 3 5 7");
        check("m 10-5x2 _ _x3 7x1", "m", "10 5 0 _ _ _ _ 7 7");
        check("m -1-1x1 -1+1x1 0x3", "m", "-1 -2 -1 0 0 0 0 0");
        check(
            "m stale NaN Inf -Inf stalex1 1e3",
            "m",
            "stale NaN +Inf -Inf stale stale 1000",
        );
        check("m -0x1", "m", "-0 -0");
        check("m _x0 1", "m", "1");
        check("{}\t5", "{}", "5");
        check("m", "m", "");
    }

    #[test]
    fn histograms() {
        check(
            "h {{count:1}}+{{count:2}}x2 {{sum:1}}x1 {{}}",
            "h",
            "{{count:1}} {{count:3}} {{count:5}} {{sum:1}} {{sum:1}} {{}}",
        );
        check(
            "h{} {{count:3}}-{{count:1}}x1",
            "h",
            "{{count:3}} {{count:2}}",
        );
    }

    #[test]
    fn labels() {
        check(r#"a:b{x="1", y='2',} 1"#, r#"a:b{x="1", y="2"}"#, "1");
        check(
            r#"{"http.total", "a.b"="c", d=`e\`} 1"#,
            r#"http.total{"a.b"="c", d="e\\"}"#,
            "1",
        );
        check(r#"{__name__="m", empty=""} 1"#, "m", "1");
    }

    #[test]
    fn what_is_no_series() {
        for line in [
            "",
            "1 2",
            "m{a} 1",
            "m{a=1} 1",
            "m{a=\"1\" b=\"2\"} 1",
            "m{ 1",
            "m 1x",
            "m 1+x3",
            "m 1a",
            "m 1x99999999999999999999999",
            "m 1x999999999999",
            "m {{}}x999999999999",
            "m foo",
            "m {{}}+1x3",
            "m @ 1",
        ] {
            assert!(parse_series(line).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_a_series_or_an_error(line in "[m{}a=\" 0-9x+_.,:sumcount\\[\\]é\\-]{0,40}") {
            let _ = parse_series(&line);
        }
    }
}
