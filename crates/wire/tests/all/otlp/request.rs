//! Writes OTLP requests the way clients do, independently of the decoder.

use crate::encode::Message;

pub(crate) const CUMULATIVE: u64 = 2;
pub(crate) const DELTA: u64 = 1;

/// The time of every point, in nanoseconds, and when it began.
pub(crate) const T: u64 = 1_700_000_000_000_000_000;
pub(crate) const START: u64 = 1_600_000_000_000_000_000;

pub(crate) fn message(write: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = Message::default();
    write(&mut message);
    message.0
}

pub(crate) fn attribute(key: &str, value: &str) -> Vec<u8> {
    message(|m| {
        let value = message(|m| {
            m.bytes(1, value.as_bytes());
        });
        m.text(1, key).bytes(2, &value);
    })
}

fn put_attributes(m: &mut Message, field: u64, attributes: &[(&str, &str)]) {
    for (key, value) in attributes {
        m.bytes(field, &attribute(key, value));
    }
}

pub(crate) fn number_point(attributes: &[(&str, &str)], value: f64) -> Vec<u8> {
    message(|m| {
        put_attributes(m, 7, attributes);
        m.fixed64(2, START).fixed64(3, T).present_double(4, value);
    })
}

pub(crate) fn histogram_point(
    attributes: &[(&str, &str)],
    bounds: &[f64],
    counts: &[u64],
    sum: Option<f64>,
) -> Vec<u8> {
    message(|m| {
        put_attributes(m, 9, attributes);
        m.fixed64(2, START)
            .fixed64(3, T)
            .fixed64(4, counts.iter().sum());
        if let Some(sum) = sum {
            m.present_double(5, sum);
        }
        let counts: Vec<f64> = counts.iter().map(|count| f64::from_bits(*count)).collect();
        m.packed_doubles(6, &counts).packed_doubles(7, bounds);
    })
}

/// Offset and counts of one side.
pub(crate) type Side<'a> = (i32, &'a [u64]);

pub(crate) fn exponential_point(
    scale: i32,
    positive: Side<'_>,
    negative: Side<'_>,
    zero: u64,
) -> Vec<u8> {
    let side = |(offset, counts): Side<'_>| {
        message(|m| {
            m.zigzag(1, offset.into()).packed(2, counts.iter().copied());
        })
    };
    let total: u64 = positive.1.iter().chain(negative.1).sum();
    message(|m| {
        m.fixed64(2, START).fixed64(3, T).fixed64(4, total + zero);
        m.present_double(5, 1.0);
        m.zigzag(6, scale.into()).fixed64(7, zero);
        m.bytes(8, &side(positive)).bytes(9, &side(negative));
    })
}

pub(crate) fn exemplar(value: f64, trace: &[u8], attributes: &[(&str, &str)]) -> Vec<u8> {
    message(|m| {
        m.fixed64(2, T - 1).bytes(5, trace).present_double(3, value);
        put_attributes(m, 7, attributes);
    })
}

fn metric(name: &str, unit: &str, field: u64, data: &[u8]) -> Vec<u8> {
    message(|m| {
        m.text(1, name)
            .text(2, "What it is.")
            .text(3, unit)
            .bytes(field, data);
    })
}

fn data(points: &[Vec<u8>], temporality: u64, monotonic: bool) -> Vec<u8> {
    message(|m| {
        for point in points {
            m.bytes(1, point);
        }
        m.varint(2, temporality).varint(3, monotonic.into());
    })
}

pub(crate) fn gauge(name: &str, unit: &str, points: &[Vec<u8>]) -> Vec<u8> {
    metric(name, unit, 5, &data(points, 0, false))
}

pub(crate) fn sum(
    name: &str,
    unit: &str,
    points: &[Vec<u8>],
    temporality: u64,
    monotonic: bool,
) -> Vec<u8> {
    metric(name, unit, 7, &data(points, temporality, monotonic))
}

pub(crate) fn histogram(name: &str, unit: &str, points: &[Vec<u8>], temporality: u64) -> Vec<u8> {
    metric(name, unit, 9, &data(points, temporality, false))
}

pub(crate) fn exponential(name: &str, points: &[Vec<u8>], temporality: u64) -> Vec<u8> {
    metric(name, "", 10, &data(points, temporality, false))
}

pub(crate) fn summary(
    name: &str,
    unit: &str,
    quantiles: &[(f64, f64)],
    count: u64,
    sum: f64,
) -> Vec<u8> {
    let point = message(|m| {
        m.fixed64(2, START)
            .fixed64(3, T)
            .fixed64(4, count)
            .double(5, sum);
        for (quantile, value) in quantiles {
            m.bytes(
                6,
                &message(|m| {
                    m.double(1, *quantile).double(2, *value);
                }),
            );
        }
    });
    metric(name, unit, 11, &data(&[point], 0, false))
}

pub(crate) fn scope_metrics(scope: &[u8], schema_url: &str, metrics: &[Vec<u8>]) -> Vec<u8> {
    message(|m| {
        m.bytes(1, scope);
        for metric in metrics {
            m.bytes(2, metric);
        }
        m.text(3, schema_url);
    })
}

pub(crate) fn resource_metrics(attributes: &[(&str, &str)], scopes: &[Vec<u8>]) -> Vec<u8> {
    let resource = message(|m| put_attributes(m, 1, attributes));
    let content = message(|m| {
        m.bytes(1, &resource);
        for scope in scopes {
            m.bytes(2, scope);
        }
    });
    message(|m| {
        m.bytes(1, &content);
    })
}

/// A request with one metric of a service called `svc`.
pub(crate) fn request_of(metric: &[u8]) -> Vec<u8> {
    resource_metrics(
        &[("service.name", "svc")],
        &[scope_metrics(&[], "", &[metric.to_vec()])],
    )
}

/// Which fields of a message are messages, for [`reversed`].
pub(crate) struct Nested(pub(crate) &'static [(u64, &'static Nested)]);

pub(crate) const REQUEST: &Nested = &Nested(&[(1, RESOURCE_METRICS)]);
const RESOURCE_METRICS: &Nested = &Nested(&[(2, SCOPE_METRICS)]);
const SCOPE_METRICS: &Nested = &Nested(&[(2, METRIC)]);
const METRIC: &Nested = &Nested(&[(5, DATA), (7, DATA), (9, DATA), (10, DATA), (11, DATA)]);
const DATA: &Nested = &Nested(&[(1, POINT)]);
const POINT: &Nested = &Nested(&[]);

/// The same message with the fields of every message in reverse order, as far as their order means
/// nothing: those of one number stay in theirs.
pub(crate) fn reversed(bytes: &[u8], nested: &Nested) -> Vec<u8> {
    let mut fields: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let tag = varint(bytes, &mut at);
        let (field, wire_type) = (tag >> 3, tag & 7);
        let rewritten = match wire_type {
            0 => {
                varint(bytes, &mut at);
                bytes[start..at].to_vec()
            }
            1 => {
                at += 8;
                bytes[start..at].to_vec()
            }
            _ => {
                let length = varint(bytes, &mut at) as usize;
                let content = &bytes[at..at + length];
                at += length;
                let inner = nested.0.iter().find(|(number, _)| *number == field);
                let content = match inner {
                    Some((_, inner)) => reversed(content, inner),
                    None => content.to_vec(),
                };
                message(|m| {
                    m.bytes(field, &content);
                })
            }
        };
        fields.push((field, rewritten));
    }
    fields.sort_by_key(|(field, _)| std::cmp::Reverse(*field));
    fields.into_iter().flat_map(|(_, bytes)| bytes).collect()
}

fn varint(bytes: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}
