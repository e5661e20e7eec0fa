//! Reads frames and chunks as Prometheus does, written from the description of the format and not
//! from the encoder beside it. For tests; those of the server include this file.

use std::sync::Arc;

use icecore_model::varint::{take_varint, unzigzag};
use icecore_model::{
    CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Histogram, HistogramCounts, HistogramSample, Span,
};

/// One frame: query, labels, and chunks as (start, end, encoding, data).
pub(crate) struct Frame {
    pub(crate) query_index: u64,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) chunks: Vec<(i64, i64, u64, Vec<u8>)>,
    pub(crate) message_bytes: usize,
}

/// What a chunk holds.
#[derive(Debug, PartialEq)]
pub(crate) enum ChunkSamples {
    Floats(Vec<(i64, u64)>),
    Histograms(Vec<HistogramSample>),
}

pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let length = take_varint(&mut bytes).unwrap() as usize;
        let (sum, rest) = bytes.split_at(4);
        let (message, rest) = rest.split_at(length);
        bytes = rest;
        assert_eq!(
            u32::from_be_bytes(sum.try_into().unwrap()),
            castagnoli(message)
        );
        let mut frame = Frame {
            query_index: 0,
            labels: Vec::new(),
            chunks: Vec::new(),
            message_bytes: length,
        };
        for (field, value) in fields(message) {
            match (field, value) {
                (1, Value::Bytes(series)) => read_series(&mut frame, series),
                (2, Value::Number(index)) => frame.query_index = index,
                _ => panic!("a field that ChunkedReadResponse does not have"),
            }
        }
        frames.push(frame);
    }
    frames
}

fn read_series(frame: &mut Frame, series: &[u8]) {
    for (field, value) in fields(series) {
        let Value::Bytes(message) = value else {
            panic!("a series has messages only");
        };
        match field {
            1 => {
                let mut texts = fields(message).map(|(_, value)| match value {
                    Value::Bytes(text) => String::from_utf8(text.to_vec()).unwrap(),
                    Value::Number(_) => panic!("labels are text"),
                });
                frame
                    .labels
                    .push((texts.next().unwrap(), texts.next().unwrap()));
            }
            2 => {
                let mut chunk = (0, 0, 0, Vec::new());
                for (field, value) in fields(message) {
                    match (field, value) {
                        (1, Value::Number(start)) => chunk.0 = start as i64,
                        (2, Value::Number(end)) => chunk.1 = end as i64,
                        (3, Value::Number(encoding)) => chunk.2 = encoding,
                        (4, Value::Bytes(data)) => chunk.3 = data.to_vec(),
                        _ => panic!("a field that Chunk does not have"),
                    }
                }
                frame.chunks.push(chunk);
            }
            _ => panic!("a field that ChunkedSeries does not have"),
        }
    }
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn fields(mut message: &[u8]) -> impl Iterator<Item = (u64, Value<'_>)> {
    std::iter::from_fn(move || {
        if message.is_empty() {
            return None;
        }
        let tag = take_varint(&mut message).unwrap();
        let value = match tag & 7 {
            0 => Value::Number(take_varint(&mut message).unwrap()),
            2 => {
                let length = take_varint(&mut message).unwrap() as usize;
                let (bytes, rest) = message.split_at(length);
                message = rest;
                Value::Bytes(bytes)
            }
            other => panic!("wire type {other} does not occur here"),
        };
        Some((tag >> 3, value))
    })
}

fn castagnoli(bytes: &[u8]) -> u32 {
    let mut sum = !0u32;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = sum >> 1 ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn bit(&mut self) -> bool {
        let bit = self.bytes[self.at / 8] >> (7 - self.at % 8) & 1 == 1;
        self.at += 1;
        bit
    }

    fn bits(&mut self, count: u32) -> u64 {
        (0..count).fold(0, |value, _| value << 1 | u64::from(self.bit()))
    }

    fn uvarint(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bits(8);
            value |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
        }
        panic!("a varint without an end")
    }

    /// The highest value of a width is positive, unlike in two's complement.
    fn signed(&mut self, width: u32) -> i64 {
        let bits = self.bits(width);
        if width < 64 && bits > 1 << (width - 1) {
            return bits.wrapping_sub(1 << width) as i64;
        }
        bits as i64
    }

    fn ones(&mut self, most: u32) -> u32 {
        (0..most).take_while(|_| self.bit()).count() as u32
    }

    fn varbit_width(&mut self) -> u32 {
        [0, 3, 6, 9, 12, 18, 25, 56, 64][self.ones(8) as usize]
    }

    fn varbit_signed(&mut self) -> i64 {
        match self.varbit_width() {
            0 => 0,
            width => self.signed(width),
        }
    }

    fn varbit_unsigned(&mut self) -> u64 {
        let width = self.varbit_width();
        self.bits(width)
    }
}

