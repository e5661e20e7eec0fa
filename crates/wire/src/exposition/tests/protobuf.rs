//! Protobuf families, and what our own federation writes.

use super::super::*;
use super::read;
use crate::prometheus::federate::{FederateFormat, FederateWriter, FederatedValue};
use icecore_model::varint::{push_varint, zigzag};
use icecore_model::{CounterResetHint, HistogramCounts, Labels, Span};
use proptest::prelude::*;
use std::sync::Arc;

fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_varint(&mut bytes, value);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn signed(field: u64, value: i64) -> Vec<u8> {
    number(field, zigzag(value))
}

fn double(field: u64, value: f64) -> Vec<u8> {
    [varint(field << 3 | 1), value.to_le_bytes().to_vec()].concat()
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}

fn message(field: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    bytes(field, &parts.concat())
}

fn label(name: &str, value: &str) -> Vec<u8> {
    message(1, &[bytes(1, name.as_bytes()), bytes(2, value.as_bytes())])
}

fn delimited(parts: &[Vec<u8>]) -> Vec<u8> {
    let content = parts.concat();
    [varint(content.len() as u64), content].concat()
}

fn timestamp(field: u64, seconds: u64, nanos: u64) -> Vec<u8> {
    message(field, &[number(1, seconds), number(2, nanos)])
}

fn exemplar(field: u64, id: &str, value: f64, seconds: Option<u64>) -> Vec<u8> {
    let mut parts = vec![label("id", id), double(2, value)];
    parts.extend(seconds.map(|seconds| timestamp(3, seconds, 0)));
    message(field, &parts)
}

fn words(body: &[u8]) -> Result<Vec<String>, String> {
    read(body, Format::Protobuf, ParserOptions::default())
}

#[test]
fn every_type() {
    let body = [
        delimited(&[
            bytes(1, b"c_seconds_total"),
            bytes(2, b"Help."),
            number(3, 0),
            message(
                4,
                &[
                    label("a", "b"),
                    message(
                        3,
                        &[
                            double(1, 5.5),
                            exemplar(2, "x", 1.0, Some(7)),
                            timestamp(3, 100, 500_000_000),
                        ],
                    ),
                    number(6, 1234),
                ],
            ),
            message(4, &[label("a", "c"), message(3, &[])]),
            bytes(5, b"seconds"),
        ]),
        delimited(&[bytes(1, b"nothing"), number(3, 77)]),
        delimited(&[
            bytes(1, b"g.x"),
            number(3, 1),
            message(4, &[message(2, &[double(1, f64::INFINITY)])]),
        ]),
        delimited(&[
            bytes(1, b"u"),
            number(3, 3),
            message(4, &[message(5, &[double(1, -1.0)])]),
        ]),
        delimited(&[
            bytes(1, b"s"),
            number(3, 2),
            message(
                4,
                &[
                    label("a", "b"),
                    message(
                        4,
                        &[
                            number(1, 10),
                            double(2, 2.5),
                            message(3, &[double(1, 0.5), double(2, 1.0)]),
                            message(3, &[double(1, 1.0), double(2, 3.0)]),
                            timestamp(4, 1, 0),
                        ],
                    ),
                ],
            ),
        ]),
        delimited(&[
            bytes(1, b"h"),
            number(3, 4),
            message(
                4,
                &[message(
                    7,
                    &[
                        number(1, 3),
                        double(2, 4.5),
                        message(
                            3,
                            &[number(1, 1), double(2, 1.0), exemplar(3, "y", 0.5, None)],
                        ),
                        message(3, &[number(1, 2), double(2, 1e6)]),
                    ],
                )],
            ),
        ]),
    ]
    .concat();
    assert_eq!(
        words(&body).unwrap(),
        [
            "help c_seconds_total Help.",
            "unit c_seconds_total seconds",
            "type c_seconds_total counter",
            "__name__=c_seconds_total a=b → 5.5 @1234 from 100500 # {id=\"x\"} 1 @7000",
            "__name__=c_seconds_total a=c → 0",
            "help g.x ",
            "type g.x gauge",
            "__name__=g.x → inf",
            "help u ",
            "type u unknown",
            "__name__=u → -1",
            "help s ",
            "type s summary",
            "__name__=s_count a=b → 10 from 1000",
            "__name__=s_sum a=b → 2.5 from 1000",
            "__name__=s a=b quantile=0.5 → 1 from 1000",
            "__name__=s a=b quantile=1.0 → 3 from 1000",
            "help h ",
            "type h histogram",
            "__name__=h_count → 3",
            "__name__=h_sum → 4.5",
            "__name__=h_bucket le=1.0 → 1 # {id=\"y\"} 0.5",
            "__name__=h_bucket le=1e+06 → 2",
            "__name__=h_bucket le=+Inf → 3",
        ]
    );
}

