//! OTLP metrics, through the public functions.

mod captured;
mod line_sink;
mod logs;
mod property;
mod request;

use icecore_model::STALE_NAN_BITS;
use icecore_wire::otlp::{Exponential, Strategy, Translation, decode_metrics};

use line_sink::{LineSink, lines, lines_with};
use request::{
    CUMULATIVE, DELTA, T, attribute, exemplar, exponential_point, gauge, histogram,
    histogram_point, message, number_point, request_of, resource_metrics, scope_metrics, sum,
    summary,
};

/// Checks what becomes of one metric under a resource `service.name = svc`.
#[track_caller]
fn check(translation: &Translation, metric: &[u8], expected: &[&str]) {
    assert_eq!(lines_with(&request_of(metric), translation), expected);
}

#[test]
fn gauges_and_sums() {
    let points = [
        number_point(&[("b.c", "x"), ("a", "y")], 1.5),
        number_point(&[("b.c", "x"), ("a", "z")], -2.0),
    ];
    check(
        &Translation::default(),
        &gauge("room.temperature", "Cel", &points),
        &[
            "meta room_temperature_celsius gauge unit=celsius Unspecified",
            "point",
            r#"room_temperature_celsius{a="y",b_c="x",job="svc"} 1.5 @1700000000000"#,
            "point",
            r#"room_temperature_celsius{a="z",b_c="x",job="svc"} -2 @1700000000000"#,
        ],
    );
    let point = [number_point(&[], 3.0)];
    check(
        &Translation::default(),
        &sum("requests", "1", &point, CUMULATIVE, true),
        &[
            "meta requests_total counter unit= Cumulative monotonic",
            "point",
            r#"requests_total{job="svc"} 3 @1700000000000 since 1600000000000"#,
        ],
    );
    check(
        &Translation::default(),
        &sum("queue", "", &point, CUMULATIVE, false),
        &[
            "meta queue gauge unit= Cumulative",
            "point",
            r#"queue{job="svc"} 3 @1700000000000"#,
        ],
    );
    for monotonic in [true, false] {
        let calls = lines(&request_of(&sum("sent", "By", &point, DELTA, monotonic)));
        let name = if monotonic {
            "sent_bytes_total"
        } else {
            "sent_bytes"
        };
        let delta = format!("{name}{{job=\"svc\"}} delta 3 @1700000000000 since 1600000000000");
        assert_eq!(calls[1..], ["point".to_owned(), delta]);
    }
}

#[test]
fn integers_and_points_without_a_value() {
    let integer = message(|m| {
        m.fixed64(3, T).fixed64(6, -7i64 as u64);
    });
    let none = message(|m| {
        m.fixed64(3, T);
    });
    let timeless = message(|m| {
        m.present_double(4, 1.0);
    });
    let ended = message(|m| {
        m.fixed64(3, T).varint(8, 1);
    });
    check(
        &Translation::default(),
        &gauge("g", "", &[integer, none, timeless, ended]),
        &[
            "meta g gauge unit= Unspecified",
            "point",
            r#"g{job="svc"} -7 @1700000000000"#,
            "point",
            "refused g: data point without a value",
            "point",
            "refused g: data point without a timestamp",
            "point",
            r#"g{job="svc"} stale @1700000000000"#,
        ],
    );
}

