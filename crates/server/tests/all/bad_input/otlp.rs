//! OTLP: protobuf and JSON over HTTP, and gRPC.

use icecore_wire::otlp::json_to_protobuf;
use serde_json::{Value, json};

use super::{
    Case, FAR_MS, Request, Sent, Stored, TOO_LONG, TOO_LONG_DECOMPRESSED, cut, gzip, post,
};
use crate::payload::{T0, bytes, double};

const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");
const JSON: (&str, &str) = ("Content-Type", "application/json");
const GRPC: (&str, &str) = ("Content-Type", "application/grpc");
const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

fn point(attributes: Value, at_ms: i64) -> Value {
    json!({"attributes": attributes, "timeUnixNano": format!("{at_ms}000000"), "asDouble": 1})
}

fn gauge(name: &str, point: Value) -> Value {
    json!({"name": name, "gauge": {"dataPoints": [point]}})
}

fn request(metrics: &[Value]) -> Value {
    json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]})
}

fn good(name: &str) -> Value {
    request(&[gauge(&format!("{name}_good"), point(json!([]), T0))])
}

/// A good metric, this point of another one, and a good one.
fn around(name: &str, bad: Value) -> Value {
    let metric = |end: &str, point: Value| gauge(&format!("{name}_{end}"), point);
    request(&[
        metric("good", point(json!([]), T0)),
        metric("bad", bad),
        metric("too", point(json!([]), T0)),
    ])
}

fn timeless(name: &str) -> Value {
    around(name, json!({"asDouble": 1}))
}

fn many_labels(name: &str) -> Value {
    let attribute = |i: i32| json!({"key": format!("a{i}"), "value": {"intValue": i}});
    around(name, point((0..10).map(attribute).collect(), T0))
}

fn protobuf(request: &Value) -> Vec<u8> {
    json_to_protobuf(request.to_string().as_bytes(), 1 << 20).unwrap()
}

fn as_protobuf(body: Vec<u8>) -> Request {
    post("/v1/metrics", &[PROTOBUF], body)
}

fn as_json(request: &Value) -> Request {
    post("/v1/metrics", &[JSON], request.to_string().into_bytes())
}

/// The good request with more behind it: a gauge whose point has an attribute of lists within
/// lists.
fn deep_attribute(name: &str) -> Vec<u8> {
    let message = |field: u64, content: &[u8]| {
        let mut out = Vec::new();
        bytes(&mut out, field, content);
        out
    };
    let mut value = message(1, b"text");
    for _ in 0..1000 {
        value = message(5, &message(1, &value));
    }
    let attribute = [message(1, b"deep"), message(2, &value)].concat();
    let mut point = message(7, &attribute);
    // The time as `fixed64`, which is written like a double, and the value.
    double(&mut point, 3, f64::from_bits(T0 as u64 * 1_000_000));
    double(&mut point, 4, 1.0);
    let metric = [message(1, b"deep"), message(5, &message(1, &point))].concat();
    let good = protobuf(&request(&[
        gauge(&format!("{name}_good"), self::point(json!([]), T0)),
        gauge(&format!("{name}_too"), self::point(json!([]), T0)),
    ]));
    let bad = message(1, &message(2, &message(2, &metric)));
    [bad, good].concat()
}

