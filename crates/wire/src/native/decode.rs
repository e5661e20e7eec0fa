//! Payloads of frames to calls of a sink.
//!
//! ```text
//! series:   first time ─ last time ─ samples ─ record*
//! record:   labels (empty: as before) ─ tag ─ starts ─ count ─ columns, histograms or exemplars
//! metadata: ( family ─ type ─ temporality and monotonicity ─ unit ─ help )*
//! end:      counts of records, samples, histograms, exemplars, families
//! ```
//!
//! A histogram that contradicts itself is rejected at the sink; the rest is decoded.

use icecore_model::varint::push_varint;
use icecore_model::{
    Exemplar, Labels, Metadata, MetricType, RawLabels, Sample, SampleSink, Temporality,
};

use super::FrameError;
use super::bytes::Reader;
use super::histogram::read_histogram;

pub(super) const FLOATS: u8 = 0;
pub(super) const HISTOGRAMS: u8 = 1;
pub(super) const EXEMPLARS: u8 = 2;

pub(super) const TIMES_OWN: u8 = 0;
pub(super) const TIMES_SAME: u8 = 1;

pub(super) const VALUES_WHOLE: u8 = 0;
pub(super) const VALUES_XOR: u8 = 1;

type Result<T> = std::result::Result<T, FrameError>;

/// How much a stream holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records of series; a series may have several.
    pub records: u64,
    pub samples: u64,
    pub histograms: u64,
    pub exemplars: u64,
    /// Metric families.
    pub metadata: u64,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.records += other.records;
        self.samples += other.samples;
        self.histograms += other.histograms;
        self.exemplars += other.exemplars;
        self.metadata += other.metadata;
    }

    pub(super) fn push(self, out: &mut Vec<u8>) {
        for count in [
            self.records,
            self.samples,
            self.histograms,
            self.exemplars,
            self.metadata,
        ] {
            push_varint(out, count);
        }
    }
}

/// Reads the counts of a final frame.
pub fn decode_counts(payload: &[u8]) -> Result<Counts> {
    let mut reader = Reader(payload);
    let counts = Counts {
        records: reader.varint()?,
        samples: reader.varint()?,
        histograms: reader.varint()?,
        exemplars: reader.varint()?,
        metadata: reader.varint()?,
    };
    if !reader.is_empty() {
        return Err(FrameError::Malformed("bytes after the counts"));
    }
    Ok(counts)
}

/// The header of a frame of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// First and last time.
    pub span: (i64, i64),
    /// Samples, histograms and exemplars.
    pub samples: u64,
}

/// Reads the header of a frame of series. Only decoding the frame verifies it.
pub fn summary_of(payload: &[u8]) -> Result<Summary> {
    Summary::read(&mut Reader(payload))
}

impl Summary {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            span: (reader.zigzag()?, reader.zigzag()?),
            samples: reader.varint()?,
        })
    }
}

/// Decodes the metadata of a frame into the sink.
pub fn decode_metadata(payload: &[u8], sink: &mut impl SampleSink) -> Result<Counts> {
    let mut reader = Reader(payload);
    let mut counts = Counts::default();
    while !reader.is_empty() {
        let family = text(reader.text()?)?;
        if family.is_empty() {
            return Err(FrameError::Malformed("metadata without a family"));
        }
        let metric_type = MetricType::from_number(reader.byte()?.into());
        let metric_type = metric_type.ok_or(FrameError::Malformed("unknown metric type"))?;
        let flags = reader.byte()?;
        let temporality = match flags >> 1 {
            0 => Temporality::Unspecified,
            1 => Temporality::Cumulative,
            2 => Temporality::Delta,
            _ => return Err(FrameError::Malformed("unknown temporality")),
        };
        let unit = text(reader.text()?)?;
        let help = text(reader.text()?)?;
        let metadata = Metadata {
            metric_type,
            unit: unit.into(),
            help: help.into(),
            temporality,
            monotonic: flags & 1 == 1,
        };
        sink.metadata(family, metadata);
        counts.metadata += 1;
    }
    Ok(counts)
}

/// Decodes the series of a frame into the sink.
pub fn decode_series(payload: &[u8], sink: &mut impl SampleSink) -> Result<Counts> {
    let mut reader = Reader(payload);
    let summary = Summary::read(&mut reader)?;
    let mut decoder = Decoder {
        reader,
        span: summary.span,
        sink,
        starts: Vec::new(),
        times: Vec::new(),
        counts: Counts::default(),
    };
    let mut labels: &[u8] = &[];
    while !decoder.reader.is_empty() {
        let own = decoder.reader.text()?;
        if !own.is_empty() {
            labels = own;
        } else if labels.is_empty() {
            return Err(FrameError::Malformed("record without labels"));
        }
        if !own.is_empty() {
            decoder.announce(labels);
        }
        decoder.record()?;
    }
    let counts = decoder.counts;
    if counts.samples + counts.histograms + counts.exemplars != summary.samples {
        let reason = "the frame holds more or fewer samples than its header says";
        return Err(FrameError::Malformed(reason));
    }
    Ok(counts)
}

struct Decoder<'a, 's, S> {
    reader: Reader<'a>,
    span: (i64, i64),
    sink: &'s mut S,
    starts: Vec<(i64, i64)>,
    times: Vec<i64>,
    counts: Counts,
}

