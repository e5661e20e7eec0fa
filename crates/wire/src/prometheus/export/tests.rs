use std::sync::Arc;

use icecore_model::{FloatColumns, Labels, STALE_NAN_BITS, SeriesSamples};
use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn line(series: &SeriesSamples) -> String {
    let mut out = Vec::new();
    write_export_line(&mut out, SeriesContent::new(series, &[]), None);
    String::from_utf8(out).unwrap()
}

fn series(floats: &[(i64, f64)], histograms: Vec<HistogramSample>) -> SeriesSamples {
    SeriesSamples {
        labels: Labels::from_pairs([("__name__", "m"), ("a", "\"b\"")]),
        floats: FloatColumns {
            timestamps: floats.iter().map(|(t, _)| *t).collect(),
            values: floats.iter().map(|(_, v)| *v).collect(),
        },
        histograms,
        start_timestamps: Vec::new(),
        forms: Default::default(),
        rolled: None,
    }
}

/// Reads a value back, the way the module's table says.
fn read_value(text: &str) -> u64 {
    match text {
        "\"Inf\"" => f64::INFINITY.to_bits(),
        "\"-Inf\"" => f64::NEG_INFINITY.to_bits(),
        "\"NaN\"" => NORMAL_NAN_BITS,
        "\"StaleNaN\"" => STALE_NAN_BITS,
        _ => match text.strip_prefix("\"NaN:0x") {
            Some(bits) => u64::from_str_radix(bits.trim_end_matches('"'), 16).unwrap(),
            None => text.parse::<f64>().unwrap().to_bits(),
        },
    }
}

fn read_back(bits: u64) -> u64 {
    let mut out = Vec::new();
    write_value(&mut out, f64::from_bits(bits));
    serde_json::from_slice::<Value>(&out).expect("it is JSON");
    read_value(str::from_utf8(&out).unwrap())
}

#[test]
fn special_values_read_back() {
    for bits in [
        0,
        1 << 63,
        1,
        f64::MAX.to_bits(),
        f64::INFINITY.to_bits(),
        f64::NEG_INFINITY.to_bits(),
        f64::NAN.to_bits(),
        NORMAL_NAN_BITS,
        STALE_NAN_BITS,
        u64::MAX,
    ] {
        assert_eq!(read_back(bits), bits, "{bits:x}");
    }
}

proptest! {
    #[test]
    fn every_bit_pattern_reads_back(bits: u64) {
        prop_assert_eq!(read_back(bits), bits);
    }

    #[test]
    fn every_nan_reads_back(payload in 1u64..1 << 52, negative: bool) {
        let bits = u64::from(negative) << 63 | 0x7ff << 52 | payload;
        prop_assert_eq!(read_back(bits), bits);
    }
}

#[test]
fn a_line_of_floats() {
    let floats = [
        (-1, 1.0),
        (1_700_000_000_000, -0.0),
        (1_700_000_015_000, 0.1),
        (i64::MAX, f64::from_bits(STALE_NAN_BITS)),
        (i64::MAX, f64::INFINITY),
        (i64::MAX, f64::from_bits(0x7ff8_0000_0000_0000)),
    ];
    assert_eq!(
        line(&series(&floats, Vec::new())),
        concat!(
            r#"{"metric":{"__name__":"m","a":"\"b\""},"#,
            r#""values":[1,-0,0.1,"StaleNaN","Inf","NaN:0x7ff8000000000000"],"#,
            r#""timestamps":[-1,1700000000000,1700000015000,9223372036854775807,"#,
            r#"9223372036854775807,9223372036854775807]}"#,
            "\n"
        )
    );
}

#[test]
fn a_line_of_integer_histograms() {
    let histogram = Histogram {
        schema: 3,
        reset_hint: CounterResetHint::NotReset,
        zero_threshold: 1e-128,
        sum: 18.4,
        counts: HistogramCounts::Integer {
            count: u64::MAX,
            zero_count: 2,
            positive_deltas: vec![1, 1, -1],
            negative_deltas: vec![3],
        },
        positive_spans: vec![
            Span {
                offset: -2,
                length: 2,
            },
            Span {
                offset: 1,
                length: 1,
            },
        ],
        negative_spans: vec![Span {
            offset: 0,
            length: 1,
        }],
        custom_bounds: Arc::from([]),
    };
    let sample = HistogramSample {
        timestamp_ms: 5,
        histogram: Arc::new(histogram),
    };
    let mut series = series(&[], vec![sample]);
    series.start_timestamps = vec![(5, 1)];
    assert_eq!(
        line(&series),
        concat!(
            r#"{"metric":{"__name__":"m","a":"\"b\""},"start_timestamps":[[5,1]],"values":[],"timestamps":[],"#,
            r#""histograms":[{"timestamp":5,"schema":3,"reset_hint":"not_reset","sum":18.4,"#,
            r#""count":18446744073709551615,"zero_threshold":1e-128,"zero_count":2,"#,
            r#""positive_spans":[[-2,2],[1,1]],"positive_deltas":[1,1,-1],"#,
            r#""negative_spans":[[0,1]],"negative_deltas":[3]}]}"#,
            "\n"
        )
    );
    serde_json::from_str::<Value>(&line(&series)).unwrap();
}

#[test]
fn a_line_of_float_histograms_with_custom_bounds() {
    let histogram = Histogram {
        schema: -53,
        reset_hint: CounterResetHint::Gauge,
        zero_threshold: 0.0,
        sum: f64::from_bits(STALE_NAN_BITS),
        counts: HistogramCounts::Float {
            count: 3.5,
            zero_count: 0.0,
            positive: vec![1.25, 2.25],
            negative: vec![],
        },
        positive_spans: vec![Span {
            offset: 0,
            length: 2,
        }],
        negative_spans: vec![],
        custom_bounds: Arc::from([0.5, 1.0]),
    };
    let sample = HistogramSample {
        timestamp_ms: 5,
        histogram: Arc::new(histogram),
    };
    assert_eq!(
        line(&series(&[], vec![sample])),
        concat!(
            r#"{"metric":{"__name__":"m","a":"\"b\""},"values":[],"timestamps":[],"#,
            r#""histograms":[{"timestamp":5,"schema":-53,"reset_hint":"gauge","sum":"StaleNaN","#,
            r#""count":3.5,"zero_threshold":0,"zero_count":0,"#,
            r#""positive_spans":[[0,2]],"positive_counts":[1.25,2.25],"#,
            r#""negative_spans":[],"negative_counts":[],"custom_bounds":[0.5,1]}]}"#,
            "\n"
        )
    );
}
