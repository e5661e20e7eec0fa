//! Pages that targets answer with when they are scraped. The status is `up`, the answer what
//! `/api/v1/targets` has as `lastError`.

use super::{Case, FAR_MS, Page, Sent, Stored, cut, gzip};
use crate::scrape_target::{OPEN_METRICS, TEXT};

const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

fn page(content_type: &'static str, body: impl Into<Vec<u8>>) -> Page {
    Page {
        status: 200,
        content_type,
        gzip: false,
        body: body.into(),
        job: "",
    }
}

pub(super) fn cases() -> Vec<Case> {
    use Stored::{GoodPart, Nothing};
    let case = |what, status, says, stored, page| Case {
        protocol: "scrape",
        what,
        status,
        says,
        stored,
        sent: Sent::Page(page),
    };
    vec![
        case(
            "status 500",
            "up 0",
            "server returned HTTP status 500",
            Nothing,
            || Page {
                status: 500,
                ..page(TEXT, "good 1\n")
            },
        ),
        case(
            "`Content-Type: text/html`",
            "up 0",
            "received unsupported Content-Type",
            Nothing,
            || page("text/html", "good 1\n"),
        ),
        case(
            "one line that cannot be read",
            "up 0",
            "line 2: ",
            Nothing,
            || page(TEXT, "good 1\nbad one\ntoo 1\n"),
        ),
        case(
            "OpenMetrics that breaks off",
            "up 0",
            "data does not end with # EOF",
            Nothing,
            || page(OPEN_METRICS, "# TYPE good gauge\ngood 1\n"),
        ),
        case(
            "protobuf that is garbage",
            "up 0",
            "metric family 1",
            Nothing,
            || page(PROTOBUF, vec![0xff; 40]),
        ),
        case(
            "gzip that breaks off",
            "up 0",
            "cannot decompress the body",
            Nothing,
            || Page {
                gzip: true,
                ..page(TEXT, cut(gzip(b"good 1\n")))
            },
        ),
        case(
            "a page beyond `body_size_limit`",
            "up 0",
            "body size limit exceeded",
            Nothing,
            || Page {
                job: "body_size_limit: 1KB",
                ..page(TEXT, "good 1\n".repeat(1000))
            },
        ),
        case(
            "a page that becomes too long",
            "up 0",
            "body size limit exceeded",
            Nothing,
            || Page {
                gzip: true,
                job: "body_size_limit: 1MB",
                ..page(TEXT, gzip("good 1\n".repeat(1 << 20).as_bytes()))
            },
        ),
        case(
            "more samples than `sample_limit`",
            "up 0",
            "sample limit exceeded",
            Nothing,
            || Page {
                job: "sample_limit: 2",
                ..page(TEXT, "good 1\nbad 1\ntoo 1\n")
            },
        ),
        case(
            "more labels than `label_limit`",
            "up 0",
            "label_limit exceeded",
            Nothing,
            || Page {
                job: "label_limit: 3",
                ..page(TEXT, "good 1\nbad{a=\"1\"} 1\ntoo 1\n")
            },
        ),
        case(
            "one series with too many labels",
            "up 1",
            "1 samples refused: bad: ",
            GoodPart,
            || {
                let labels: String = ('a'..='j').map(|label| format!("{label}=\"x\",")).collect();
                page(TEXT, format!("good 1\nbad{{{labels}}} 1\ntoo 1\n"))
            },
        ),
        case(
            "one sample of the far future",
            "up 1",
            "ahead of the server's clock",
            GoodPart,
            || page(TEXT, format!("good 1\nbad 1 {FAR_MS}\ntoo 1\n")),
        ),
    ]
}
