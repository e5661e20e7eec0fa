//! Writes a block.

use hashbrown::HashTable;
use icecore_model::varint::{push_varint, push_zigzag};
use xxhash_rust::xxh3::xxh3_64;

use super::{VERSION, flag, tag};
use crate::{Attributes, Scalar, StoredEvent, Value};

/// The bytes of a request's events, accepted under a version of the registry.
pub fn encode_events<'e, 'a: 'e>(
    registry_version: u64,
    events: impl ExactSizeIterator<Item = &'e StoredEvent<'a>>,
) -> Vec<u8> {
    let mut encoder = Encoder {
        bytes: Vec::with_capacity(256 * events.len() + 64),
        names: Names::default(),
        started_ns: 0,
        received_ns: 0,
    };
    encoder.bytes.push(VERSION);
    push_varint(&mut encoder.bytes, registry_version);
    push_varint(&mut encoder.bytes, events.len() as u64);
    for event in events {
        encoder.event(event);
    }
    encoder.bytes
}

struct Encoder<'e> {
    bytes: Vec<u8>,
    names: Names<'e>,
    /// Of the event before.
    started_ns: i64,
    received_ns: i64,
}

impl<'e> Encoder<'e> {
    fn event(&mut self, event: &'e StoredEvent<'_>) {
        push_varint(&mut self.bytes, flags(event));
        self.bytes.extend_from_slice(&event.id.0);
        if let Some(parent) = event.parent {
            self.bytes.extend_from_slice(&parent.0);
        }
        for name in [
            &event.service,
            &event.event_type,
            &event.name,
            &event.outcome,
        ] {
            self.names.push(&mut self.bytes, name);
        }
        self.times(event);
        if let Some(kind) = event.kind {
            self.bytes.push(kind as u8);
        }
        for text in [&event.error_code, &event.error_message]
            .into_iter()
            .flatten()
        {
            push_text(&mut self.bytes, text);
        }
        if let Some(id) = &event.trace_id {
            self.bytes.extend_from_slice(id);
        }
        for id in [&event.span_id, &event.parent_span_id]
            .into_iter()
            .flatten()
        {
            self.bytes.extend_from_slice(id);
        }
        if let Some(text) = &event.correlation_id {
            push_text(&mut self.bytes, text);
        }
        self.bytes.extend_from_slice(&event.dimensions.0);
        self.attributes(&event.attributes);
        if !event.rest.is_empty() {
            self.names.push(&mut self.bytes, &event.rest);
        }
    }

    /// Differences wrap around: any times come back as they were.
    fn times(&mut self, event: &StoredEvent<'_>) {
        let bytes = &mut self.bytes;
        push_zigzag(bytes, event.started_ns.wrapping_sub(self.started_ns));
        push_zigzag(bytes, event.received_ns.wrapping_sub(self.received_ns));
        self.started_ns = event.started_ns;
        self.received_ns = event.received_ns;
        let length = event
            .ended_ns
            .map(|ended_ns| ended_ns.wrapping_sub(event.started_ns));
        if let Some(length) = length {
            push_zigzag(bytes, length);
        }
        if let Some(duration_ns) = event.duration_ns {
            push_zigzag(bytes, duration_ns.wrapping_sub(length.unwrap_or(0)));
        }
    }

    fn attributes(&mut self, attributes: &'e Attributes<'_>) {
        push_varint(&mut self.bytes, attributes.len() as u64);
        for (path, value) in attributes.iter() {
            self.names.push(&mut self.bytes, path);
            push_value(&mut self.bytes, value);
        }
    }
}

fn flags(event: &StoredEvent<'_>) -> u64 {
    [
        (event.parent.is_some(), flag::PARENT),
        (event.ended_ns.is_some(), flag::ENDED),
        (event.duration_ns.is_some(), flag::DURATION),
        (event.kind.is_some(), flag::KIND),
        (event.error_code.is_some(), flag::ERROR_CODE),
        (event.error_message.is_some(), flag::ERROR_MESSAGE),
        (event.trace_id.is_some(), flag::TRACE),
        (event.span_id.is_some(), flag::SPAN),
        (event.parent_span_id.is_some(), flag::PARENT_SPAN),
        (event.correlation_id.is_some(), flag::CORRELATION),
        (event.synthetic, flag::SYNTHETIC),
        (!event.rest.is_empty(), flag::REST),
    ]
    .into_iter()
    .filter(|(has, _)| *has)
    .fold(0, |flags, (_, flag)| flags | flag)
}

fn push_value(bytes: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null => bytes.push(tag::NULL),
        Value::Scalar(scalar) => push_scalar(bytes, scalar),
        Value::List(list) => {
            bytes.push(tag::LIST);
            push_varint(bytes, list.len() as u64);
            list.iter().for_each(|scalar| push_scalar(bytes, scalar));
        }
        Value::Json(text) => {
            bytes.push(tag::JSON);
            push_text(bytes, text);
        }
    }
}

fn push_scalar(bytes: &mut Vec<u8>, scalar: &Scalar<'_>) {
    match scalar {
        Scalar::Text(text) => {
            bytes.push(tag::TEXT);
            push_text(bytes, text);
        }
        Scalar::Integer(integer) => {
            bytes.push(tag::INTEGER);
            push_zigzag(bytes, *integer);
        }
        Scalar::Number(number) => {
            bytes.push(tag::NUMBER);
            bytes.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Scalar::Boolean(false) => bytes.push(tag::FALSE),
        Scalar::Boolean(true) => bytes.push(tag::TRUE),
    }
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// The names of a block by the order in which they came.
#[derive(Default)]
struct Names<'e> {
    /// Each with the one that last followed it: events of one type have the same names in the same
    /// order, so that the next name is mostly known and not looked up.
    list: Vec<(&'e str, usize)>,
    by_hash: HashTable<usize>,
    last: usize,
}

impl<'e> Names<'e> {
    fn push(&mut self, bytes: &mut Vec<u8>, name: &'e str) {
        let at = self.known(name);
        match at {
            Some(at) => push_varint(bytes, at as u64 + 1),
            None => {
                bytes.push(0);
                push_text(bytes, name);
            }
        }
        let at = at.unwrap_or_else(|| self.insert(name));
        if let Some((_, follows)) = self.list.get_mut(self.last) {
            *follows = at;
        }
        self.last = at;
    }

    fn known(&self, name: &str) -> Option<usize> {
        let guess = self.list.get(self.last).map(|(_, follows)| *follows);
        let is_name = |at: &usize| self.list.get(*at).is_some_and(|(known, _)| *known == name);
        if guess.as_ref().is_some_and(is_name) {
            return guess;
        }
        let hash = xxh3_64(name.as_bytes());
        self.by_hash.find(hash, is_name).copied()
    }

    fn insert(&mut self, name: &'e str) -> usize {
        let at = self.list.len();
        self.list.push((name, 0));
        let list = &self.list;
        let hash_of = |at: &usize| xxh3_64(list[*at].0.as_bytes());
        self.by_hash
            .insert_unique(xxh3_64(name.as_bytes()), at, hash_of);
        at
    }
}
