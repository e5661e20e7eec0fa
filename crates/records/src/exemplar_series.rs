//! ExemplarSeries: the exemplars of one series in one bucket.
//!
//! ```text
//! version u8 = 1 | varint count | (zigzag timestamp − previous | value f64 | bindings)*
//! ```
//!
//! Sorted by timestamp, labels and value bits, without repetitions: merging is a set union, so it
//! does not matter in which order or how often exemplars were written.

use std::cmp::Ordering;

use icecore_model::Exemplar;
use icecore_model::varint::{push_varint, push_zigzag};

use crate::DecodeError;
use crate::container;
use crate::forward_index::{push_bindings, read_bindings};
use crate::reader::Reader;

const RECORD: &str = "ExemplarSeries";
const VERSION: u8 = 1;

/// One byte of timestamp, eight of value, two of label count.
const MIN_ENTRY_LEN: usize = 11;

/// Writes exemplars given in any order.
pub fn encode(exemplars: &[Exemplar]) -> Vec<u8> {
    let mut sorted: Vec<&Exemplar> = exemplars.iter().collect();
    sorted.sort_unstable_by(|a, b| order(a, b));
    sorted.dedup();
    let mut value = vec![VERSION];
    push_varint(&mut value, sorted.len() as u64);
    let mut previous = 0i64;
    for exemplar in sorted {
        push_zigzag(&mut value, exemplar.timestamp_ms.wrapping_sub(previous));
        value.extend_from_slice(&exemplar.value.to_bits().to_le_bytes());
        push_bindings(&mut value, exemplar.labels.iter());
        previous = exemplar.timestamp_ms;
    }
    value
}

pub fn decode(value: &[u8]) -> Result<Vec<Exemplar>, DecodeError> {
    container::refuse(RECORD, value)?;
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let count = reader.count(MIN_ENTRY_LEN)?;
    let mut exemplars: Vec<Exemplar> = Vec::with_capacity(count);
    let mut previous = 0i64;
    for _ in 0..count {
        let timestamp_ms = previous.wrapping_add(reader.zigzag()?);
        let value = reader.f64()?;
        let labels = read_bindings(&mut reader)?;
        let exemplar = Exemplar {
            labels,
            timestamp_ms,
            value,
        };
        if exemplars
            .last()
            .is_some_and(|last| order(last, &exemplar) != Ordering::Less)
        {
            return Err(reader.error("exemplars are not sorted"));
        }
        previous = timestamp_ms;
        exemplars.push(exemplar);
    }
    reader.finish()?;
    Ok(exemplars)
}

/// The union.
pub(crate) fn merge(parts: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let mut all = Vec::new();
    for part in parts {
        all.append(&mut decode(part)?);
    }
    Ok(encode(&all))
}

/// The order in which exemplars are stored; equal ones are the same exemplar.
pub fn order(a: &Exemplar, b: &Exemplar) -> Ordering {
    a.timestamp_ms
        .cmp(&b.timestamp_ms)
        .then_with(|| a.labels.cmp(&b.labels))
        .then_with(|| a.value.to_bits().cmp(&b.value.to_bits()))
}
