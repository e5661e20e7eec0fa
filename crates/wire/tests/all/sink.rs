//! Sinks that write down what they are told.

use icecore_model::{Exemplar, Histogram, Metadata, RawLabels, Sample, SampleSink};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Series(Vec<(String, String)>),
    Sample {
        timestamp_ms: i64,
        start_timestamp_ms: i64,
        value_bits: u64,
    },
    /// The histogram as text, because a NaN in it must equal itself.
    Histogram {
        timestamp_ms: i64,
        start_timestamp_ms: i64,
        histogram: String,
    },
    Exemplar(Exemplar),
    Metadata(String, Metadata),
    Reject(String),
}

impl Event {
    pub(crate) fn sample(timestamp_ms: i64, start_timestamp_ms: i64, value: f64) -> Self {
        Self::Sample {
            timestamp_ms,
            start_timestamp_ms,
            value_bits: value.to_bits(),
        }
    }

    pub(crate) fn histogram(
        timestamp_ms: i64,
        start_timestamp_ms: i64,
        histogram: &Histogram,
    ) -> Self {
        let histogram = format!("{histogram:?}");
        Self::Histogram {
            timestamp_ms,
            start_timestamp_ms,
            histogram,
        }
    }

    pub(crate) fn reject(reason: &str) -> Self {
        Self::Reject(reason.into())
    }
}

/// Writes events down. With known series it guesses the way a head does: the series that followed
/// the current one in the request before.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) events: Vec<Event>,
    pub(crate) guesses: usize,
    known: Vec<Vec<u8>>,
    next: usize,
    /// Whether the event written last is a guess, which may still be taken back.
    guessed_last: bool,
}

impl Recorder {
    pub(crate) fn knowing(known: Vec<Vec<u8>>) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }

    fn announce(&mut self, raw: &[u8]) {
        let mut pairs = Vec::new();
        self.push(match RawLabels(raw).parse(&mut pairs) {
            Ok(()) => Event::Series(
                pairs
                    .iter()
                    .map(|(n, v)| (n.to_string(), v.to_string()))
                    .collect(),
            ),
            Err(error) => Event::Reject(error.to_string()),
        });
    }

    fn push(&mut self, event: Event) {
        self.guessed_last = false;
        self.events.push(event);
    }
}

impl SampleSink for Recorder {
    fn guess_series(&mut self, bytes: &[u8]) -> Option<usize> {
        let known = self.known.get(self.next)?;
        if !bytes.starts_with(known) {
            return None;
        }
        let known = known.clone();
        self.guesses += 1;
        self.next += 1;
        self.announce(&known);
        self.guessed_last = true;
        Some(known.len())
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        self.next = match self.known.iter().position(|known| known == labels.0) {
            Some(position) => position + 1,
            None => usize::MAX,
        };
        if self.guessed_last {
            self.events.pop();
        }
        self.announce(labels.0);
    }

    fn sample(&mut self, sample: Sample) {
        let Sample {
            timestamp_ms,
            value,
            start_timestamp_ms,
        } = sample;
        self.push(Event::sample(timestamp_ms, start_timestamp_ms, value));
    }

    fn histogram(&mut self, timestamp_ms: i64, start_timestamp_ms: i64, histogram: Histogram) {
        self.push(Event::histogram(
            timestamp_ms,
            start_timestamp_ms,
            &histogram,
        ));
    }

    fn exemplar(&mut self, exemplar: Exemplar) {
        self.push(Event::Exemplar(exemplar));
    }

    fn metadata(&mut self, family: &str, metadata: Metadata) {
        self.push(Event::Metadata(family.into(), metadata));
    }

    fn reject(&mut self, reason: String) {
        self.push(Event::Reject(reason));
    }
}
