//! Metric names and units, as Prometheus 3 translates them.
//!
//! | strategy | `http.server.duration`, unit `ms`, histogram |
//! | --- | --- |
//! | underscores, suffixes | `http_server_duration_milliseconds` |
//! | underscores, no suffixes | `http_server_duration` |
//! | UTF-8, suffixes | `http.server.duration_milliseconds` |
//! | no translation | `http.server.duration` |

use super::translation::Strategy;

/// What of a metric's type its name depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Gauge,
    MonotonicSum,
    Other,
}

/// The name of a metric family, or why there is none.
pub(super) fn metric_name(
    strategy: Strategy,
    name: &str,
    unit: &str,
    kind: NameKind,
) -> Result<String, String> {
    if !strategy.escapes() {
        return match name {
            "" => Err("metric without a name".into()),
            _ if strategy.adds_suffixes() => Ok(with_suffixes(name, unit, kind)),
            _ => Ok(name.into()),
        };
    }
    let translated = if strategy.adds_suffixes() {
        normalised(name, unit, kind)
    } else {
        let words = name.split(|c: char| !is_name_char(c) && c != '_');
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        escape_leading_digit(words.join("_"))
    };
    if translated.is_empty() {
        return Err(format!(
            "metric name {name:?} has no character that can stay"
        ));
    }
    if translated != name && translated.bytes().all(|byte| byte == b'_') {
        return Err(format!(
            "metric name {name:?} becomes {translated:?}, which says nothing"
        ));
    }
    Ok(translated)
}

/// The unit in words, for metadata: `By/s` is `bytes_per_second`.
pub(super) fn unit_words(strategy: Strategy, unit: &str) -> String {
    let (mut main, mut per) = unit_suffixes(unit);
    if strategy.escapes() {
        (main, per) = (cleaned(&main), cleaned(&per));
    }
    let joined = match (main.is_empty(), per.is_empty()) {
        (false, false) => format!("{main}_{per}"),
        (false, true) => main,
        (true, _) => per,
    };
    let trimmed = joined.strip_prefix('_').unwrap_or(&joined);
    trimmed.strip_suffix('_').unwrap_or(trimmed).into()
}

/// Words of letters, digits and colons, joined by underscores, with the unit and the type as
/// suffixes.
fn normalised(name: &str, unit: &str, kind: NameKind) -> String {
    let mut words: Vec<&str> = name
        .split(|c| !is_name_char(c))
        .filter(|word| !word.is_empty())
        .collect();
    let (main, per) = unit_suffixes(unit);
    let (main, per) = (cleaned(&main), cleaned(&per));
    let per = match per.as_str() {
        "per_" => "",
        per => per.strip_suffix('_').unwrap_or(per),
    };
    let per = if words.contains(&per) { "" } else { per };
    let mut main = if words.contains(&main.as_str()) {
        ""
    } else {
        main.as_str()
    };
    if !per.is_empty() {
        main = main.strip_suffix('_').unwrap_or(main);
    }
    words.extend([main, per].iter().filter(|suffix| !suffix.is_empty()));
    let type_word = match kind {
        NameKind::MonotonicSum => Some("total"),
        // Counters of things have the unit 1, too; only a gauge of unit 1 is a ratio.
        NameKind::Gauge if unit == "1" => Some("ratio"),
        NameKind::Gauge | NameKind::Other => None,
    };
    if let Some(type_word) = type_word {
        words.retain(|word| *word != type_word);
        words.push(type_word);
    }
    escape_leading_digit(words.join("_"))
}

/// The name as it is, with the unit and the type as suffixes unless it has them.
fn with_suffixes(name: &str, unit: &str, kind: NameKind) -> String {
    let (main, per) = unit_suffixes(unit);
    let type_word = match kind {
        NameKind::MonotonicSum => "total",
        NameKind::Gauge if unit == "1" => "ratio",
        NameKind::Gauge | NameKind::Other => "",
    };
    let mut stem = without_word(name, type_word);
    stem = without_word(stem, &per);
    let mut out = String::from(stem);
    let mut push = |word: &str| {
        if !word.is_empty() {
            out.push('_');
            out.push_str(word);
        }
    };
    if !stem.ends_with(&main) {
        push(&main);
    }
    push(&per);
    push(type_word);
    out
}

/// The name without this word and the character before it at its end.
fn without_word<'a>(name: &'a str, word: &str) -> &'a str {
    if word.is_empty() {
        return name;
    }
    let Some(stem) = name.strip_suffix(word) else {
        return name;
    };
    match stem.char_indices().next_back() {
        Some((start, _)) if start > 0 => stem.get(..start).unwrap_or(name),
        _ => name,
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == ':'
}

fn escape_leading_digit(name: String) -> String {
    match name.as_bytes().first() {
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        _ => name,
    }
}

/// The unit and what it is per, in words; either may be empty.
fn unit_suffixes(unit: &str) -> (String, String) {
    let (main, per) = unit.split_once('/').unwrap_or((unit, ""));
    // Text in braces is an annotation, not a unit.
    let plain = |text: &str| match text.trim() {
        remark if remark.contains(['{', '}']) => String::new(),
        plain => plain.into(),
    };
    let (main, per) = (plain(main), plain(per));
    let main = unit_word(&main).map_or(main, Into::into);
    let per = per_word(&per).map_or(per, Into::into);
    let per = if per.is_empty() {
        per
    } else {
        format!("per_{per}")
    };
    (main, per)
}

