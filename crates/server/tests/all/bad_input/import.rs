//! Imports: lines of JSON, the native form, expositions in text.

use icecore_model::{FloatColumns, Labels, SeriesSamples};
use icecore_wire::SeriesContent;
use icecore_wire::native::{Encoder, MAGIC};
use serde_json::json;

use super::{Case, FAR_MS, Request, Sent, Stored, cut, gzip, post};
use crate::payload::T0;

const LINES: &str = "/api/v1/import";
const TEXT: &str = "/api/v1/import/prometheus";
const GZIP: (&str, &str) = ("Content-Encoding", "gzip");
const ZSTD: (&str, &str) = ("Content-Encoding", "zstd");

/// One line of JSON with these values.
fn line(name: &str, end: &str, values: &str) -> String {
    format!(
        "{{\"metric\":{{\"__name__\":\"{name}_{end}\"}},\"values\":[{values}],\"timestamps\":[{T0}]}}\n"
    )
}

/// A good line, the bad one and another good one.
fn around(name: &str, bad: &str) -> Vec<u8> {
    [&line(name, "good", "1"), bad, &line(name, "too", "1")]
        .concat()
        .into_bytes()
}

fn sent(body: Vec<u8>) -> Request {
    post(LINES, &[], body)
}

const TEN: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// A stream of series with one sample each, complete.
fn native(all: &[Labels]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    for labels in all {
        let series = SeriesSamples {
            labels: labels.clone(),
            floats: FloatColumns {
                timestamps: [T0].into_iter().collect(),
                values: vec![1.0],
            },
            histograms: Vec::new(),
            start_timestamps: Vec::new(),
            forms: Default::default(),
            rolled: None,
        };
        encoder.series(&mut out, SeriesContent::new(&series, &[]));
    }
    encoder.finish(&mut out);
    out
}

fn named(name: &str, end: &str) -> Labels {
    Labels::from_pairs([("__name__", &*format!("{name}_{end}"))])
}

/// A complete stream with a good series, and another one that is changed.
fn two_streams(name: &str, change: fn(&mut Vec<u8>)) -> Request {
    let mut second = native(&[named(name, "too")]);
    change(&mut second);
    let body = [native(&[named(name, "good")]), second].concat();
    post("/api/v1/import?format=native", &[], body)
}

/// A good line of text, a bad one, a good one.
fn text_around(name: &str, bad: &str) -> Vec<u8> {
    format!("{name}_good 1 {T0}\n{bad}\n{name}_too 1 {T0}\n").into_bytes()
}

/// A text, and behind it so many comments that no body has as many.
fn bomb(text: &str) -> Vec<u8> {
    let comments = format!("# {}\n", "x".repeat(524_285)).repeat(1 << 7);
    zstd::encode_all([text, &comments].concat().as_bytes(), 1).unwrap()
}

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

pub(super) fn cases() -> Vec<Case> {
    let mut all = json_cases();
    all.extend(native_cases());
    all.extend(text_cases());
    all
}

fn json_cases() -> Vec<Case> {
    use Stored::{Before, GoodPart, Nothing};
    const P: &str = "import, JSON lines";
    vec![
        case(
            P,
            "a line that breaks off",
            "400",
            "line 2: ",
            Before,
            |name| {
                sent(cut([line(name, "good", "1"), line(name, "bad", "1")]
                    .concat()
                    .into_bytes()))
            },
        ),
        case(
            P,
            "gzip that breaks off",
            "400",
            "the body cannot be read",
            Before,
            |name| {
                let text = [line(name, "good", "1"), "{\"metric\":".into()].concat();
                post(LINES, &[GZIP], cut(gzip(text.as_bytes())))
            },
        ),
        case(
            P,
            "garbage",
            "400",
            "line 1: expected an object",
            Nothing,
            |_| sent(b"\xff\xfe".to_vec()),
        ),
        case(
            P,
            "one value that is no number",
            "400",
            "line 2: ",
            Before,
            |name| sent(around(name, &line(name, "bad", "one"))),
        ),
        case(
            P,
            "the same with `skip_errors=true`",
            "200",
            "is not a value",
            GoodPart,
            |name| {
                post(
                    "/api/v1/import?skip_errors=true",
                    &[],
                    around(name, &line(name, "bad", "one")),
                )
            },
        ),
        case(
            P,
            "more values than timestamps",
            "400",
            "line 2: 1 more values than timestamps",
            Before,
            |name| sent(around(name, &line(name, "bad", "1,2"))),
        ),
        case(
            P,
            "1000 lists in one another",
            "400",
            "line 2: values nest too deep",
            Before,
            |name| {
                let deep = format!("{{\"x\":{}{}}}\n", "[".repeat(1000), "]".repeat(1000));
                sent(around(name, &deep))
            },
        ),
        case(
            P,
            "a label of 5 MiB, compressed",
            "200",
            "more than limits.label_value_bytes_max",
            GoodPart,
            |name| {
                let metric = json!({"__name__": format!("{name}_bad"), "a": "x".repeat(5 << 20)});
                let long = json!({"metric": metric, "values": [1], "timestamps": [T0]});
                post(LINES, &[GZIP], gzip(&around(name, &format!("{long}\n"))))
            },
        ),
        case(
            P,
            "one series with too many labels",
            "200",
            "more than limits.labels_per_series_max",
            GoodPart,
            |name| {
                let mut metric = json!({"__name__": format!("{name}_bad")});
                for label in TEN {
                    metric[label] = "x".into();
                }
                let bad = json!({"metric": metric, "values": [1], "timestamps": [T0]});
                sent(around(name, &format!("{bad}\n")))
            },
        ),
        case(
            P,
            "`format=xml`",
            "400",
            "json or native",
            Nothing,
            |name| {
                post(
                    "/api/v1/import?format=xml",
                    &[],
                    line(name, "good", "1").into_bytes(),
                )
            },
        ),
        case(
            P,
            "`Content-Encoding: br`",
            "415",
            "gzip, zstd and identity are taken",
            Nothing,
            |name| {
                post(
                    LINES,
                    &[("Content-Encoding", "br")],
                    line(name, "good", "1").into_bytes(),
                )
            },
        ),
    ]
}