#[derive(Clone, Copy)]
struct Xor {
    bits: u64,
    leading: u32,
    trailing: u32,
}

impl Xor {
    fn first(bits: u64) -> Self {
        Self {
            bits,
            leading: 0,
            trailing: 0,
        }
    }

    fn next(&mut self, from: &mut Bits<'_>) -> u64 {
        if from.bit() {
            if from.bit() {
                self.leading = from.bits(5) as u32;
                let significant = match from.bits(6) as u32 {
                    0 => 64,
                    count => count,
                };
                self.trailing = 64 - self.leading - significant;
            }
            let significant = 64 - self.leading - self.trailing;
            self.bits ^= from.bits(significant) << self.trailing;
        }
        self.bits
    }
}

pub(crate) fn decode(encoding: u64, data: &[u8]) -> ChunkSamples {
    let samples = u16::from_be_bytes([data[0], data[1]]);
    match encoding {
        1 => ChunkSamples::Floats(floats(&data[2..], samples)),
        2 | 3 => ChunkSamples::Histograms(histograms(data, samples, encoding == 3)),
        other => panic!("encoding {other} does not exist"),
    }
}

fn floats(data: &[u8], samples: u16) -> Vec<(i64, u64)> {
    let mut bits = Bits { bytes: data, at: 0 };
    let mut decoded = Vec::new();
    let (mut time, mut delta) = (0i64, 0i64);
    let mut value = Xor::first(0);
    for i in 0..samples {
        match i {
            0 => {
                time = unzigzag(bits.uvarint());
                value = Xor::first(bits.bits(64));
                decoded.push((time, value.bits));
                continue;
            }
            1 => delta = bits.uvarint() as i64,
            _ => {
                let change = match bits.ones(4) {
                    0 => 0,
                    1 => bits.signed(14),
                    2 => bits.signed(17),
                    3 => bits.signed(20),
                    _ => bits.signed(64),
                };
                delta = delta.wrapping_add(change);
            }
        }
        time = time.wrapping_add(delta);
        decoded.push((time, value.next(&mut bits)));
    }
    check_end(data.len(), bits.at);
    decoded
}

