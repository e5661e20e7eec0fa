//! The keys of the catalog records of events: the first byte tells what a record is.
//!
//! ```text
//! 0x30 document      | kind u8 | service 0 type 0 name      0x31 version and next numbers
//! 0x32 dimension set | metric u32 | hash 16               0x33 file | service | week | type | seqs
//! 0x34 object state  | service u32 | type 0 attribute 0 id  0x35 state count | … 0 state
//! 0x36 quarantine    | number u64                           0x37 dead letter | number u64
//! 0x38 value         | service u32 | attribute 0 value      0x39 void events of the tail
//! ```
//!
//! Numbers are big-endian, so that records sort by them.

use std::ops::Range;

use icecore_model::event::{DimensionHash, Week};

const DIMENSION_SET: u8 = 0x32;
const FILE: u8 = 0x33;
const OBJECT_STATE: u8 = 0x34;
const STATE_COUNT: u8 = 0x35;
const QUARANTINE: u8 = 0x36;
const DEAD_LETTER: u8 = 0x37;
const ATTRIBUTE_VALUE: u8 = 0x38;
const VOID: u8 = 0x39;

pub(crate) fn dimension_set(metric: u32, hash: DimensionHash) -> Vec<u8> {
    let mut key = numbered(DIMENSION_SET, metric);
    key.extend_from_slice(&hash.0);
    key
}

/// The sets of one metric.
pub(crate) fn dimension_sets(metric: u32) -> Range<Vec<u8>> {
    beginning_with(numbered(DIMENSION_SET, metric))
}

/// The hash that the key of a dimension set ends with, and its metric.
pub(crate) fn read_dimension_set(key: &[u8]) -> Option<(u32, DimensionHash)> {
    let (metric, rest) = read_numbered(key, DIMENSION_SET)?;
    Some((metric, DimensionHash(rest.try_into().ok()?)))
}

pub(crate) fn every_dimension_set() -> Range<Vec<u8>> {
    beginning_with(vec![DIMENSION_SET])
}

/// What a file has: events of a service, week and type, of a range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileKey {
    pub(crate) service: u32,
    pub(crate) week: Week,
    pub(crate) event_type: u32,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
}

impl FileKey {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut key = numbered(FILE, self.service);
        key.extend_from_slice(&self.week.minutes().to_be_bytes());
        key.extend_from_slice(&self.event_type.to_be_bytes());
        key.extend_from_slice(&self.first_seq.to_be_bytes());
        key.extend_from_slice(&self.last_seq.to_be_bytes());
        key
    }

    pub(crate) fn decode(key: &[u8]) -> Option<Self> {
        let (service, rest) = read_numbered(key, FILE)?;
        let (week, rest) = rest.split_first_chunk::<4>()?;
        let (event_type, rest) = rest.split_first_chunk::<4>()?;
        let (first_seq, last_seq) = rest.split_first_chunk::<8>()?;
        Some(Self {
            service,
            week: Week::from_minutes(u32::from_be_bytes(*week))?,
            event_type: u32::from_be_bytes(*event_type),
            first_seq: u64::from_be_bytes(*first_seq),
            last_seq: u64::from_be_bytes(last_seq.try_into().ok()?),
        })
    }
}

/// The files of a service in some weeks.
pub(crate) fn files(service: u32, weeks: Range<Week>) -> Range<Vec<u8>> {
    let from = |week: Week| {
        let mut key = numbered(FILE, service);
        key.extend_from_slice(&week.minutes().to_be_bytes());
        key
    };
    from(weeks.start)..from(weeks.end)
}

pub(crate) fn every_file() -> Range<Vec<u8>> {
    beginning_with(vec![FILE])
}

pub(crate) fn object_state(service: u32, object_type: &str, attribute: &str, id: &str) -> Vec<u8> {
    let mut key = of_attribute(OBJECT_STATE, service, object_type, attribute);
    key.extend_from_slice(id.as_bytes());
    key
}

pub(crate) fn state_count(
    service: u32,
    object_type: &str,
    attribute: &str,
    state: &str,
) -> Vec<u8> {
    let mut key = of_attribute(STATE_COUNT, service, object_type, attribute);
    key.extend_from_slice(state.as_bytes());
    key
}

/// The counts of the states that one attribute of a type of objects can have.
pub(crate) fn state_counts(service: u32, object_type: &str, attribute: &str) -> Range<Vec<u8>> {
    beginning_with(of_attribute(STATE_COUNT, service, object_type, attribute))
}

pub(crate) fn every_state_count() -> Range<Vec<u8>> {
    beginning_with(vec![STATE_COUNT])
}

