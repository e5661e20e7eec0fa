//! Remote write requests, written field by field as the protocol's documents say.

/// An hour in the past, at its beginning.
pub(crate) const T0: i64 = 1_699_999_200_000;

const V1: &str = "application/x-protobuf";
const V2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";

/// A request on its way.
#[derive(Clone, Default)]
pub(crate) struct Payload {
    message: Vec<u8>,
    /// Of 2.0; empty for 1.0.
    symbols: Vec<String>,
}

/// One series of a request.
#[derive(Clone, Default)]
pub(crate) struct Series {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) samples: Vec<(i64, f64)>,
    /// Timestamp and count of native histograms with all observations in the zero bucket.
    pub(crate) histograms: Vec<(i64, u64)>,
    pub(crate) exemplars: Vec<(i64, f64)>,
    pub(crate) start_ms: i64,
}

pub(crate) fn series(name: &str, labels: &[(&str, &str)], samples: &[(i64, f64)]) -> Series {
    let all = [("__name__", name)]
        .into_iter()
        .chain(labels.iter().copied());
    Series {
        labels: all.map(|(n, v)| (n.into(), v.into())).collect(),
        samples: samples.to_vec(),
        ..Series::default()
    }
}

impl Payload {
    /// Remote write 1.0.
    pub(crate) fn v1(all: &[Series]) -> Self {
        let mut message = Vec::new();
        for series in all {
            let mut out = Vec::new();
            for (name, value) in &series.labels {
                let mut label = Vec::new();
                bytes(&mut label, 1, name.as_bytes());
                bytes(&mut label, 2, value.as_bytes());
                bytes(&mut out, 1, &label);
            }
            for (timestamp, value) in &series.samples {
                let mut sample = Vec::new();
                double(&mut sample, 1, *value);
                number(&mut sample, 2, *timestamp as u64);
                bytes(&mut out, 2, &sample);
            }
            for (timestamp, value) in &series.exemplars {
                let mut exemplar = Vec::new();
                double(&mut exemplar, 2, *value);
                number(&mut exemplar, 3, *timestamp as u64);
                bytes(&mut out, 3, &exemplar);
            }
            for (timestamp, count) in &series.histograms {
                bytes(&mut out, 4, &histogram(*timestamp, *count));
            }
            bytes(&mut message, 1, &out);
        }
        Self {
            message,
            symbols: Vec::new(),
        }
    }

    /// Adds metadata of a family to a 1.0 request; 1 is counter, 2 is gauge.
    pub(crate) fn with_metadata(mut self, family: &str, kind: u64, help: &str, unit: &str) -> Self {
        let mut metadata = Vec::new();
        number(&mut metadata, 1, kind);
        bytes(&mut metadata, 2, family.as_bytes());
        bytes(&mut metadata, 4, help.as_bytes());
        bytes(&mut metadata, 5, unit.as_bytes());
        bytes(&mut self.message, 3, &metadata);
        self
    }

    /// Remote write 2.0.
    pub(crate) fn v2(all: &[Series]) -> Self {
        let mut payload = Self {
            message: Vec::new(),
            symbols: vec![String::new()],
        };
        let mut message = Vec::new();
        for series in all {
            let mut refs = Vec::new();
            for text in series.labels.iter().flat_map(|(n, v)| [n, v]) {
                varint(&mut refs, payload.symbol(text));
            }
            let mut out = Vec::new();
            bytes(&mut out, 1, &refs);
            for (timestamp, value) in &series.samples {
                let mut sample = Vec::new();
                double(&mut sample, 1, *value);
                number(&mut sample, 2, *timestamp as u64);
                number(&mut sample, 3, series.start_ms as u64);
                bytes(&mut out, 2, &sample);
            }
            for (timestamp, count) in &series.histograms {
                bytes(&mut out, 3, &histogram(*timestamp, *count));
            }
            for (timestamp, value) in &series.exemplars {
                let mut exemplar = Vec::new();
                double(&mut exemplar, 2, *value);
                number(&mut exemplar, 3, *timestamp as u64);
                bytes(&mut out, 4, &exemplar);
            }
            bytes(&mut message, 5, &out);
        }
        for symbol in &payload.symbols {
            bytes(&mut payload.message, 4, symbol.as_bytes());
        }
        payload.message.extend(message);
        payload
    }

    fn symbol(&mut self, text: &str) -> u64 {
        let known = self.symbols.iter().position(|symbol| symbol == text);
        let at = known.unwrap_or_else(|| {
            self.symbols.push(text.into());
            self.symbols.len() - 1
        });
        at as u64
    }

    pub(crate) fn headers(&self) -> Vec<(&'static str, &'static str)> {
        let content_type = if self.symbols.is_empty() { V1 } else { V2 };
        vec![
            ("Content-Type", content_type),
            ("Content-Encoding", "snappy"),
        ]
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        compressed(&self.message)
    }
}

pub(crate) fn compressed(message: &[u8]) -> Vec<u8> {
    let mut encoder = snap::raw::Encoder::new();
    encoder.compress_vec(message).expect("it is not that long")
}

/// The same in both versions.
fn histogram(timestamp: i64, count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, 1, count);
    double(&mut out, 3, 0.0);
    // Schema 3, as zigzag.
    number(&mut out, 4, 6);
    double(&mut out, 5, 0.001);
    number(&mut out, 6, count);
    number(&mut out, 15, timestamp as u64);
    out
}

pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

pub(crate) fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    varint(out, field << 3 | 1);
    out.extend(value.to_le_bytes());
}

pub(crate) fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend(value);
}
