//! Targets for the protocol decoders.

use icecore_model::{Exemplar, Histogram, Metadata, RawLabels, Sample, SampleSink};
use icecore_wire::otlp::{
    Exponential, Strategy, Translation, decode_logs, decode_metrics, json_to_protobuf,
    logs_json_to_protobuf,
};
use icecore_wire::prometheus::remote_read::decode_read_request;
use icecore_wire::prometheus::{
    RemoteWriteVersion, decode_v1, decode_v2, escaping, parse_duration_ms, parse_selector,
    parse_time_ms, snappy,
};

use crate::{MEMORY_BASE, Target};

const V1: &[u8] = include_bytes!("../../../testdata/wire/remote-write-v1.snappy");
const V2: &[u8] = include_bytes!("../../../testdata/wire/remote-write-v2.snappy");
const METADATA: &[u8] = include_bytes!("../../../testdata/wire/prometheus-2.42-metadata.snappy");

const OTLP: &[u8] = include_bytes!("../../../testdata/wire/otlp-python-cumulative.pb");
const OTLP_DELTA: &[u8] = include_bytes!("../../../testdata/wire/otlp-python-delta.pb");
const OTLP_LOGS: &[u8] = include_bytes!("../../../testdata/wire/otlp-python-logs.pb");
const OTLP_LOGS_JSON: &[u8] = include_bytes!("../../../testdata/wire/otlp-python-logs.json");
const OTLP_JSON: &[u8] = include_bytes!("../../../testdata/wire/otlp-python-cumulative.json");

/// Two queries, one with every kind of matcher and one with hints; samples or chunks.
const READ_REQUEST: &[u8] = b"\x0aL\x08\xe8\x07\x10\x88'\x1a\x0e\x12\x08__name__\x1a\x02up\x1a\x0b\x08\x01\x12\x03job\x1a\x02ab\x1a\x15\x08\x02\x12\x08instance\x1a\x07(a|b).*\x1a\x10\x08\x03\x12\x04code\x1a\x065[0-9]\
    \x0a\x1b\x10\x88'\x22\x16\x08\xe8\x07\x12\x04rate\x18\xe8\x07\x20\x88'*\x01a0\x018d\
    \x12\x02\x01\x00";

pub fn targets() -> Vec<Target> {
    vec![
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_remote_write_v1",
            seeds: || vec![decompressed(V1), decompressed(METADATA)],
            run: |input| {
                let _ = decode_v1(input, &mut RepeatingSink::default());
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_remote_write_v2",
            seeds: || vec![decompressed(V2)],
            run: |input| {
                let _ = decode_v2(input, &mut RepeatingSink::default());
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_remote_read",
            seeds: || vec![READ_REQUEST.to_vec()],
            run: |input| {
                let _ = decode_read_request(input);
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_otlp",
            seeds: || vec![OTLP.to_vec(), OTLP_DELTA.to_vec()],
            run: |input| {
                for translation in &translations() {
                    let _ = decode_metrics(input, translation, &mut RepeatingSink::default());
                }
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_otlp_json",
            seeds: || vec![OTLP_JSON.to_vec()],
            run: |input| {
                if let Ok(message) = json_to_protobuf(input, DECODED_BYTES_MAX) {
                    decode_metrics(
                        &message,
                        &Translation::default(),
                        &mut RepeatingSink::default(),
                    )
                    .expect("what was rewritten is protobuf");
                }
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_otlp_logs",
            seeds: || vec![OTLP_LOGS.to_vec()],
            run: |input| {
                let _ = decode_logs(input, |record| {
                    let _ = (record.event_name(), record.is_too_deep());
                });
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_otlp_logs_json",
            seeds: || vec![OTLP_LOGS_JSON.to_vec()],
            run: |input| {
                if let Ok(message) = logs_json_to_protobuf(input, DECODED_BYTES_MAX) {
                    decode_logs(&message, |_| ()).expect("what was rewritten is protobuf");
                }
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_snappy",
            seeds: || vec![V1.into(), V2.into(), METADATA.into()],
            run: |input| {
                let _ = snappy::decompress(input, &mut Vec::new(), DECODED_BYTES_MAX);
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_selector",
            seeds: || {
                texts(&[
                    r#"name{a="b",c=~"d.*",'e'!="f","quoted.name"!~`g|h`,}"#,
                    r#"{"utf8.metric.name", a="\x41\101\u00e9\U0001F631\n", # comment"#,
                ])
            },
            run: |input| on_text(input, |text| drop(parse_selector(text))),
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_params",
            seeds: || {
                texts(&[
                    "1700000000.123",
                    "2015-06-03T14:21:58.555+01:00",
                    "1y2w3d4h5m6s7ms",
                    "application/x-protobuf; proto=io.prometheus.write.v2.Request",
                ])
            },
            run: |input| {
                on_text(input, |text| {
                    let _ = parse_time_ms(text);
                    let _ = parse_duration_ms(text);
                    let _ = RemoteWriteVersion::from_content_type(Some(text));
                });
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_unescape",
            seeds: || texts(&["U__mysystem_2e_prod__total_1f631_", "plain"]),
            run: |input| {
                on_text(input, |text| {
                    escaping::unescape_name(text);
                    escaping::escape_name(text);
                });
            },
        },
    ]
}

const DECODED_BYTES_MAX: usize = 1 << 20;

/// The defaults, and everything that can be chosen otherwise.
fn translations() -> [Translation; 2] {
    let other = Translation {
        strategy: Strategy::NoUtf8EscapingWithSuffixes,
        promote_all_resource_attributes: true,
        promote_scope_metadata: true,
        keep_identifying_resource_attributes: true,
        convert_histograms_to_nhcb: true,
        exponential: Exponential::Classic,
        label_name_preserve_multiple_underscores: false,
        ..Translation::default()
    };
    [Translation::default(), other]
}

fn decompressed(compressed: &[u8]) -> Vec<u8> {
    let mut buffer = Vec::new();
    let body = snappy::decompress(compressed, &mut buffer, DECODED_BYTES_MAX);
    body.expect("the payload in testdata is valid").to_vec()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Text parsers are only ever called with UTF-8.
fn on_text(input: &[u8], parse: impl FnOnce(&str)) {
    parse(&String::from_utf8_lossy(input));
}

/// Parses the labels of every series, and guesses that the next series begins with the labels of
/// the one before, so that right and wrong guesses both occur.
#[derive(Default)]
pub(super) struct RepeatingSink {
    last: Vec<u8>,
}

impl SampleSink for RepeatingSink {
    fn guess_series(&mut self, bytes: &[u8]) -> Option<usize> {
        let is_guess = !self.last.is_empty() && bytes.starts_with(&self.last);
        is_guess.then_some(self.last.len())
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        let _ = labels.parse(&mut Vec::new());
        self.last = labels.0.to_vec();
    }

    fn sample(&mut self, _: Sample) {}

    fn histogram(&mut self, _: i64, _: i64, histogram: Histogram) {
        histogram
            .validate()
            .expect("the decoder refuses what is not valid");
    }

    fn exemplar(&mut self, _: Exemplar) {}

    fn metadata(&mut self, family: &str, _: Metadata) {
        assert!(
            !family.is_empty(),
            "the decoder refuses metadata without a family"
        );
    }

    fn reject(&mut self, _: String) {}
}
