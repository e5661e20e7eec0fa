//! Remote write, 1.0 and 2.0.

use super::{Case, FAR_MS, Request, Sent, Stored, TOO_LONG, cut, post};
use crate::payload::{Payload, Series, T0, bytes, compressed, double, number, series, varint};

const V1: &str = "remote write 1.0";
const V2: &str = "remote write 2.0";

fn case(
    protocol: &'static str,
    what: &'static str,
    status: &'static str,
    says: &'static str,
    stored: Stored,
    request: fn(&str) -> Request,
) -> Case {
    Case {
        protocol,
        what,
        status,
        says,
        stored,
        sent: Sent::Http(request),
    }
}

fn good(name: &str) -> Series {
    series(&format!("{name}_good"), &[], &[(T0, 1.0)])
}

/// A good series, the bad one and another good one.
fn around(name: &str, bad: Series) -> [Series; 3] {
    let too = series(&format!("{name}_too"), &[], &[(T0, 1.0)]);
    [good(name), bad, too]
}

fn bad(name: &str, labels: &[(&str, &str)], at_ms: i64) -> Series {
    series(&format!("{name}_bad"), labels, &[(at_ms, 1.0)])
}

fn sent(payload: &Payload) -> Request {
    post("/api/v1/write", &payload.headers(), payload.body())
}

/// These bytes as the body of a request of 1.0.
fn sent_v1(body: Vec<u8>) -> Request {
    post("/api/v1/write", &Payload::v1(&[]).headers(), body)
}

fn as_other(headers: &[(&'static str, &'static str)]) -> Request {
    let body = Payload::v1(&[series("other", &[], &[(T0, 1.0)])]).body();
    post("/api/v1/write", headers, body)
}

/// A snappy block that claims this length.
fn claiming(length: u64) -> Vec<u8> {
    let mut body = Vec::new();
    varint(&mut body, length);
    body.extend([0; 20]);
    body
}

/// A request of 2.0 with three series: the references to labels of the second are as given.
fn with_references(name: &str, references: &[u64], has_sample: bool) -> Request {
    let mut message = Vec::new();
    let (good, too) = (format!("{name}_good"), format!("{name}_too"));
    for symbol in ["", "__name__", &good, &too] {
        bytes(&mut message, 4, symbol.as_bytes());
    }
    for (references, has_sample) in [
        (&[1, 2][..], true),
        (references, has_sample),
        (&[1, 3], true),
    ] {
        let mut packed = Vec::new();
        for reference in references {
            varint(&mut packed, *reference);
        }
        let mut series = Vec::new();
        bytes(&mut series, 1, &packed);
        if has_sample {
            let mut sample = Vec::new();
            double(&mut sample, 1, 1.0);
            number(&mut sample, 2, T0 as u64);
            bytes(&mut series, 2, &sample);
        }
        bytes(&mut message, 5, &series);
    }
    post(
        "/api/v1/write",
        &Payload::v2(&[]).headers(),
        compressed(&message),
    )
}

pub(super) fn cases() -> Vec<Case> {
    use Stored::{GoodPart, Nothing};
    vec![
        case(
            V1,
            "a body that breaks off",
            "400",
            "snappy: body is corrupt",
            Nothing,
            |name| sent_v1(cut(Payload::v1(&[good(name)]).body())),
        ),
        case(
            V1,
            "a message that breaks off",
            "400",
            "protobuf: message ends inside a field",
            Nothing,
            |name| {
                let whole = Payload::v1(&[good(name)]).body();
                let message = snap::raw::Decoder::new().decompress_vec(&whole).unwrap();
                sent_v1(compressed(&cut(message)))
            },
        ),
        case(V1, "garbage", "400", "protobuf: ", Nothing, |_| {
            sent_v1(compressed(&[0xff; 40]))
        }),
        case(
            V1,
            "`Content-Type: application/json`",
            "415",
            "is not accepted, expected application/x-protobuf",
            Nothing,
            |_| as_other(&[("Content-Type", "application/json")]),
        ),
        case(
            V1,
            "`Content-Encoding: gzip`",
            "415",
            "is not accepted, expected snappy",
            Nothing,
            |_| {
                as_other(&[
                    ("Content-Type", "application/x-protobuf"),
                    ("Content-Encoding", "gzip"),
                ])
            },
        ),
        case(
            V1,
            "a body that is too long",
            "413",
            "the body is longer than server.write_body_bytes_max",
            Nothing,
            |_| sent_v1(vec![0; TOO_LONG]),
        ),
        case(
            V1,
            "a body that becomes too long",
            "413",
            "snappy: decompressed body has",
            Nothing,
            |_| sent_v1(claiming(1 << 30)),
        ),
        case(
            V1,
            "a body that claims to become long",
            "400",
            "which its 24 cannot hold",
            Nothing,
            |_| sent_v1(claiming(10 << 20)),
        ),
        case(
            V1,
            "more samples than a request may have",
            "400",
            "more than limits.samples_per_request_max",
            Nothing,
            |name| {
                let samples = vec![(T0, 1.0); 1001];
                sent(&Payload::v1(&[series(
                    &format!("{name}_many"),
                    &[],
                    &samples,
                )]))
            },
        ),
        case(
            V1,
            "one series with too many labels",
            "400",
            "more than limits.labels_per_series_max",
            GoodPart,
            |name| {
                let labels: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
                    .map(|label| (label, "x"))
                    .into();
                sent(&Payload::v1(&around(name, bad(name, &labels, T0))))
            },
        ),
        case(
            V1,
            "one series without a name",
            "400",
            "series without a metric name",
            GoodPart,
            |name| {
                let unnamed = Series {
                    labels: vec![("a".into(), "b".into())],
                    ..bad(name, &[], T0)
                };
                sent(&Payload::v1(&around(name, unnamed)))
            },
        ),
        case(
            V1,
            "one label twice",
            "400",
            "occurs twice",
            GoodPart,
            |name| {
                sent(&Payload::v1(&around(
                    name,
                    bad(name, &[("a", "1"), ("a", "2")], T0),
                )))
            },
        ),
        case(
            V1,
            "one sample of the far future",
            "400",
            "1 refused, 2 stored: timestamp is more than",
            GoodPart,
            |name| sent(&Payload::v1(&around(name, bad(name, &[], FAR_MS)))),
        ),
        case(
            V2,
            "a request of 1.0",
            "400",
            "but its content type says 2.0",
            Nothing,
            |name| {
                post(
                    "/api/v1/write",
                    &Payload::v2(&[]).headers(),
                    Payload::v1(&[good(name)]).body(),
                )
            },
        ),
        case(
            V2,
            "one series whose labels are not in the table of symbols",
            "400",
            "1 refused, 2 stored: ",
            GoodPart,
            |name| with_references(name, &[1, 9], true),
        ),
        case(
            V2,
            "one series without samples",
            "400",
            "TimeSeries must contain at least one sample or histogram",
            GoodPart,
            |name| with_references(name, &[1, 1], false),
        ),
        case(
            V2,
            "one sample before 1970",
            "400",
            "is outside of what can be stored",
            GoodPart,
            |name| sent(&Payload::v2(&around(name, bad(name, &[], -1)))),
        ),
    ]
}
