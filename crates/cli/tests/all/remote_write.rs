//! Remote write 1.0 as a client sends it: protobuf in snappy, written independently of the
//! product's decoder.

use crate::ledger::Value;

/// One series of a request with its samples, in the order in which they are sent.
pub(crate) struct SentSeries<'a> {
    pub(crate) labels: &'a [(String, String)],
    pub(crate) samples: &'a [(i64, Value)],
    /// Floats, each of which gets one label.
    pub(crate) exemplars: &'a [(i64, Value)],
}

pub(crate) const HEADERS: &[(&str, &str)] = &[
    ("Content-Type", "application/x-protobuf"),
    ("Content-Encoding", "snappy"),
    ("X-Prometheus-Remote-Write-Version", "0.1.0"),
];

/// The body of `POST /api/v1/write`.
pub(crate) fn encode<'a>(series: impl Iterator<Item = SentSeries<'a>>) -> Vec<u8> {
    let mut request = Vec::new();
    for series in series {
        put_message(&mut request, 1, &time_series(&series));
    }
    snap::raw::Encoder::new()
        .compress_vec(&request)
        .expect("the request is smaller than snappy's limit of 4 GiB")
}

fn time_series(series: &SentSeries<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in series.labels {
        let mut label = Vec::new();
        put_message(&mut label, 1, name.as_bytes());
        put_message(&mut label, 2, value.as_bytes());
        put_message(&mut out, 1, &label);
    }
    for (timestamp_ms, value) in series.samples {
        match value {
            Value::Float(bits) => {
                let mut sample = Vec::new();
                put_double(&mut sample, 1, *bits);
                put_varint(&mut sample, 2, *timestamp_ms as u64);
                put_message(&mut out, 2, &sample);
            }
            Value::Histogram(seed) => put_message(&mut out, 4, &histogram(*timestamp_ms, *seed)),
        }
    }
    for (timestamp_ms, value) in series.exemplars {
        put_message(&mut out, 3, &exemplar(*timestamp_ms, *value));
    }
    out
}

fn exemplar(timestamp_ms: i64, value: Value) -> Vec<u8> {
    let Value::Float(bits) = value else {
        panic!("an exemplar has a float");
    };
    let (mut out, mut label) = (Vec::new(), Vec::new());
    put_message(&mut label, 1, b"trace_id");
    put_message(&mut label, 2, timestamp_ms.to_string().as_bytes());
    put_message(&mut out, 1, &label);
    put_double(&mut out, 2, bits);
    put_varint(&mut out, 3, timestamp_ms as u64);
    out
}

/// An integer native histogram that says its seed in every field, see `Value::Histogram`.
fn histogram(timestamp_ms: i64, seed: u32) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, 1, 2 * u64::from(seed) + 1);
    put_double(&mut out, 3, (f64::from(seed) / 4.0).to_bits());
    put_varint(&mut out, 4, zigzag(3));
    put_double(&mut out, 5, 0.25_f64.to_bits());
    put_varint(&mut out, 6, 1);
    let mut span = Vec::new();
    put_varint(&mut span, 1, zigzag(-2));
    put_varint(&mut span, 2, 2);
    put_message(&mut out, 11, &span);
    // Two buckets with the same count.
    let mut deltas = Vec::new();
    push_varint(&mut deltas, zigzag(seed.into()));
    push_varint(&mut deltas, zigzag(0));
    put_message(&mut out, 12, &deltas);
    put_varint(&mut out, 15, timestamp_ms as u64);
    out
}

fn put_message(out: &mut Vec<u8>, field: u32, message: &[u8]) {
    push_varint(out, u64::from(field << 3 | 2));
    push_varint(out, message.len() as u64);
    out.extend_from_slice(message);
}

fn put_double(out: &mut Vec<u8>, field: u32, bits: u64) {
    push_varint(out, u64::from(field << 3 | 1));
    out.extend_from_slice(&bits.to_le_bytes());
}

fn put_varint(out: &mut Vec<u8>, field: u32, value: u64) {
    push_varint(out, u64::from(field << 3));
    push_varint(out, value);
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}