/// Values of one sample in the order of the chunk: count, zero count, sum, buckets.
fn histograms(data: &[u8], samples: u16, float_counts: bool) -> Vec<HistogramSample> {
    let header = match data[2] & 0xc0 {
        0x00 => CounterResetHint::Unknown,
        0x40 => CounterResetHint::NotReset,
        0x80 => CounterResetHint::Reset,
        _ => CounterResetHint::Gauge,
    };
    let mut bits = Bits {
        bytes: &data[3..],
        at: 0,
    };
    let zero_threshold = match bits.bits(8) {
        0 => 0.0,
        255 => f64::from_bits(bits.bits(64)),
        exponent => 2f64.powi(exponent as i32 - 244),
    };
    let schema = bits.varbit_signed() as i8;
    let positive_spans = spans(&mut bits);
    let negative_spans = spans(&mut bits);
    let mut custom_bounds = Vec::new();
    if schema == CUSTOM_BUCKETS_SCHEMA {
        for _ in 0..bits.varbit_unsigned() {
            custom_bounds.push(match bits.varbit_unsigned() {
                0 => f64::from_bits(bits.bits(64)),
                thousandths => (thousandths - 1) as f64 / 1000.0,
            });
        }
    }
    let custom_bounds: Arc<[f64]> = custom_bounds.into();
    let width = |spans: &[Span]| spans.iter().map(|span| span.length as usize).sum::<usize>();
    let (positive, negative) = (width(&positive_spans), width(&negative_spans));
    let mut decoded = Vec::new();
    let mut time = (0i64, 0i64);
    let mut integers: Vec<(i64, i64)> = vec![(0, 0); 2 + positive + negative];
    let mut floats: Vec<Xor> = vec![Xor::first(0); 2 + positive + negative];
    let mut sum = Xor::first(0);
    for i in 0..samples {
        let first = i == 0;
        step(&mut time, bits.varbit_signed(), first);
        for place in 0..integers.len() {
            if place == 2 {
                read_xor(&mut sum, &mut bits, first);
            }
            if float_counts {
                read_xor(&mut floats[place], &mut bits, first);
            } else if first && place < 2 {
                integers[place].0 = bits.varbit_unsigned() as i64;
            } else {
                let change = bits.varbit_signed();
                step(&mut integers[place], change, first);
            }
        }
        if integers.len() == 2 {
            read_xor(&mut sum, &mut bits, first);
        }
        let counts = if float_counts {
            let values: Vec<f64> = floats.iter().map(|x| f64::from_bits(x.bits)).collect();
            HistogramCounts::Float {
                count: values[0],
                zero_count: values[1],
                positive: values[2..2 + positive].to_vec(),
                negative: values[2 + positive..].to_vec(),
            }
        } else {
            let values: Vec<i64> = integers.iter().map(|(value, _)| *value).collect();
            HistogramCounts::Integer {
                count: values[0] as u64,
                zero_count: values[1] as u64,
                positive_deltas: values[2..2 + positive].to_vec(),
                negative_deltas: values[2 + positive..].to_vec(),
            }
        };
        let reset_hint = match header {
            CounterResetHint::Gauge => header,
            _ if first => header,
            _ => CounterResetHint::NotReset,
        };
        decoded.push(HistogramSample {
            timestamp_ms: time.0,
            histogram: Arc::new(Histogram {
                schema,
                reset_hint,
                zero_threshold,
                sum: f64::from_bits(sum.bits),
                counts,
                positive_spans: positive_spans.clone(),
                negative_spans: negative_spans.clone(),
                custom_bounds: Arc::clone(&custom_bounds),
            }),
        });
    }
    check_end(data.len() - 3, bits.at);
    decoded
}

/// Prometheus 2 begins a new byte as soon as one is full, so that an empty one may be the last.
fn check_end(bytes: usize, bits: usize) {
    let used = bits.div_ceil(8);
    let all = bytes == used || bytes == used + 1 && bits.is_multiple_of(8);
    assert!(all, "{bytes} bytes, {bits} bits used");
}

/// A value and its last change: the first is given, the others by the change of the change.
fn step((value, delta): &mut (i64, i64), change: i64, first: bool) {
    if first {
        *value = change;
    } else {
        *delta = delta.wrapping_add(change);
        *value = value.wrapping_add(*delta);
    }
}

fn read_xor(state: &mut Xor, bits: &mut Bits<'_>, first: bool) {
    if first {
        *state = Xor::first(bits.bits(64));
    } else {
        state.next(bits);
    }
}

fn spans(bits: &mut Bits<'_>) -> Vec<Span> {
    let count = bits.varbit_unsigned();
    let read = (0..count).map(|_| {
        let length = bits.varbit_unsigned() as u32;
        let offset = bits.varbit_signed() as i32;
        Span { offset, length }
    });
    read.collect()
}
