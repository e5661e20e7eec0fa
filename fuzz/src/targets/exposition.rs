//! Targets for what scrape targets expose.

use icecore_model::{Exemplar, Histogram, Metadata, RawLabels, Sample, SampleSink};
use icecore_wire::exposition::{
    Entry, Format, ImportOptions, Parser, ParserOptions, SeriesValue, import_text,
};

use crate::{MEMORY_BASE, Target};

const TEXT: &[u8] = include_bytes!("../../../testdata/wire/node-exporter-1.5.txt");
const PROTOBUF: &[u8] = include_bytes!("../../../testdata/wire/node-exporter-1.5.protobuf");
const OPENMETRICS: &[u8] = include_bytes!("../../../testdata/wire/python-client.openmetrics");

const SMALL_TEXT: &[u8] = b"# HELP h A \\\\ histogram\n# TYPE h histogram\nh_bucket{le=\"1\",a=\"b\\\"c\"} 1 5\n\
    h_bucket{le=\"+Inf\",a=\"b\\\"c\"} 2 5\nh_sum{a=\"b\\\"c\"} 1.5e3\nh_count{a=\"b\\\"c\"} 2\n{\"q.r\",\"s t\"=\"u\"} NaN\n";

const SMALL_OPENMETRICS: &[u8] = b"# TYPE h_seconds histogram\n# UNIT h_seconds seconds\n\
    h_seconds_bucket{le=\"1\"} 1 # {id=\"x\"} 0.5 1.25\nh_seconds_bucket{le=\"+Inf\"} 2\nh_seconds_count 2 1.5\n\
    h_seconds_sum 3\nh_seconds_created 1.7e9\n# TYPE c counter\nc_total{a=\"b\"} 1\nc_created{a=\"b\"} 5\n# EOF\n";

/// A family with a native and a classic histogram, exemplars and a created timestamp.
const HISTOGRAMS: &[u8] = b"\x97\x01\x0a\x01h\x18\x04\"P\x0a\x06\x0a\x01a\x12\x01b:F\x08\x08\x11\0\0\0\0\0\0\x12@\
    (\x061\xfc\xa9\xf1\xd2MbP?8\x02J\x04\x08\x00\x10\x01P\x02b\x04\x08\x03\x10\x02j\x02\x04\x02z\x02\x08\x03\
    \x82\x01\x0f\x11\0\0\0\0\0\0\xf0?\x1a\x04\x08\x02\x10\x05\"=:;\x08\x03\x11\0\0\0\0\0\0\x12@\
    \x1a\x19\x08\x01\x11\0\0\0\0\0\0\xf0?\x1a\x0e\x0a\x07\x0a\x02id\x12\x01y\x11\0\0\0\x1a\x0b\x08\x02\x11\0\0\0\0\0\0\0@";

const SMALL_OPENMETRICS2: &[u8] = b"# TYPE h histogram\n\
    h{a=\"b\"} {count:3,sum:4,bucket:[1:2,+Inf:3]} 5 st@4 # {id=\"x\"} 0.5 1.25 # {} 1 2\n\
    h {count:4,sum:5,schema:0,zero_threshold:0.1,zero_count:1,positive_spans:[0:2,1:1],\
    positive_buckets:[1,1,1],negative_spans:[],negative_buckets:[],bucket:[+Inf:4]}\n\
    # TYPE s summary\ns {count:1,sum:2,quantile:[0.5:1,0.9:2]}\n\
    # TYPE \"q.r\" stateset\n{\"q.r\",\"q.r\"=\"u\"} 1\n# EOF\n";

pub fn targets() -> Vec<Target> {
    vec![
        Target {
            memory_base: MEMORY_BASE,
            name: "exposition_text",
            seeds: || vec![SMALL_TEXT.into(), first_part(TEXT)],
            run: |input| read(input, Format::Text100),
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "exposition_openmetrics",
            seeds: || vec![SMALL_OPENMETRICS.into(), first_part(OPENMETRICS)],
            run: |input| read(input, Format::OpenMetrics),
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "exposition_openmetrics2",
            seeds: || vec![SMALL_OPENMETRICS2.into()],
            run: |input| read(input, Format::OpenMetrics2),
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "exposition_protobuf",
            seeds: || vec![HISTOGRAMS.into(), first_part(PROTOBUF)],
            run: |input| read(input, Format::Protobuf),
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "exposition_import",
            seeds: || {
                vec![
                    SMALL_TEXT.into(),
                    SMALL_OPENMETRICS.into(),
                    first_part(TEXT),
                ]
            },
            run: import,
        },
    ]
}

fn first_part(body: &[u8]) -> Vec<u8> {
    body.get(..2000).unwrap_or(body).to_vec()
}

/// Reads everything there is to read, with each way to make histograms.
fn read(input: &[u8], format: Format) {
    for bits in [0, 1, 4, 7, 8, 12] {
        let options = ParserOptions {
            created_timestamps: bits & 1 != 0,
            classic_beside_native: bits & 2 != 0,
            classic_to_custom_bounds: bits & 4 != 0,
            ignore_native: bits & 8 != 0,
        };
        let mut parser = Parser::with_options(input, format, options);
        while let Ok(Some(entry)) = parser.next() {
            let Entry::Series(series) = entry else {
                continue;
            };
            let mut pairs = Vec::new();
            let labels = series.labels(&mut pairs);
            series.exemplars().for_each(drop);
            if let SeriesValue::Histogram(histogram) = &series.value {
                histogram
                    .validate()
                    .expect("the parser refuses what is not valid");
            }
            if let Err(error) = labels {
                let _ = parser.labels_error(&error).to_string();
            }
        }
        assert_eq!(parser.next(), Ok(None), "the end is the end");
        let _ = Format::from_content_type(Some(&String::from_utf8_lossy(input)), None);
    }
}

/// Imports an input in one piece and cut into pieces: the same has to come of it.
fn import(input: &[u8]) {
    for openmetrics in [false, true] {
        let options = ImportOptions {
            openmetrics,
            default_timestamp_ms: 1,
            extra_labels: vec![("a".into(), "x".into())],
        };
        let mut whole = CountingSink::default();
        let imported = import_text([input], options.clone(), &mut whole);
        let mut cut = CountingSink::default();
        assert_eq!(imported, import_text(input.chunks(7), options, &mut cut));
        assert_eq!(whole, cut);
        assert_eq!(imported.samples, whole.samples);
    }
}

#[derive(Debug, Default, PartialEq)]
struct CountingSink {
    series: u64,
    samples: u64,
    others: u64,
}

impl SampleSink for CountingSink {
    fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
        None
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        let parsed = labels.parse(&mut Vec::new());
        parsed.expect("the import writes valid labels");
        self.series += 1;
    }

    fn sample(&mut self, _: Sample) {
        assert!(self.series > 0, "a sample belongs to a series");
        self.samples += 1;
    }

    fn histogram(&mut self, _: i64, _: i64, _: Histogram) {
        self.others += 1;
    }

    fn exemplar(&mut self, _: Exemplar) {
        self.others += 1;
    }

    fn metadata(&mut self, _: &str, _: Metadata) {
        self.others += 1;
    }

    fn reject(&mut self, _: String) {
        self.others += 1;
    }
}