pub(super) fn http_cases() -> Vec<Case> {
    use Stored::{GoodPart, Nothing};
    let case = |protocol, what, status, says, stored, request| Case {
        protocol,
        what,
        status,
        says,
        stored,
        sent: Sent::Http(request),
    };
    let protobuf_case = |what, status, says, stored, request: fn(&str) -> Request| {
        case("OTLP protobuf", what, status, says, stored, request)
    };
    let json_case = |what, status, says, stored, request: fn(&str) -> Request| {
        case("OTLP JSON", what, status, says, stored, request)
    };
    vec![
        protobuf_case(
            "a message that breaks off",
            "400",
            "message ends inside a field",
            Nothing,
            |name| as_protobuf(cut(protobuf(&good(name)))),
        ),
        protobuf_case("garbage", "400", "protobuf: ", Nothing, |_| {
            as_protobuf(vec![0xff; 40])
        }),
        protobuf_case(
            "`Content-Type: text/plain`",
            "415",
            "application/x-protobuf and application/json are",
            Nothing,
            |name| {
                post(
                    "/v1/metrics",
                    &[("Content-Type", "text/plain")],
                    protobuf(&good(name)),
                )
            },
        ),
        protobuf_case(
            "`Content-Encoding: br`",
            "415",
            "gzip, zstd and identity are taken",
            Nothing,
            |name| {
                post(
                    "/v1/metrics",
                    &[PROTOBUF, ("Content-Encoding", "br")],
                    protobuf(&good(name)),
                )
            },
        ),
        protobuf_case(
            "`Content-Encoding: gzip` that is none",
            "400",
            "the body cannot be decompressed",
            Nothing,
            |name| {
                post(
                    "/v1/metrics",
                    &[PROTOBUF, ("Content-Encoding", "gzip")],
                    protobuf(&good(name)),
                )
            },
        ),
        protobuf_case(
            "a body that is too long",
            "413",
            "the body is longer than server.write_body_bytes_max",
            Nothing,
            |_| as_protobuf(vec![0; TOO_LONG]),
        ),
        protobuf_case(
            "a body that becomes too long",
            "413",
            "the decompressed body is longer than",
            Nothing,
            |_| {
                let bomb = zstd::encode_all(&vec![0; TOO_LONG_DECOMPRESSED][..], 1).unwrap();
                post(
                    "/v1/metrics",
                    &[PROTOBUF, ("Content-Encoding", "zstd")],
                    bomb,
                )
            },
        ),
        protobuf_case(
            "one point without a time",
            "200",
            "1 of 3 data points refused",
            GoodPart,
            |name| as_protobuf(protobuf(&timeless(name))),
        ),
        protobuf_case(
            "one attribute of 1000 lists in one another",
            "200",
            "too many arrays and maps within one another",
            GoodPart,
            |name| as_protobuf(deep_attribute(name)),
        ),
        protobuf_case(
            "nothing that is good",
            "400",
            "1 of 1 data points refused",
            Nothing,
            |name| {
                let bad = gauge(&format!("{name}_bad"), point(json!([]), FAR_MS));
                as_protobuf(protobuf(&request(&[bad])))
            },
        ),
        json_case("a text that breaks off", "400", "JSON: ", Nothing, |name| {
            post(
                "/v1/metrics",
                &[JSON],
                cut(good(name).to_string().into_bytes()),
            )
        }),
        json_case(
            "a number in place of a list",
            "400",
            "JSON: expected an array (at byte 19)",
            Nothing,
            |_| as_json(&json!({"resourceMetrics": 5})),
        ),
        json_case(
            "one value that is no number",
            "400",
            "JSON: ",
            Nothing,
            |name| {
                as_json(&around(
                    name,
                    json!({"timeUnixNano": "1", "asDouble": "one"}),
                ))
            },
        ),
        json_case(
            "bytes that are no text",
            "400",
            "JSON: not valid UTF-8 (at byte 1)",
            Nothing,
            |_| post("/v1/metrics", &[JSON], b"{\xff}".to_vec()),
        ),
        json_case(
            "1000 lists in one another",
            "400",
            "nested too deep",
            Nothing,
            |_| {
                let text = format!("{{\"x\":{}", "[".repeat(1000));
                post("/v1/metrics", &[JSON], text.into_bytes())
            },
        ),
        json_case(
            "a body that becomes too long",
            "413",
            "the decompressed body is longer than",
            Nothing,
            |_| {
                let bomb = gzip(&vec![b' '; TOO_LONG_DECOMPRESSED]);
                post("/v1/metrics", &[JSON, ("Content-Encoding", "gzip")], bomb)
            },
        ),
        json_case(
            "one point with too many labels",
            "200",
            "more than limits.labels_per_series_max",
            GoodPart,
            |name| as_json(&many_labels(name)),
        ),
    ]
}

/// A message behind the five bytes that gRPC puts in front.
fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[flag][..], &length.to_be_bytes(), message].concat()
}

fn call(headers: &[(&'static str, &'static str)], body: Vec<u8>) -> Request {
    post(EXPORT, headers, body)
}

pub(super) fn grpc_cases() -> Vec<Case> {
    use Stored::{GoodPart, Nothing};
    let case = |what, status, says, stored, request| Case {
        protocol: "OTLP gRPC",
        what,
        status,
        says,
        stored,
        sent: Sent::Grpc(request),
    };
    vec![
        case(
            "a frame that breaks off",
            "gRPC 3",
            "the message was announced with",
            Nothing,
            |name| call(&[GRPC], cut(framed(0, &protobuf(&good(name))))),
        ),
        case(
            "a message that breaks off",
            "gRPC 3",
            "message ends inside a field",
            Nothing,
            |name| call(&[GRPC], framed(0, &cut(protobuf(&good(name))))),
        ),
        case("garbage", "gRPC 3", "0 or 1, found 255", Nothing, |_| {
            call(&[GRPC], vec![0xff; 40])
        }),
        case(
            "`Content-Type: application/json`",
            "gRPC 12",
            "this port speaks gRPC",
            Nothing,
            |name| call(&[JSON], framed(0, &protobuf(&good(name)))),
        ),
        case(
            "another method",
            "gRPC 12",
            "there is no method",
            Nothing,
            |name| {
                let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
                post(path, &[GRPC], framed(0, &protobuf(&good(name))))
            },
        ),
        case(
            "compressed without `grpc-encoding`",
            "gRPC 3",
            "no grpc-encoding says how",
            Nothing,
            |name| call(&[GRPC], framed(1, &gzip(&protobuf(&good(name))))),
        ),
        case(
            "`grpc-encoding: br`",
            "gRPC 12",
            "gzip, zstd and identity are taken",
            Nothing,
            |name| {
                call(
                    &[GRPC, ("grpc-encoding", "br")],
                    framed(1, &protobuf(&good(name))),
                )
            },
        ),
        case(
            "a message that is too long",
            "gRPC 8",
            "the body is longer than server.write_body_bytes_max",
            Nothing,
            |_| call(&[GRPC], framed(0, &vec![0; TOO_LONG])),
        ),
        case(
            "a message that becomes too long",
            "gRPC 8",
            "the decompressed body is longer than",
            Nothing,
            |_| {
                let bomb = gzip(&vec![0; TOO_LONG_DECOMPRESSED]);
                call(&[GRPC, ("grpc-encoding", "gzip")], framed(1, &bomb))
            },
        ),
        case(
            "one point without a time",
            "gRPC 0",
            "1 of 3 data points refused",
            GoodPart,
            |name| call(&[GRPC], framed(0, &protobuf(&timeless(name)))),
        ),
        case(
            "nothing that is good",
            "gRPC 3",
            "1 of 1 data points refused",
            Nothing,
            |name| {
                let bad = gauge(&format!("{name}_bad"), point(json!([]), FAR_MS));
                call(&[GRPC], framed(0, &protobuf(&request(&[bad]))))
            },
        ),
    ]
}