/// Service, type of objects, attribute and state.
pub(crate) fn read_state_count(key: &[u8]) -> Option<(u32, &str, &str, &str)> {
    let (service, rest) = read_numbered(key, STATE_COUNT)?;
    let (object_type, rest) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
    let (attribute, state) = rest.split_once('\0')?;
    Some((service, object_type, attribute, state))
}

pub(crate) fn quarantine(number: u64) -> Vec<u8> {
    listed(QUARANTINE, number)
}

pub(crate) fn dead_letter(number: u64) -> Vec<u8> {
    listed(DEAD_LETTER, number)
}

pub(crate) fn every_quarantine() -> Range<Vec<u8>> {
    beginning_with(vec![QUARANTINE])
}

pub(crate) fn every_dead_letter() -> Range<Vec<u8>> {
    beginning_with(vec![DEAD_LETTER])
}

/// The number of a record of a list: of quarantine, or of dead letters.
pub(crate) fn read_listed(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..)?.try_into().ok()?))
}

pub(crate) fn attribute_value(service: u32, attribute: &str, value: &str) -> Vec<u8> {
    let mut key = numbered(ATTRIBUTE_VALUE, service);
    push_part(&mut key, attribute);
    key.extend_from_slice(value.as_bytes());
    key
}

/// The values of one attribute of a service.
pub(crate) fn attribute_values(service: u32, attribute: &str) -> Range<Vec<u8>> {
    let mut key = numbered(ATTRIBUTE_VALUE, service);
    push_part(&mut key, attribute);
    beginning_with(key)
}

pub(crate) fn every_attribute_value() -> Range<Vec<u8>> {
    beginning_with(vec![ATTRIBUTE_VALUE])
}

/// Service, attribute and value.
pub(crate) fn read_attribute_value(key: &[u8]) -> Option<(u32, &str, &str)> {
    let (service, rest) = read_numbered(key, ATTRIBUTE_VALUE)?;
    let (attribute, value) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
    Some((service, attribute, value))
}

pub(crate) fn void_events() -> Vec<u8> {
    vec![VOID]
}

/// The one record with this key.
pub(crate) fn only(key: Vec<u8>) -> Range<Vec<u8>> {
    let mut end = key.clone();
    end.push(0);
    key..end
}

/// All keys that begin so.
fn beginning_with(prefix: Vec<u8>) -> Range<Vec<u8>> {
    let mut end = prefix.clone();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    prefix..end
}

fn numbered(kind: u8, number: u32) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn read_numbered(key: &[u8], kind: u8) -> Option<(u32, &[u8])> {
    let (first, rest) = key.split_first()?;
    let (number, rest) = rest.split_first_chunk::<4>()?;
    (*first == kind).then_some((u32::from_be_bytes(*number), rest))
}

fn listed(kind: u8, number: u64) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn of_attribute(kind: u8, service: u32, object_type: &str, attribute: &str) -> Vec<u8> {
    let mut key = numbered(kind, service);
    push_part(&mut key, object_type);
    push_part(&mut key, attribute);
    key
}

fn push_part(key: &mut Vec<u8>, part: &str) {
    key.extend_from_slice(part.as_bytes());
    key.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_key_names_is_read_back() {
        let key = FileKey {
            service: 7,
            week: Week::of(1_794_218_401),
            event_type: 9,
            first_seq: 17,
            last_seq: 42,
        };
        let encoded = key.encode();
        assert_eq!(FileKey::decode(&encoded), Some(key));
        assert_eq!(FileKey::decode(&encoded[1..]), None);
        let weeks = key.week..key.week.next();
        assert!(files(7, weeks.clone()).contains(&encoded));
        assert!(!files(8, weeks).contains(&encoded));
        assert!(every_file().contains(&encoded));

        let key = state_count(7, "Order", "order.status", "NEW");
        let read = read_state_count(&key);
        assert_eq!(read, Some((7, "Order", "order.status", "NEW")));
        assert!(state_counts(7, "Order", "order.status").contains(&key));
        assert!(!state_counts(7, "Order", "order").contains(&key));

        let key = attribute_value(7, "order.channel", "web");
        let read = read_attribute_value(&key);
        assert_eq!(read, Some((7, "order.channel", "web")));
    }

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(beginning_with(vec![1, 255]), vec![1, 255]..vec![2]);
        let key = dimension_set(u32::MAX, DimensionHash([255; 16]));
        assert!(dimension_sets(u32::MAX).contains(&key));
        assert!(every_dimension_set().contains(&key));
        let read = read_dimension_set(&key);
        assert_eq!(read, Some((u32::MAX, DimensionHash([255; 16]))));
    }
}