#[test]
fn histograms_become_cumulative_buckets() {
    let point = histogram_point(
        &[("a", "x")],
        &[0.005, 1.0, 2_500_000.0],
        &[1, 2, 0, 4],
        Some(9.5),
    );
    check(
        &Translation::default(),
        &histogram("latency", "s", std::slice::from_ref(&point), CUMULATIVE),
        &[
            "meta latency_seconds histogram unit=seconds Cumulative",
            "point",
            r#"latency_seconds_bucket{a="x",job="svc",le="0.005"} 1 @1700000000000 since 1600000000000"#,
            r#"latency_seconds_bucket{a="x",job="svc",le="1"} 3 @1700000000000 since 1600000000000"#,
            r#"latency_seconds_bucket{a="x",job="svc",le="2500000"} 3 @1700000000000 since 1600000000000"#,
            r#"latency_seconds_bucket{a="x",job="svc",le="+Inf"} 7 @1700000000000 since 1600000000000"#,
            r#"latency_seconds_sum{a="x",job="svc"} 9.5 @1700000000000 since 1600000000000"#,
            r#"latency_seconds_count{a="x",job="svc"} 7 @1700000000000 since 1600000000000"#,
        ],
    );
    let delta = lines(&request_of(&histogram("latency", "s", &[point], DELTA)));
    assert!(
        delta[2..].iter().all(|line| line.contains(" delta ")),
        "{delta:?}"
    );
    let without_sum = histogram_point(&[], &[], &[], None);
    check(
        &Translation::default(),
        &histogram("h", "", &[without_sum], CUMULATIVE),
        &[
            "meta h histogram unit= Cumulative",
            "point",
            r#"h_bucket{job="svc",le="+Inf"} 0 @1700000000000 since 1600000000000"#,
            r#"h_count{job="svc"} 0 @1700000000000 since 1600000000000"#,
        ],
    );
}

#[test]
fn histograms_that_contradict_themselves_are_refused() {
    let refused = |bounds: &[f64], counts: &[u64]| {
        let point = histogram_point(&[], bounds, counts, None);
        lines(&request_of(&histogram("h", "", &[point], CUMULATIVE)))
            .pop()
            .unwrap()
    };
    assert_eq!(
        refused(&[1.0], &[1]),
        "refused h: histogram has 1 buckets and 1 bounds"
    );
    let order = "refused h: histogram bounds must be numbers in strictly increasing order";
    assert_eq!(refused(&[2.0, 1.0], &[1, 1, 1]), order);
    assert_eq!(refused(&[1.0, 1.0], &[1, 1, 1]), order);
    assert_eq!(refused(&[f64::NAN], &[1, 1]), order);
    let too_many = vec![1; 65_538];
    assert_eq!(
        refused(&[], &too_many),
        "refused h: histogram has more than 65536 buckets"
    );
}

#[test]
fn by_option_histograms_have_custom_buckets() {
    let translation = Translation {
        convert_histograms_to_nhcb: true,
        ..Translation::default()
    };
    let point = histogram_point(&[], &[1.0, 2.0, 4.0], &[0, 3, 0, 2], Some(9.5));
    let calls = lines_with(
        &request_of(&histogram("h", "", &[point], CUMULATIVE)),
        &translation,
    );
    assert_eq!(
        calls[2],
        r#"h{job="svc"} histogram schema=-53 sum=9.5 count=5 zero=0/0 +[1:3][3,-3,2] -[][] bounds=[1.0, 2.0, 4.0] @1700000000000 since 1600000000000"#
    );
    let empty = histogram_point(&[], &[], &[], Some(1.0));
    let calls = lines_with(
        &request_of(&histogram("h", "", &[empty], DELTA)),
        &translation,
    );
    assert_eq!(
        calls[2],
        r#"h{job="svc"} delta histogram schema=-53 sum=1 count=0 zero=0/0 +[][] -[][] bounds=[] @1700000000000 since 1600000000000"#
    );
}

