use proptest::prelude::*;

use super::*;

#[test]
fn times_in_seconds() {
    for (text, ms) in [
        ("0", 0),
        ("1700000000", 1_700_000_000_000),
        ("1700000000.123", 1_700_000_000_123),
        ("1700000000.1239", 1_700_000_000_124),
        ("-1.5", -1500),
        ("1.7e9", 1_700_000_000_000),
        ("+5", 5000),
        (".5", 500),
        ("1.29", 1290),
    ] {
        assert_eq!(parse_time_ms(text), Ok(ms), "{text}");
    }
}

#[test]
fn times_of_rfc_3339() {
    for (text, ms) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2015-06-03T13:21:58.555Z", 1_433_337_718_555),
        ("2015-06-03T14:21:58.555+01:00", 1_433_337_718_555),
        ("2015-06-03T07:51:58.555-05:30", 1_433_337_718_555),
        ("2015-06-03T13:21:58.5559999Z", 1_433_337_718_555),
        ("2015-06-03T13:21:58.5Z", 1_433_337_718_500),
        ("2024-02-29T23:59:59Z", 1_709_251_199_000),
        ("2000-02-29T00:00:00Z", 951_782_400_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0000-01-01T00:00:00Z", -62_167_219_200_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ("-292273086-05-16T16:47:06Z", -9_223_309_901_257_974_000),
        (
            "292277025-08-18T07:12:54.999999999Z",
            9_223_309_901_257_974_999,
        ),
    ] {
        assert_eq!(parse_time_ms(text), Ok(ms), "{text}");
    }
}

#[test]
fn texts_that_are_no_times() {
    for text in [
        "",
        " ",
        "foo",
        "30s",
        "2015-06-03",
        "2015-06-03T13:21:58",
        "2015-06-03t13:21:58Z",
        "2015-06-03 13:21:58Z",
        "2015-6-03T13:21:58Z",
        "2015-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2015-13-01T00:00:00Z",
        "2015-00-01T00:00:00Z",
        "2015-01-00T00:00:00Z",
        "2015-04-31T00:00:00Z",
        "2015-01-01T24:00:00Z",
        "2015-01-01T00:60:00Z",
        "2015-01-01T00:00:60Z",
        "2015-01-01T00:00:00.Z",
        "2015-01-01T00:00:00+1:00",
        "2015-01-01T00:00:00+01:60",
        "2015-01-01T00:00:00+25:00",
        "2015-01-01T00:00:00+01:00Z",
        "2015-01-01T00:00:00Zé",
        "é015-01-01T00:00:00Z",
    ] {
        assert_eq!(parse_time_ms(text), Err(ParamError::Time(text.into())));
    }
    for text in ["NaN", "Inf", "-inf", "1e300", "9223372036854776"] {
        assert_eq!(
            parse_time_ms(text),
            Err(ParamError::TimeOverflow(text.into()))
        );
    }
}

/// What Prometheus 3.14 answers to `time()` at these times.
#[test]
fn times_of_queries_wrap_around() {
    for (text, ms) in [
        ("1.5", 1500),
        ("-1", -1000),
        ("1e30", 0),
        ("-1e30", 0),
        ("9223372036854775807", 0),
        ("9e18", -7_037_857_225_871),
        ("1e18", -6_930_898_827_444),
        ("1e17", -2_537_764_290_115),
        ("1e16", 1_590_897_978_359),
        ("9.3e15", 188_263_034_714),
        ("NaN", -9_223_372_036_854),
        ("Inf", -9_223_372_036_854),
        ("-Inf", -9_223_372_036_854),
    ] {
        assert_eq!(parse_query_time_ms(text), Ok(ms), "{text}");
    }
    let text = "yesterday";
    let unknown = Err(ParamError::Time(text.into()));
    assert_eq!(parse_query_time_ms(text), unknown);
}

#[test]
fn durations() {
    const DAY: i64 = 24 * 3_600_000;
    for (text, ms) in [
        ("0", 0),
        ("0s", 0),
        ("15", 15_000),
        ("0.5", 500),
        ("123.456", 123_456),
        ("-5", -5000),
        ("1e3", 1_000_000),
        ("100ms", 100),
        ("15s", 15_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("1d", DAY),
        ("1w", 7 * DAY),
        ("1y", 365 * DAY),
        (
            "1y2w3d4h5m6s7ms",
            (365 + 14 + 3) * DAY + 4 * 3_600_000 + 306_007,
        ),
        ("290y", 290 * 365 * DAY),
    ] {
        assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
    }
}

#[test]
fn texts_that_are_no_durations() {
    for text in [
        "", "s", "5x", "1m1h", "1m1m", "-1h", "1.5h", "1h 30m", "1hm", "1h30", "1ms1s",
    ] {
        assert_eq!(
            parse_duration_ms(text),
            Err(ParamError::Duration(text.into()))
        );
    }
    for text in [
        "300y",
        "NaN",
        "Inf",
        "1e300",
        "9999999999999999999y",
        "292y99999w",
    ] {
        assert_eq!(
            parse_duration_ms(text),
            Err(ParamError::DurationOverflow(text.into()))
        );
    }
}

proptest! {
    #[test]
    fn any_text_is_a_value_or_an_error(text in "\\PC*", spec in "[0-9ywdhmsTZ:.+-]{0,30}") {
        for text in [text, spec] {
            let _ = parse_time_ms(&text);
            let _ = parse_duration_ms(&text);
        }
    }

    #[test]
    fn milliseconds_survive_as_seconds(ms in -4_000_000_000_000i64..4_000_000_000_000) {
        let text = format!("{}{}.{:03}", if ms < 0 { "-" } else { "" }, ms.abs() / 1000, ms.abs() % 1000);
        prop_assert_eq!(parse_time_ms(&text), Ok(ms));
    }
}