impl<S: SampleSink> Decoder<'_, '_, S> {
    fn announce(&mut self, labels: &[u8]) {
        if self.sink.guess_series(labels) != Some(labels.len()) {
            self.sink.series(RawLabels(labels));
        }
    }

    fn record(&mut self) -> Result<()> {
        self.counts.records += 1;
        match self.reader.byte()? {
            FLOATS => self.floats(),
            HISTOGRAMS => self.histograms(),
            EXEMPLARS => self.exemplars(),
            _ => Err(FrameError::Malformed("unknown kind of record")),
        }
    }

    fn floats(&mut self) -> Result<()> {
        self.read_starts()?;
        // A value takes at least a byte, so that the count is bounded by what follows.
        let count = self.reader.count(1)?;
        match self.reader.byte()? {
            TIMES_OWN => self.read_times(count)?,
            TIMES_SAME if self.times.len() == count => {}
            _ => return Err(FrameError::Malformed("no column of timestamps to repeat")),
        }
        match self.reader.byte()? {
            VALUES_WHOLE => self.whole_values(),
            VALUES_XOR => self.xor_values(),
            _ => Err(FrameError::Malformed("unknown encoding of values")),
        }
    }

    fn read_starts(&mut self) -> Result<()> {
        self.starts.clear();
        let count = self.reader.count(2)?;
        let mut last = (0i64, 0i64);
        for _ in 0..count {
            last.0 = last.0.wrapping_add(self.reader.zigzag()?);
            last.1 = last.1.wrapping_add(self.reader.zigzag()?);
            self.starts.push(last);
        }
        Ok(())
    }

    fn read_times(&mut self, count: usize) -> Result<()> {
        self.times.clear();
        self.times.reserve(count);
        let (mut last, mut delta) = (0i64, 0i64);
        for at in 0..count {
            delta = delta.wrapping_add(self.reader.zigzag()?);
            last = last.wrapping_add(delta);
            if at == 0 {
                delta = 0;
            }
            self.check_time(last)?;
            self.times.push(last);
        }
        Ok(())
    }

    fn whole_values(&mut self) -> Result<()> {
        let mut last = 0i64;
        self.values(|reader| {
            last = last.wrapping_add(reader.zigzag()?);
            Ok(last as f64)
        })
    }

    fn xor_values(&mut self) -> Result<()> {
        let mut last = 0u64;
        self.values(|reader| {
            last ^= read_xor(reader)?;
            Ok(f64::from_bits(last))
        })
    }

    #[inline]
    fn values(&mut self, mut next: impl FnMut(&mut Reader<'_>) -> Result<f64>) -> Result<()> {
        self.counts.samples += self.times.len() as u64;
        let mut starts = self.starts.iter().peekable();
        for time in &self.times {
            let value = next(&mut self.reader)?;
            let start = starts.next_if(|(at, _)| at == time);
            self.sink.sample(Sample {
                timestamp_ms: *time,
                value,
                start_timestamp_ms: start.map_or(0, |(_, start)| *start),
            });
        }
        Ok(())
    }

    fn histograms(&mut self) -> Result<()> {
        self.read_starts()?;
        let count = self.reader.count(1)?;
        let mut starts = std::mem::take(&mut self.starts).into_iter().peekable();
        for _ in 0..count {
            let (time, histogram) = read_histogram(&mut self.reader)?;
            self.check_time(time)?;
            let start = starts.next_if(|(at, _)| *at == time);
            self.counts.histograms += 1;
            match histogram.validate() {
                Ok(()) => self
                    .sink
                    .histogram(time, start.map_or(0, |(_, start)| start), histogram),
                Err(error) => self.sink.reject(error.to_string()),
            }
        }
        Ok(())
    }

    fn exemplars(&mut self) -> Result<()> {
        let count = self.reader.count(1)?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let timestamp_ms = self.reader.zigzag()?;
            self.check_time(timestamp_ms)?;
            let value = self.reader.float()?;
            pairs.clear();
            let labels = RawLabels(self.reader.text()?);
            let parsed = labels.parse(&mut pairs);
            parsed.map_err(|_| FrameError::Malformed("labels of an exemplar are malformed"))?;
            self.counts.exemplars += 1;
            self.sink.exemplar(Exemplar {
                labels: Labels::from_pairs(pairs.iter().copied()),
                timestamp_ms,
                value,
            });
        }
        Ok(())
    }

    #[inline]
    fn check_time(&self, time: i64) -> Result<()> {
        if time < self.span.0 || time > self.span.1 {
            let reason = "timestamp outside the time range of the frame";
            return Err(FrameError::Malformed(reason));
        }
        Ok(())
    }
}

#[inline]
fn read_xor(reader: &mut Reader<'_>) -> Result<u64> {
    let control = reader.byte()?;
    if control == 0 {
        return Ok(0);
    }
    let (trailing, length) = (usize::from(control >> 4), usize::from(control & 15));
    if length == 0 || trailing + length > 8 {
        return Err(FrameError::Malformed("value with too many bytes"));
    }
    let bytes = reader.take(length as u64)?;
    let mut whole = [0u8; 8];
    whole
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    Ok(u64::from_le_bytes(whole) << (8 * trailing))
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| FrameError::Malformed("text is not UTF-8"))
}