#[test]
fn exponential_histograms_become_native_ones() {
    let point = exponential_point(3, (-2, &[1, 0, 0, 0, 5, 2]), (0, &[4]), 6);
    check(
        &Translation::default(),
        &request::exponential("e", std::slice::from_ref(&point), CUMULATIVE),
        &[
            "meta e histogram unit= Cumulative",
            "point",
            r#"e{job="svc"} histogram schema=3 sum=1 count=18 zero=6/1e-128 +[-1:1,3:2][1,4,-3] -[1:1][4] bounds=[] @1700000000000 since 1600000000000"#,
        ],
    );
    let calls = lines(&request_of(&request::exponential("e", &[point], DELTA)));
    assert!(calls[2].starts_with(r#"e{job="svc"} delta histogram"#));
    // Four buckets of scale 10 are one of scale 8.
    let fine = exponential_point(10, (-3, &[1, 2, 3, 4, 5, 6, 7, 8]), (0, &[]), 0);
    let calls = lines(&request_of(&request::exponential("e", &[fine], CUMULATIVE)));
    assert!(
        calls[2].contains("schema=8 sum=1 count=36 zero=0/1e-128 +[0:3][6,16,-14]"),
        "{}",
        calls[2]
    );
    let coarse = exponential_point(-5, (0, &[1]), (0, &[]), 0);
    let calls = lines(&request_of(&request::exponential(
        "e",
        &[coarse],
        CUMULATIVE,
    )));
    assert_eq!(
        calls[2],
        "refused e: exponential histogram of scale -5, which is less than -4"
    );
}

#[test]
fn by_option_exponential_histograms_are_classic() {
    let translation = Translation {
        exponential: Exponential::Classic,
        ..Translation::default()
    };
    let buckets = |scale, positive: (i32, &[u64]), negative: (i32, &[u64]), zero| {
        let point = exponential_point(scale, positive, negative, zero);
        let metric = request::exponential("e", &[point], CUMULATIVE);
        let calls = lines_with(&request_of(&metric), &translation);
        let bucket = |line: &String| {
            let (_, le) = line.split_once("le=\"")?;
            let (le, rest) = le.split_once("\"} ")?;
            Some((le.to_owned(), rest.split(' ').next()?.parse::<u64>().ok()?))
        };
        let found: Vec<_> = calls.iter().filter_map(bucket).collect();
        assert!(found.is_sorted_by(|a, b| a.1 <= b.1), "{found:?}");
        found
    };
    let of = |buckets: &[(String, u64)], le: &str| buckets.iter().find(|b| b.0 == le).unwrap().1;
    // (1, 2], (2, 4], (4, 8] at scale 1: two buckets each.
    let fine = buckets(1, (0, &[1, 2, 3, 4, 5, 6]), (0, &[]), 7);
    assert_eq!(fine.len(), 1 + 57 + 1);
    assert_eq!(
        [
            of(&fine, "0"),
            of(&fine, "1"),
            of(&fine, "2"),
            of(&fine, "4"),
            of(&fine, "8")
        ],
        [7, 7, 10, 17, 28]
    );
    assert_eq!([of(&fine, "1099511627776"), of(&fine, "+Inf")], [28, 28]);
    // (1, 16] at scale −2: only its bounds tell something, and the series are the same.
    let coarse = buckets(-2, (0, &[9]), (0, &[]), 0);
    assert_eq!([of(&coarse, "8"), of(&coarse, "16")], [0, 9]);
    let series =
        |buckets: &[(String, u64)]| buckets.iter().map(|b| b.0.clone()).collect::<Vec<_>>();
    assert_eq!(series(&fine), series(&coarse));
    // [−4, −2) and [−2, −1), a value beyond each end.
    let both = buckets(0, (-1000, &[1]), (0, &[2, 3]), 4);
    assert_eq!(both.len(), 57 + 1 + 57 + 1);
    assert_eq!(
        [
            of(&both, "-4"),
            of(&both, "-2"),
            of(&both, "-1"),
            of(&both, "0")
        ],
        [0, 3, 5, 9]
    );
    assert_eq!(of(&both, "0.0000152587890625"), 10);
    let huge = buckets(20, (i32::MAX - 1, &[1]), (i32::MIN, &[1]), 0);
    assert_eq!(
        [
            of(&huge, "0"),
            of(&huge, "1099511627776"),
            of(&huge, "+Inf")
        ],
        [1, 1, 2]
    );
    let hugest = buckets(-1000, (-2, &[1, 1, 1]), (-1, &[1, 1]), 0);
    assert_eq!(
        [
            of(&hugest, "-1"),
            of(&hugest, "0"),
            of(&hugest, "1"),
            of(&hugest, "+Inf")
        ],
        [1, 2, 4, 5]
    );
}

#[test]
fn summaries() {
    check(
        &Translation::default(),
        &summary("rpc", "ms", &[(0.5, 1.0), (0.99, 9.0)], 4, 12.5),
        &[
            "meta rpc_milliseconds summary unit=milliseconds Unspecified",
            "point",
            r#"rpc_milliseconds{job="svc",quantile="0.5"} 1 @1700000000000"#,
            r#"rpc_milliseconds{job="svc",quantile="0.99"} 9 @1700000000000"#,
            r#"rpc_milliseconds_sum{job="svc"} 12.5 @1700000000000 since 1600000000000"#,
            r#"rpc_milliseconds_count{job="svc"} 4 @1700000000000 since 1600000000000"#,
        ],
    );
}

#[test]
fn what_has_no_temporality_is_refused() {
    let point = [number_point(&[], 1.0), number_point(&[], 2.0)];
    let reason = "refused s: neither cumulative nor delta (aggregation temporality 0)";
    check(
        &Translation::default(),
        &sum("s", "", &point, 0, true),
        &["point", reason, "point", reason],
    );
    let calls = lines(&request_of(&histogram(
        "h",
        "",
        &[histogram_point(&[], &[], &[], None)],
        7,
    )));
    assert_eq!(
        calls[1],
        "refused h: neither cumulative nor delta (aggregation temporality 7)"
    );
}

#[test]
fn exemplars_go_to_their_series() {
    let with = |mut point: Vec<u8>, field, exemplars: &[Vec<u8>]| {
        point.extend(message(|m| {
            for exemplar in exemplars {
                m.bytes(field, exemplar);
            }
        }));
        point
    };
    let trace = [0xab; 16];
    let counter = with(
        number_point(&[], 1.0),
        5,
        &[exemplar(2.5, &trace, &[("user.id", "7")])],
    );
    let calls = lines(&request_of(&sum("s", "", &[counter], CUMULATIVE, true)));
    let trace_id = "ab".repeat(16);
    assert_eq!(
        calls[3],
        format!(
            r#"s_total{{job="svc"}} exemplar {{trace_id="{trace_id}",user.id="7"}} 2.5 @1699999999999"#
        )
    );
    let long = "x".repeat(100);
    let exemplars = [
        exemplar(1.0, &trace, &[("long", &long)]),
        exemplar(50.0, &[0; 16], &[]),
    ];
    let point = with(
        histogram_point(&[], &[1.0, 5.0], &[1, 0, 1], None),
        8,
        &exemplars,
    );
    let calls = lines(&request_of(&histogram("h", "", &[point], CUMULATIVE)));
    // Attributes that do not fit are left out; an id of zeros is none.
    let first = format!(
        r#"h_bucket{{job="svc",le="1"}} exemplar {{trace_id="{trace_id}"}} 1 @1699999999999"#
    );
    let second = r#"h_bucket{job="svc",le="+Inf"} exemplar {} 50 @1699999999999"#;
    assert_eq!([calls[3].as_str(), calls[6].as_str()], [&first, second]);
    let point = with(
        exponential_point(0, (0, &[1]), (0, &[]), 0),
        11,
        &[exemplar(2.0, &trace, &[])],
    );
    let calls = lines(&request_of(&request::exponential(
        "e",
        &[point],
        CUMULATIVE,
    )));
    assert!(
        calls[3].starts_with(r#"e{job="svc"} exemplar {trace_id="abab"#),
        "{calls:?}"
    );
}

#[test]
fn the_end_of_a_series_is_a_staleness_marker() {
    let ended = |point: Vec<u8>, field| {
        [
            point,
            message(|m| {
                m.varint(field, 1);
            }),
        ]
        .concat()
    };
    let point = ended(histogram_point(&[], &[1.0], &[], None), 10);
    let calls = lines(&request_of(&histogram("h", "", &[point], DELTA)));
    assert_eq!(
        calls[2..],
        [
            r#"h_bucket{job="svc",le="1"} stale @1700000000000"#,
            r#"h_bucket{job="svc",le="+Inf"} stale @1700000000000"#,
            r#"h_sum{job="svc"} stale @1700000000000"#,
            r#"h_count{job="svc"} stale @1700000000000"#,
        ]
    );
    let point = ended(exponential_point(-7, (0, &[]), (0, &[]), 0), 10);
    let calls = lines(&request_of(&request::exponential(
        "e",
        &[point],
        CUMULATIVE,
    )));
    let bits = f64::from_bits(STALE_NAN_BITS);
    assert!(
        calls[2].contains(&format!("schema=0 sum={bits} count=0")),
        "{calls:?}"
    );
}

#[test]
fn attributes_that_become_one_label_are_joined() {
    let points = [number_point(
        &[("a_b", "2"), ("z", ""), ("a.b", "1"), ("__name__", "other")],
        1.0,
    )];
    let calls = lines(&request_of(&gauge("g", "", &points)));
    assert_eq!(calls[2], r#"g{a_b="1;2",job="svc"} 1 @1700000000000"#);
    // The resource says who it is, whatever an attribute says.
    let calls = lines(&request_of(&gauge(
        "g",
        "",
        &[number_point(&[("job", "x"), ("Z", "z")], 1.0)],
    )));
    assert_eq!(calls[2], r#"g{Z="z",job="svc"} 1 @1700000000000"#);
    let calls = lines(&request_of(&gauge(
        "g",
        "",
        &[number_point(&[("", "x")], 1.0)],
    )));
    assert_eq!(calls[2], "refused g: attribute without a name");
    let point = histogram_point(&[("le", "mine")], &[1.0], &[1, 0], Some(1.0));
    let calls = lines(&request_of(&histogram("h", "", &[point], CUMULATIVE)));
    assert!(calls[2].starts_with(r#"h_bucket{job="svc",le="1"}"#));
    assert!(calls[4].starts_with(r#"h_sum{job="svc",le="mine"}"#));
}

#[test]
fn resources_and_scopes() {
    let point = [number_point(&[("host.name", "mine")], 1.0)];
    let metric = gauge("g", "", &point);
    let scope = message(|m| {
        m.text(1, "lib")
            .text(2, "1.2")
            .bytes(3, &attribute("short.name", "l"));
    });
    let attributes = [
        ("service.namespace", "ns"),
        ("service.name", "svc"),
        ("service.instance.id", "i-1"),
        ("host.name", "h"),
        ("cloud.region", "eu"),
    ];
    let body = |scope: &[u8]| {
        resource_metrics(
            &attributes,
            &[scope_metrics(
                scope,
                "schema",
                std::slice::from_ref(&metric),
            )],
        )
    };
    let calls = |translation: &Translation| lines_with(&body(&scope), translation);
    let plain = calls(&Translation::default());
    assert_eq!(
        plain[2..],
        [
            r#"g{host_name="mine",instance="i-1",job="ns/svc"} 1 @1700000000000"#,
            r#"target_info{cloud_region="eu",host_name="h",instance="i-1",job="ns/svc"} 1 @1700000000000"#,
            "meta target_info gauge unit= Unspecified",
        ]
    );
    let promoting = Translation {
        promote_resource_attributes: vec!["cloud.region".into(), "host.name".into()],
        promote_scope_metadata: true,
        keep_identifying_resource_attributes: true,
        ..Translation::default()
    };
    let promoted = calls(&promoting);
    assert_eq!(
        promoted[2..4],
        [
            r#"g{cloud_region="eu",host_name="mine",instance="i-1",job="ns/svc",otel_scope_name="lib",otel_scope_schema_url="schema",otel_scope_short_name="l",otel_scope_version="1.2"} 1 @1700000000000"#,
            r#"target_info{cloud_region="eu",host_name="h",instance="i-1",job="ns/svc",service_instance_id="i-1",service_name="svc",service_namespace="ns"} 1 @1700000000000"#,
        ]
    );
    let all = Translation {
        strategy: Strategy::NoTranslation,
        promote_all_resource_attributes: true,
        ignore_resource_attributes: vec!["cloud.region".into(), "service.instance.id".into()],
        ..Translation::default()
    };
    assert_eq!(
        calls(&all)[2],
        r#"g{host.name="mine",instance="i-1",job="ns/svc",service.name="svc",service.namespace="ns"} 1 @1700000000000"#
    );
    // A resource that only says who it is has no target_info, and one that does not say it neither.
    assert_eq!(lines(&request_of(&metric)).len(), 3);
    let nobody = resource_metrics(&[("host.name", "h")], &[scope_metrics(&[], "", &[metric])]);
    assert_eq!(lines(&nobody).len(), 3);
}

#[test]
fn fields_in_any_order() {
    let attributes = [("service.name", "svc"), ("host", "h")];
    let metric = sum(
        "requests",
        "",
        &[number_point(&[("a", "b")], 2.0)],
        CUMULATIVE,
        true,
    );
    let scope = scope_metrics(
        &message(|m| {
            m.text(1, "lib");
        }),
        "url",
        &[metric],
    );
    let body = resource_metrics(&attributes, &[scope]);
    let translation = Translation {
        promote_scope_metadata: true,
        ..Translation::default()
    };
    let reversed = request::reversed(&body, request::REQUEST);
    assert_ne!(body, reversed);
    assert_eq!(
        lines_with(&body, &translation),
        lines_with(&reversed, &translation)
    );
}

#[test]
fn types_that_are_not_known_are_not_dropped_in_silence() {
    let metric = message(|m| {
        m.text(1, "new").bytes(20, b"");
    });
    check(
        &Translation::default(),
        &metric,
        &[
            "point",
            "refused new: metric of a type that is not known here",
        ],
    );
    check(
        &Translation::default(),
        &message(|m| {
            m.text(1, "nothing");
        }),
        &[],
    );
}

#[test]
fn what_is_malformed_is_an_error() {
    let body = request_of(&gauge("g", "", &[number_point(&[("a", "b")], 1.0)]));
    for end in 1..body.len() {
        let result = decode_metrics(
            &body[..end],
            &Translation::default(),
            &mut LineSink::default(),
        );
        assert!(result.is_err(), "cut at {end}");
    }
    let wrong_type = resource_metrics(&[], &[vec![0x08, 1]]);
    assert!(
        decode_metrics(
            &wrong_type,
            &Translation::default(),
            &mut LineSink::default()
        )
        .is_err()
    );
}

#[test]
fn labels_that_a_few_bytes_repeat_are_bounded() {
    let long = "x".repeat(100_000);
    let translation = Translation {
        promote_all_resource_attributes: true,
        ..Translation::default()
    };
    let points = vec![number_point(&[], 1.0); 2];
    let scope = scope_metrics(&[], "", &[gauge("g", "", &points)]);
    let calls = lines_with(
        &resource_metrics(&[("long", &long)], &[scope]),
        &translation,
    );
    assert!(calls[2].contains("more than 65536"), "{calls:?}");
    let long = "x".repeat(60_000);
    let points = vec![number_point(&[], 1.0); 6000];
    let scope = scope_metrics(&[], "", &[gauge("g", "", &points)]);
    let body = resource_metrics(&[("long", &long)], &[scope]);
    let mut sink = LineSink::counting();
    let decoded = decode_metrics(&body, &translation, &mut sink).unwrap();
    assert_eq!(decoded.points, 6000);
    assert_eq!(sink.samples + sink.refused, 6000);
    assert!((4000..4500).contains(&sink.samples), "{}", sink.samples);
}
