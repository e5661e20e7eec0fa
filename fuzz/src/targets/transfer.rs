//! Targets for imports: lines of JSON, and frames of the native form.

use icecore_model::{FloatColumns, HistogramSample, Labels, SeriesSamples};
use icecore_wire::SeriesContent;
use icecore_wire::native::{
    Encoder, FRAME_RAW_BYTES_MAX, FrameKind, FrameReader, Step as FrameStep, decode_counts,
    decode_metadata, decode_series, frame_head, summary_of,
};
use icecore_wire::prometheus::import::{BatchLimits, LineReader, Step};
use icecore_wire::sample_batch::{SampleBatch, TimeWindow};

use super::wire::RepeatingSink;
use crate::{MEMORY_BASE, Target};

const LINES: &str = concat!(
    r#"{"metric":{"__name__":"m","a":"\u0062\"é"},"metadata":{"family":"m","type":"gauge","unit":"s","help":"h"},"#,
    r#""start_timestamps":[[1,0],[2,1]],"values":[1,-2.5,"NaN","StaleNaN","NaN:0x7ff8000000000000",null],"#,
    r#""timestamps":[1,2,1700000000000,1700000015000,5,6],"#,
    r#""exemplars":[{"labels":{"trace_id":"x"},"timestamp":2,"value":1}]}"#,
    "\n",
    r#"{"metric":{"__name__":"h"},"histograms":[{"timestamp":5,"schema":3,"reset_hint":"gauge","sum":18.4,"count":7,"#,
    r#""zero_threshold":1e-128,"zero_count":2,"positive_spans":[[-2,2],[1,1]],"positive_deltas":[1,1,-1],"#,
    r#""negative_spans":[[0,1]],"negative_deltas":[1]}]}"#,
    "\n",
);

pub fn targets() -> Vec<Target> {
    vec![
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_import_lines",
            seeds: || vec![LINES.as_bytes().to_vec()],
            run: read_lines,
        },
        Target {
            // A frame may be longer than it is compressed.
            memory_base: MEMORY_BASE + 2 * FRAME_RAW_BYTES_MAX,
            name: "wire_native_stream",
            seeds: || vec![stream()],
            run: read_stream,
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "wire_native_payload",
            seeds: payloads,
            run: |input| {
                let _ = decode_series(input, &mut RepeatingSink::default());
                let _ = decode_metadata(input, &mut RepeatingSink::default());
                let _ = decode_counts(input);
                let _ = summary_of(input);
            },
        },
    ]
}

/// In pieces whose length the input decides, into batches that are small.
fn read_lines(input: &[u8]) {
    let piece = input.first().map_or(1, |byte| usize::from(*byte) + 1);
    let mut reader = LineReader::new(BatchLimits {
        samples: 3,
        bytes: 1 << 20,
    });
    let mut gathered = SampleBatch::default();
    let mut pieces = input.chunks(piece).peekable();
    let mut buffer = Vec::new();
    loop {
        let (taken, step) = reader.advance(&buffer, pieces.peek().is_none(), &mut gathered);
        buffer.drain(..taken);
        match step {
            Step::More { .. } => buffer.extend_from_slice(pieces.next().unwrap_or_default()),
            Step::Full => {
                let mut sink = RepeatingSink::default();
                let mut window = TimeWindow::new(&mut sink, 0, 3_600_000, true);
                std::mem::take(&mut gathered).replay(&mut window);
            }
            Step::Bad { .. } => {}
            Step::End => break,
        }
    }
    gathered.replay(&mut RepeatingSink::default());
}

fn read_stream(input: &[u8]) {
    let mut reader = FrameReader::default();
    let mut rest = input;
    let _ = frame_head(input, true);
    while let Ok(FrameStep::Frame { frame, taken }) = reader.next(rest, true) {
        rest = rest.get(taken..).unwrap_or_default();
        let mut sink = RepeatingSink::default();
        let _ = match frame.kind {
            FrameKind::Series => decode_series(&frame.payload, &mut sink),
            FrameKind::Metadata => decode_metadata(&frame.payload, &mut sink),
            FrameKind::End => decode_counts(&frame.payload),
        };
    }
}

fn stream() -> Vec<u8> {
    let mut gathered = Series::default();
    let mut reader = LineReader::new(BatchLimits {
        samples: usize::MAX,
        bytes: usize::MAX,
    });
    let mut batch = SampleBatch::default();
    reader.advance(LINES.as_bytes(), true, &mut batch);
    batch.replay(&mut gathered);
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.metadata(&mut out, &gathered.metadata);
    for (series, exemplars) in &gathered.series {
        encoder.series(&mut out, SeriesContent::new(series, exemplars));
    }
    encoder.finish(&mut out);
    out
}

fn payloads() -> Vec<Vec<u8>> {
    let stream = stream();
    let (mut reader, mut rest, mut all) = (FrameReader::default(), &stream[..], Vec::new());
    while let Ok(FrameStep::Frame { frame, taken }) = reader.next(rest, true) {
        rest = rest.get(taken..).unwrap_or_default();
        all.push(frame.payload);
    }
    all
}

/// Collects what the lines say, to be written in the other form.
#[derive(Default)]
struct Series {
    series: Vec<(SeriesSamples, Vec<icecore_model::Exemplar>)>,
    metadata: Vec<(String, icecore_model::Metadata)>,
}

impl icecore_model::SampleSink for Series {
    fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
        None
    }

    fn series(&mut self, labels: icecore_model::RawLabels<'_>) {
        let mut pairs = Vec::new();
        let _ = labels.parse(&mut pairs);
        let series = SeriesSamples {
            labels: Labels::from_pairs(pairs),
            floats: FloatColumns::default(),
            histograms: Vec::new(),
            start_timestamps: Vec::new(),
            forms: icecore_model::NumberForms::default(),
            rolled: None,
        };
        self.series.push((series, Vec::new()));
    }

    fn sample(&mut self, sample: icecore_model::Sample) {
        if let Some((series, _)) = self.series.last_mut() {
            let times = series.floats.timestamps.iter().copied();
            series.floats.timestamps = times.chain([sample.timestamp_ms]).collect();
            series.floats.values.push(sample.value);
        }
    }

    fn histogram(&mut self, timestamp_ms: i64, start_ms: i64, histogram: icecore_model::Histogram) {
        if let Some((series, _)) = self.series.last_mut() {
            series.start_timestamps.push((timestamp_ms, start_ms));
            series.histograms.push(HistogramSample {
                timestamp_ms,
                histogram: histogram.into(),
            });
        }
    }

    fn exemplar(&mut self, exemplar: icecore_model::Exemplar) {
        if let Some((_, exemplars)) = self.series.last_mut() {
            exemplars.push(exemplar);
        }
    }

    fn metadata(&mut self, family: &str, metadata: icecore_model::Metadata) {
        self.metadata.push((family.into(), metadata));
    }

    fn reject(&mut self, _: String) {}
}
