use std::sync::Arc;

use icecore_model::varint::take_varint;
use icecore_model::{HistogramCounts, Span};

use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied())
}

fn histogram() -> Histogram {
    Histogram {
        schema: 2,
        reset_hint: CounterResetHint::Unknown,
        zero_threshold: 0.5,
        sum: 3.0,
        counts: HistogramCounts::Integer {
            count: 4,
            zero_count: 1,
            positive_deltas: vec![1, 1],
            negative_deltas: Vec::new(),
        },
        positive_spans: vec![Span {
            offset: -1,
            length: 2,
        }],
        negative_spans: Vec::new(),
        custom_bounds: Arc::from([]),
    }
}

fn written(accept: &str) -> Vec<u8> {
    let mut writer = FederateWriter::new(FederateFormat::negotiate(Some(accept)));
    let (counter, gauge) = (MetricType::Counter, MetricType::Gauge);
    let float = FederatedValue::Float;
    let series = labels(&[
        ("__name__", "a_total"),
        ("instance", "i"),
        ("path", "a\"b\\\n"),
    ]);
    writer.sample(&series, 1000, float(1.5), counter);
    let series = labels(&[("__name__", "a_total")]);
    writer.sample(&series, -1, float(f64::INFINITY), counter);
    let series = labels(&[("__name__", "b"), ("host.name", "x")]);
    writer.sample(&series, 2, float(-0.0), gauge);
    let native = FederatedValue::Histogram(&histogram());
    writer.sample(&series, 2, native, MetricType::Histogram);
    let series = labels(&[("__name__", "disk.größe")]);
    writer.sample(&series, 3, float(1e21), MetricType::Summary);
    writer.sample(&labels(&[("job", "nameless")]), 3, float(1.0), counter);
    writer.finish()
}

fn text(accept: &str) -> String {
    String::from_utf8(written(accept)).unwrap()
}

#[test]
fn text_has_types_timestamps_and_an_instance() {
    assert_eq!(
        text(""),
        "# TYPE a_total counter\n\
         a_total{instance=\"i\",path=\"a\\\"b\\\\\\n\"} 1.5 1000\n\
         a_total{instance=\"\"} +Inf -1\n\
         # TYPE b gauge\n\
         b{host_name=\"x\",instance=\"\"} -0 2\n\
         # TYPE disk_gr__e untyped\n\
         disk_gr__e{instance=\"\"} 1e21 3\n"
    );
}

#[test]
fn names_are_escaped_as_asked() {
    let line = |escaping: &str| {
        let text = text(&format!("text/plain; escaping={escaping}"));
        let mut lines = text.lines().rev().take(2).map(str::to_owned);
        (lines.next().unwrap(), lines.next().unwrap())
    };
    let expected = |sample: &str, kind: &str| (sample.to_owned(), kind.to_owned());
    assert_eq!(
        line("allow-utf-8"),
        expected(
            "{\"disk.größe\",instance=\"\"} 1e21 3",
            "# TYPE \"disk.größe\" untyped"
        )
    );
    assert_eq!(
        line("values"),
        expected(
            "U__disk_2e_gr_f6__df_e{instance=\"\"} 1e21 3",
            "# TYPE U__disk_2e_gr_f6__df_e untyped"
        )
    );
    assert_eq!(
        line("dots"),
        expected(
            "disk_dot_gr____e{instance=\"\"} 1e21 3",
            "# TYPE disk_dot_gr____e untyped"
        )
    );
}

#[test]
fn the_format_is_what_the_scraper_likes_best() {
    let content_type = |accept| FederateFormat::negotiate(accept).content_type();
    let plain = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    let protobuf = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                    encoding=delimited";
    for accept in [
        None,
        Some(""),
        Some("*/*"),
        Some("application/json"),
        Some("text/html;x"),
    ] {
        assert_eq!(content_type(accept), plain, "{accept:?}");
    }
    // What Prometheus 3 sends, with and without native histograms.
    let with_protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
        encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
        text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
    let underscores = format!("{protobuf}; escaping=underscores");
    assert_eq!(content_type(Some(with_protobuf)), underscores);
    let text_first = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
        text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    assert_eq!(
        content_type(Some(text_first)),
        "text/plain; version=0.0.4; charset=utf-8; escaping=allow-utf-8"
    );
    let weighted = format!("text/plain;q=0.1, {protobuf};escaping=dots;q=0.9");
    let dots = format!("{protobuf}; escaping=dots");
    assert_eq!(content_type(Some(&weighted)), dots);
}

/// Fields as (number, content), with doubles and varints as their bits.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = take_varint(&mut message).unwrap();
        let length = match tag & 7 {
            0 => {
                let value = take_varint(&mut message).unwrap();
                found.push((tag >> 3, value.to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            _ => take_varint(&mut message).unwrap() as usize,
        };
        let (content, rest) = message.split_at(length);
        found.push((tag >> 3, content.to_vec()));
        message = rest;
    }
    found
}

#[test]
fn protobuf_has_native_histograms_and_one_message_per_family() {
    let accept = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                  encoding=delimited; escaping=allow-utf-8";
    let bytes = written(accept);
    let mut rest = &bytes[..];
    let mut families = Vec::new();
    while !rest.is_empty() {
        let length = take_varint(&mut rest).unwrap();
        let (message, tail) = rest.split_at(length as usize);
        families.push(fields(message));
        rest = tail;
    }
    let number = |value: u64| value.to_le_bytes().to_vec();
    let double = |value: f64| value.to_le_bytes().to_vec();
    let heads: Vec<_> = families
        .iter()
        .map(|f| (f[0].1.clone(), f[1].1.clone()))
        .collect();
    let expected = [("a_total", 0), ("b", 1), ("b", 4), ("disk.größe", 3)];
    let expected = expected.map(|(name, kind)| (name.as_bytes().to_vec(), number(kind)));
    assert_eq!(heads, expected);
    assert_eq!(families[0].len(), 4, "name, type and two metrics");

    let metric = fields(&families[2][2].1);
    assert_eq!(metric.last(), Some(&(6, number(2))));
    let native = metric.iter().find(|(field, _)| *field == 7).unwrap();
    let packed = [double(1.0), double(2.0)].concat();
    let expected = [
        (2, double(3.0)),
        (4, double(4.0)),
        (5, number(4)),
        (6, double(0.5)),
        (8, double(1.0)),
        (12, vec![0x08, 1, 0x10, 2]),
        (14, packed),
    ];
    assert_eq!(fields(&native.1), expected);
}