fn native_cases() -> Vec<Case> {
    use Stored::{Before, GoodPart, Nothing};
    const P: &str = "import, native";
    vec![
        case(
            P,
            "a stream that breaks off",
            "400",
            "the stream breaks off",
            GoodPart,
            |name| two_streams(name, |second| second.truncate(second.len() - 3)),
        ),
        case(
            P,
            "one bit that is another",
            "400",
            "the checksum of a frame is wrong",
            Before,
            |name| two_streams(name, |second| second[MAGIC.len() + 20] ^= 1),
        ),
        case(
            P,
            "a frame that claims 4 GiB",
            "400",
            "a frame of 4294967295 bytes is longer than",
            Before,
            |name| two_streams(name, |second| second[MAGIC.len() + 4..][..4].fill(0xff)),
        ),
        case(
            P,
            "garbage",
            "400",
            "frame 1: this is not the native form",
            Nothing,
            |_| post("/api/v1/import?format=native", &[], vec![0xff; 40]),
        ),
        case(
            P,
            "one series with too many labels",
            "200",
            "more than limits.labels_per_series_max",
            GoodPart,
            |name| {
                let bad = format!("{name}_bad");
                let many = [("__name__", &*bad)].into_iter();
                let many = Labels::from_pairs(many.chain(TEN.map(|label| (label, "x"))));
                sent(native(&[named(name, "good"), many, named(name, "too")]))
            },
        ),
    ]
}

fn text_cases() -> Vec<Case> {
    use Stored::{Before, GoodPart, Nothing};
    const P: &str = "import, text";
    vec![
        case(
            P,
            "one line that cannot be read",
            "400",
            "line 2: ",
            GoodPart,
            |name| post(TEXT, &[], text_around(name, "bad{a=1} 1")),
        ),
        case(
            P,
            "the same with `skip_errors=true`",
            "200",
            "line 2: ",
            GoodPart,
            |name| {
                let path = "/api/v1/import/prometheus?skip_errors=true";
                post(path, &[], text_around(name, "bad one"))
            },
        ),
        case(P, "garbage", "400", "line 1: ", Nothing, |_| {
            post(TEXT, &[], b"\xff\xfe\n".to_vec())
        }),
        case(
            P,
            "one line of 2 MiB",
            "400",
            "line 2: it is longer than 1 MiB",
            GoodPart,
            |name| {
                let long = format!("{name}_bad{{a=\"{}\"}} 1", "x".repeat(2 << 20));
                post(TEXT, &[], text_around(name, &long))
            },
        ),
        case(
            P,
            "zstd that expands ten-thousandfold, to 64 MiB",
            "413",
            "may expand 4096-fold",
            Before,
            |name| post(TEXT, &[ZSTD], bomb(&format!("{name}_good 1 {T0}\n"))),
        ),
        case(
            P,
            "gzip that breaks off",
            "400",
            "the body cannot be read",
            Before,
            |name| {
                let text = format!("{name}_good 1 {T0}\n{name}_bad 1");
                post(TEXT, &[GZIP], cut(gzip(text.as_bytes())))
            },
        ),
        case(
            P,
            "one sample of the far future",
            "200",
            "ahead of the server's clock",
            GoodPart,
            |name| {
                post(
                    TEXT,
                    &[],
                    text_around(name, &format!("{name}_bad 1 {FAR_MS}")),
                )
            },
        ),
    ]
}
