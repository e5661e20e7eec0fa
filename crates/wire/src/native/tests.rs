use icecore_model::{
    Exemplar, FloatColumns, Labels, Metadata, MetricType, STALE_NAN_BITS, SeriesSamples,
};
use proptest::prelude::*;

use super::*;
use crate::SeriesContent;
use crate::testing::{ExportedSeries, RecordingSink, SinkCall, expected, exported};

fn stream(all: &[ExportedSeries]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    for exported in all {
        encoder.metadata(&mut out, &exported.metadata);
        let content = SeriesContent::new(&exported.series, &exported.exemplars);
        encoder.series(&mut out, content);
    }
    encoder.finish(&mut out);
    out
}

fn frames(bytes: &[u8], piece: usize) -> Result<Vec<Frame>, FrameError> {
    let mut reader = FrameReader::default();
    let mut frames = Vec::new();
    let mut pieces = bytes.chunks(piece).peekable();
    let mut buffer = Vec::new();
    loop {
        match reader.next(&buffer, pieces.peek().is_none())? {
            Step::More { at_least } => {
                assert!(at_least > buffer.len());
                buffer.extend_from_slice(pieces.next().unwrap());
            }
            Step::Frame { frame, taken } => {
                buffer.drain(..taken);
                frames.push(frame);
            }
            Step::End => return Ok(frames),
        }
    }
}

fn decode(bytes: &[u8], piece: usize) -> Result<Vec<SinkCall>, FrameError> {
    let mut sink = RecordingSink::default();
    let mut counts = Counts::default();
    for frame in frames(bytes, piece)? {
        match frame.kind {
            FrameKind::Series => counts.add(decode_series(&frame.payload, &mut sink)?),
            FrameKind::Metadata => counts.add(decode_metadata(&frame.payload, &mut sink)?),
            FrameKind::End => {
                assert_eq!(decode_counts(&frame.payload)?, counts);
                counts = Counts::default();
            }
        }
    }
    Ok(sink.sorted())
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(all in prop::collection::vec(exported(), 0..5), piece in 1usize..5000) {
        prop_assert_eq!(decode(&stream(&all), piece), Ok(expected(&all)));
    }

    #[test]
    fn streams_may_follow_one_another(one in exported(), other in exported()) {
        let bytes = [stream(std::slice::from_ref(&one)), stream(std::slice::from_ref(&other))].concat();
        prop_assert_eq!(decode(&bytes, 100), Ok(expected(&[one, other])));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_found(all in prop::collection::vec(exported(), 0..3), at: prop::sample::Index, bit in 0u8..8) {
        let mut bytes = stream(&all);
        let at = at.index(bytes.len());
        prop_assert!(decode(&bytes[..at], 1000).is_err());
        bytes[at] ^= 1 << bit;
        prop_assert!(decode(&bytes, 1000).is_err(), "{}", at);
    }

    #[test]
    fn no_payload_panics(payload in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut sink = Ignoring;
        let _ = decode_series(&payload, &mut sink);
        let _ = decode_metadata(&payload, &mut sink);
        let _ = decode_counts(&payload);
        let _ = summary_of(&payload);
        let _ = frames(&[&MAGIC[..], &payload].concat(), 7);
    }
}

/// Labels of damaged payloads are for the store to refuse.
struct Ignoring;

impl icecore_model::SampleSink for Ignoring {
    fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
        None
    }
    fn series(&mut self, _: icecore_model::RawLabels<'_>) {}
    fn sample(&mut self, _: icecore_model::Sample) {}
    fn histogram(&mut self, _: i64, _: i64, _: icecore_model::Histogram) {}
    fn exemplar(&mut self, _: Exemplar) {}
    fn metadata(&mut self, _: &str, _: Metadata) {}
    fn reject(&mut self, _: String) {}
}

fn floats(name: &str, count: i64, value: impl Fn(i64) -> f64) -> ExportedSeries {
    ExportedSeries {
        series: SeriesSamples {
            labels: Labels::from_pairs([("__name__", name)]),
            floats: FloatColumns {
                timestamps: (0..count).map(|i| 1_700_000_000_000 + i * 15_000).collect(),
                values: (0..count).map(value).collect(),
            },
            histograms: Vec::new(),
            start_timestamps: Vec::new(),
            forms: Default::default(),
            rolled: None,
        },
        exemplars: Vec::new(),
        metadata: None,
    }
}

#[test]
fn a_long_series_takes_several_frames() {
    let long = floats("m", 500_000, |i| (i as f64).sqrt());
    let bytes = stream(std::slice::from_ref(&long));
    let frames = frames(&bytes, 1 << 16).unwrap();
    assert!(frames.len() > 3, "{frames:?}");
    let longest = frames.iter().map(|frame| frame.payload.len()).max();
    assert!(longest.unwrap() < 2 << 20);
    assert_eq!(decode(&bytes, 1 << 16), Ok(expected(&[long])));
}

#[test]
fn series_of_one_target_share_their_times() {
    let all: Vec<ExportedSeries> = (0..100)
        .map(|i| floats(&format!("m{i}"), 240, |n| (n * i) as f64))
        .collect();
    let bytes = stream(&all);
    let frames = frames(&bytes, 1 << 16).unwrap();
    // A byte or two for a value, nothing for a time.
    assert!(frames[0].payload.len() < 100 * 240 * 2 + 3000, "{frames:?}");
    assert!(bytes.len() < 100 * 240, "{}", bytes.len());
}

/// The bytes of `docs/native-format.md`. Frames this short are not compressed.
#[test]
fn golden_bytes() {
    let mut one = floats("up", 3, |i| {
        [1.0, f64::from_bits(STALE_NAN_BITS), 0.5][i as usize]
    });
    one.series.start_timestamps = vec![(1_700_000_000_000, 1_699_999_999_000)];
    one.metadata = Some((
        "up".into(),
        Metadata {
            metric_type: MetricType::Gauge,
            help: "h".into(),
            ..Metadata::default()
        },
    ));
    let mut two = floats("up", 3, |i| i as f64);
    two.series.labels = Labels::from_pairs([("__name__", "up"), ("a", "b")]);
    let hex: String = frames(&stream(&[one, two]), 100)
        .unwrap()
        .iter()
        .map(|frame| {
            let bytes = frame.payload.iter().map(|byte| format!("{byte:02x}"));
            format!("{:?} {}\n", frame.kind, bytes.collect::<String>())
        })
        .collect();
    assert_eq!(hex, GOLDEN_PAYLOADS);
    let empty = stream(&[]);
    let hex: String = empty.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN_EMPTY);
}

const GOLDEN_PAYLOADS: &str = "\
Metadata 0275700200000168
Series 80a0abfef962e0f4aefef96206100a0e0a085f5f6e616d655f5f12027570000180a0abfef962b090abfef962\
030080a0abfef962b0ea01000162f03f080200000000000040080200000000001040\
180a0e0a085f5f6e616d655f5f120275700a060a01611201620000030100000202
End 0206000001
";
const GOLDEN_EMPTY: &str = "894943450d0a1a010301000005000000050000006320e08e9bcdc3140000000000";