fn native(metric_type: u64, extra: &[Vec<u8>]) -> Vec<u8> {
    let mut histogram = vec![
        number(1, 8),
        double(2, 4.5),
        signed(5, 3),
        double(6, 0.001),
        number(7, 2),
        message(12, &[signed(1, -2), number(2, 2)]),
        bytes(13, &[0x04, 0x02]),
        message(9, &[signed(1, 0), number(2, 1)]),
        signed(10, 1),
    ];
    histogram.extend_from_slice(extra);
    delimited(&[
        bytes(1, b"n"),
        number(3, metric_type),
        message(4, &[message(7, &histogram)]),
    ])
}

#[test]
fn native_histograms() {
    let series = "__name__=n → schema 3 hint Unknown zero 0.001 sum 4.5 Integer { count: 8, zero_count: 2, \
                  positive_deltas: [2, 1], negative_deltas: [1] } +[-2+2] -[0+1]";
    let buckets = [
        message(
            3,
            &[
                number(1, 8),
                double(2, f64::INFINITY),
                exemplar(3, "b", 2.0, Some(1)),
            ],
        ),
        timestamp(15, 3, 0),
    ];
    assert_eq!(words(&native(4, &[])).unwrap()[2], series);
    let gauge = words(&native(5, &[])).unwrap();
    assert_eq!(gauge[1], "type n gaugehistogram");
    assert_eq!(gauge[2], series.replace("Unknown", "Gauge"));

    // Exemplars of the classic buckets count where there are no others, if they have a timestamp.
    let with_buckets = words(&native(4, &buckets)).unwrap();
    assert_eq!(
        with_buckets[2..],
        [format!("{series} from 3000 # {{id=\"b\"}} 2 @1000")]
    );
    let own = [
        exemplar(16, "o", 1.0, Some(2)),
        exemplar(16, "dropped", 1.0, None),
    ];
    let with_own = words(&native(4, &[&own[..], &buckets].concat())).unwrap();
    assert_eq!(
        with_own[2..],
        [format!("{series} from 3000 # {{id=\"o\"}} 1 @2000")]
    );

    let options = ParserOptions {
        classic_beside_native: true,
        ..ParserOptions::default()
    };
    let both = read(&native(4, &buckets), Format::Protobuf, options).unwrap();
    let ignored = ParserOptions {
        ignore_native: true,
        ..ParserOptions::default()
    };
    let classic = read(&native(4, &buckets), Format::Protobuf, ignored).unwrap();
    assert_eq!(classic[2..], both[3..]);
    // The last bucket has the count, also where there are no others.
    let counted = read(&native(4, &[]), Format::Protobuf, ignored).unwrap();
    assert_eq!(counted[4], "__name__=n_bucket le=+Inf → 8");
    assert_eq!(
        both[3..],
        [
            "__name__=n_count → 8 from 3000",
            "__name__=n_sum → 4.5 from 3000",
            "__name__=n_bucket le=+Inf → 8 from 3000 # {id=\"b\"} 2 @1000",
        ]
    );
    assert_eq!(
        read(&native(4, &[]), Format::Protobuf, options)
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn a_span_of_nothing_says_native() {
    let histogram = [number(1, 0), message(12, &[signed(1, 0), number(2, 0)])];
    let body = delimited(&[
        bytes(1, b"n"),
        number(3, 4),
        message(4, &[message(7, &histogram)]),
    ]);
    let words = words(&body).unwrap();
    assert_eq!(words.len(), 3);
    assert!(
        words[2].ends_with("positive_deltas: [], negative_deltas: [] } +[] -[]"),
        "{words:?}"
    );
}

#[test]
fn classic_histograms_become_native_ones() {
    let options = ParserOptions {
        classic_to_custom_bounds: true,
        ..ParserOptions::default()
    };
    let body = |last: u64| {
        delimited(&[
            bytes(1, b"h"),
            number(3, 4),
            message(
                4,
                &[message(
                    7,
                    &[
                        number(1, 3),
                        double(2, 4.5),
                        message(
                            3,
                            &[number(1, 1), double(2, 1.0), exemplar(3, "y", 0.5, None)],
                        ),
                        message(3, &[number(1, last), double(2, 2.0)]),
                    ],
                )],
            ),
        ])
    };
    let converted = read(&body(3), Format::Protobuf, options).unwrap();
    assert_eq!(
        converted[2..],
        [
            "__name__=h → schema -53 hint Unknown zero 0 sum 4.5 Integer { count: 3, zero_count: 0, \
          positive_deltas: [1, 1, -2], negative_deltas: [] } +[0+3] -[] bounds [1.0, 2.0] # {id=\"y\"} 0.5"
        ]
    );
    // What contradicts itself stays classic.
    let kept = read(&body(4), Format::Protobuf, options).unwrap();
    assert_eq!(kept.len(), 2 + 5);
    let both = ParserOptions {
        classic_beside_native: true,
        ..options
    };
    assert_eq!(
        read(&body(3), Format::Protobuf, both).unwrap().len(),
        2 + 1 + 5
    );
}

#[test]
fn what_is_refused() {
    let gauge = |parts: &[Vec<u8>]| delimited(&[parts.concat(), number(3, 1), message(4, &[])]);
    for (body, reason) in [
        (vec![5, 1], "ends inside"),
        (delimited(&[vec![0x4b]]), "groups"),
        (gauge(&[]), "it is empty"),
        (
            gauge(&[bytes(1, b"\xff")]),
            "metric name is not valid UTF-8",
        ),
        (
            gauge(&[bytes(1, b"a"), bytes(2, b"\xff")]),
            "help is not valid UTF-8",
        ),
        (
            gauge(&[bytes(1, b"a_x"), bytes(5, b"seconds")]),
            "not a suffix",
        ),
        (gauge(&[number(1, 5)]), "wrong wire type"),
        (
            delimited(&[bytes(1, b"a"), number(3, 6), message(4, &[])]),
            "unknown metric type 6",
        ),
        (
            delimited(&[
                bytes(1, b"a"),
                number(3, 1),
                message(4, &[label("a", "\u{ff}"), bytes(1, b"\x12\x01\xff")]),
            ]),
            "label is not valid UTF-8",
        ),
        (
            delimited(&[
                bytes(1, b"a"),
                number(3, 1),
                message(4, &[label("a", "b"), label("a", "c")]),
            ]),
            "not unique",
        ),
        (native(4, &[signed(5, 9)]), "invalid schema"),
        (native(4, &[number(1, 2)]), "observations found in buckets"),
    ] {
        let error = words(&body).expect_err(reason);
        assert!(error.contains(reason), "{error} is not {reason}");
    }
    let good = gauge(&[bytes(1, b"good")]);
    let error = words(&[good, gauge(&[])].concat()).unwrap_err();
    assert!(error.starts_with("metric family 2: invalid"), "{error}");
}

fn federated(is_text: bool, samples: &[(Labels, i64, SeriesValue)]) -> (Vec<u8>, Format) {
    let accept = if is_text {
        "text/plain;version=0.0.4;escaping=allow-utf-8"
    } else {
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;escaping=allow-utf-8"
    };
    let format = FederateFormat::negotiate(Some(accept));
    let mut writer = FederateWriter::new(format);
    for (labels, timestamp_ms, value) in samples {
        let value = match value {
            SeriesValue::Float(value) => FederatedValue::Float(*value),
            SeriesValue::Histogram(histogram) => FederatedValue::Histogram(histogram),
        };
        writer.sample(labels, *timestamp_ms, value, MetricType::Counter);
    }
    let content_type = format.content_type();
    let format = Format::from_content_type(Some(&content_type), None).unwrap();
    (writer.finish(), format)
}

fn labels() -> impl Strategy<Value = Labels> {
    let pairs = prop::collection::btree_map("[a-z.é\"\\\\]{1,6}", any::<String>(), 0..4);
    (any::<String>(), pairs).prop_map(|(name, pairs)| {
        let name = if name.is_empty() { "n".into() } else { name };
        let pairs = pairs
            .into_iter()
            .chain([("__name__".into(), name), ("instance".into(), "i".into())]);
        Labels::from_pairs(pairs)
    })
}

fn histograms() -> impl Strategy<Value = Histogram> {
    let buckets = prop::collection::vec((0i32..5, prop::collection::vec(0u32..1000, 1..4)), 0..4);
    (buckets, any::<f64>(), -4i8..=8, any::<bool>(), 0u32..10).prop_map(
        |(runs, sum, schema, gauge, zeros)| {
            let positive: Vec<f64> = runs
                .iter()
                .flat_map(|(_, run)| run)
                .map(|c| f64::from(*c))
                .collect();
            let spans = runs.iter().map(|(offset, run)| Span {
                offset: *offset,
                length: run.len() as u32,
            });
            Histogram {
                schema,
                reset_hint: if gauge {
                    CounterResetHint::Gauge
                } else {
                    CounterResetHint::Unknown
                },
                zero_threshold: 0.25,
                sum,
                positive_spans: spans.collect(),
                negative_spans: Vec::new(),
                custom_bounds: Arc::default(),
                counts: HistogramCounts::Float {
                    count: positive.iter().sum::<f64>() + f64::from(zeros) + 1.0,
                    zero_count: f64::from(zeros),
                    positive,
                    negative: Vec::new(),
                },
            }
        },
    )
}

fn samples(with_histograms: bool) -> impl Strategy<Value = Vec<(Labels, i64, SeriesValue)>> {
    let floats = any::<f64>().prop_map(SeriesValue::Float).boxed();
    let values = if with_histograms {
        prop_oneof![floats, histograms().prop_map(SeriesValue::Histogram)].boxed()
    } else {
        floats
    };
    prop::collection::vec((labels(), 1i64..1 << 50, values), 0..8)
}

fn same(read: &SeriesValue, written: &SeriesValue) -> bool {
    match (read, written) {
        (SeriesValue::Float(read), SeriesValue::Float(written)) => {
            read.to_bits() == written.to_bits() || (read.is_nan() && written.is_nan())
        }
        _ => read == written,
    }
}

proptest! {
    #[test]
    fn what_federation_writes_is_read(
        (is_text, samples) in any::<bool>().prop_flat_map(|is_text| (Just(is_text), samples(!is_text))),
    ) {
        let (body, format) = federated(is_text, &samples);
        let mut parser = Parser::new(&body, format);
        let mut left = samples.iter();
        while let Some(entry) = parser.next().unwrap() {
            let Entry::Series(series) = entry else { continue };
            let mut pairs = Vec::new();
            series.labels(&mut pairs).unwrap();
            let (labels, timestamp_ms, value) = left.next().unwrap();
            prop_assert_eq!(&Labels::from_pairs(pairs), labels);
            prop_assert_eq!(series.timestamp_ms, Some(*timestamp_ms));
            prop_assert!(same(&series.value, value), "{:?} {:?}", series.value, value);
        }
        prop_assert!(left.next().is_none());
    }

    #[test]
    fn no_bytes_panic(mut body in prop::collection::vec(any::<u8>(), 0..60), at in 0usize..200, to: u8) {
        let _ = words(&body);
        body = native(4, &[exemplar(16, "o", 1.0, Some(2))]);
        if let Some(byte) = body.get_mut(at) {
            *byte = to;
        }
        let _ = words(&body);
    }
}