/// Underscores for what names cannot have, never two in a row, none in front.
fn cleaned(unit: &str) -> String {
    let mut out = String::with_capacity(unit.len());
    for c in unit.chars() {
        if is_name_char(c) {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
    }
    out
}

fn unit_word(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "d" => "days",
        "h" => "hours",
        "min" => "minutes",
        "s" => "seconds",
        "ms" => "milliseconds",
        "us" => "microseconds",
        "ns" => "nanoseconds",
        "By" => "bytes",
        "KiBy" => "kibibytes",
        "MiBy" => "mebibytes",
        "GiBy" => "gibibytes",
        // Prometheus' spelling; another one would be another metric.
        "TiBy" => "tibibytes",
        "KBy" | "kBy" => "kilobytes",
        "MBy" => "megabytes",
        "GBy" => "gigabytes",
        "TBy" => "terabytes",
        "m" => "meters",
        "V" => "volts",
        "A" => "amperes",
        "J" => "joules",
        "W" => "watts",
        "g" => "grams",
        "Cel" => "celsius",
        "Hz" => "hertz",
        "1" => "",
        "%" => "percent",
        _ => return None,
    })
}

fn per_word(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "s" => "second",
        "m" => "minute",
        "h" => "hour",
        "d" => "day",
        "w" => "week",
        "mo" => "month",
        "y" => "year",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::NameKind::{Gauge, MonotonicSum, Other};
    use super::Strategy::{
        NoTranslation, NoUtf8EscapingWithSuffixes, UnderscoreEscapingWithSuffixes,
        UnderscoreEscapingWithoutSuffixes,
    };
    use super::*;

    #[track_caller]
    fn check(strategy: Strategy, (name, unit, kind): (&str, &str, NameKind), expected: &str) {
        let made = metric_name(strategy, name, unit, kind);
        assert_eq!(made.as_deref().unwrap_or(""), expected, "{name:?} {unit:?}");
    }

    #[test]
    fn underscores_and_suffixes() {
        let check = |metric, expected| check(UnderscoreEscapingWithSuffixes, metric, expected);
        check(
            ("http.server.duration", "ms", Other),
            "http_server_duration_milliseconds",
        );
        check(("requests", "", MonotonicSum), "requests_total");
        check(("requests_total", "", MonotonicSum), "requests_total");
        check(("total.requests", "", MonotonicSum), "requests_total");
        check(("cpu_usage", "1", Gauge), "cpu_usage_ratio");
        check(("cpu_usage_ratio", "1", Gauge), "cpu_usage_ratio");
        check(("items", "1", MonotonicSum), "items_total");
        check(("updown", "1", Other), "updown");
        check(("memory", "By", Gauge), "memory_bytes");
        check(("memory_bytes", "By", Gauge), "memory_bytes");
        check(("requests", "1/s", Gauge), "requests_per_second");
        check(("throughput", "By/s", Gauge), "throughput_bytes_per_second");
        check(("custom", "custom_unit", Gauge), "custom_custom_unit");
        check(("custom", "{things}", Gauge), "custom");
        check(("custom", "By/{thing}", Gauge), "custom_bytes");
        check(("a__b", "unit__c", Gauge), "a_b_unit_c");
        check(
            ("custom", "unit@with#special/chars", Gauge),
            "custom_unit_with_special_per_chars",
        );
        check(("123", "", Gauge), "_123");
        check(("job:rate", "", Gauge), "job:rate");
        check(("@#$%", "", Gauge), "");
        check(("", "", Gauge), "");
        check(("grüße", "", Gauge), "gr_e");
    }

    #[test]
    fn underscores_only() {
        let check = |metric, expected| check(UnderscoreEscapingWithoutSuffixes, metric, expected);
        check(("metric@@##$$name", "s", MonotonicSum), "metric_name");
        check(("a__b", "", Gauge), "a__b");
        check(("123metric", "", Gauge), "_123metric");
        check(("@#$%", "", Gauge), "");
        check(("_", "", Gauge), "_");
        check(("_.", "", Gauge), "");
    }

    #[test]
    fn utf8_names() {
        let suffixed = |metric, expected| check(NoUtf8EscapingWithSuffixes, metric, expected);
        suffixed(("requêsts", "", MonotonicSum), "requêsts_total");
        suffixed(
            ("cpu_seconds_total", "s", MonotonicSum),
            "cpu_seconds_total",
        );
        suffixed(("requêsts.rate", "1/s", Gauge), "requêsts.rate_per_second");
        suffixed(("x_per_second", "By/s", Gauge), "x_bytes_per_second");
        suffixed(("usagé", "1", Gauge), "usagé_ratio");
        suffixed(("total", "", MonotonicSum), "total_total");
        suffixed(("étotal", "", MonotonicSum), "étotal_total");
        suffixed(("", "", Gauge), "");
        check(
            NoTranslation,
            ("http.server", "ms", MonotonicSum),
            "http.server",
        );
    }

    #[test]
    fn units_in_words() {
        let words = |unit| unit_words(UnderscoreEscapingWithSuffixes, unit);
        assert_eq!(words("By/s"), "bytes_per_second");
        assert_eq!(words("1/s"), "per_second");
        assert_eq!(words("1"), "");
        assert_eq!(words("{packet}"), "");
        assert_eq!(words("%"), "percent");
        assert_eq!(words("a b_"), "a_b");
        assert_eq!(unit_words(NoTranslation, "a b"), "a b");
    }
}
