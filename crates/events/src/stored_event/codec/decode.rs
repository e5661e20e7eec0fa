//! Reads a block.

use std::borrow::Cow;
use std::fmt;

use icecore_model::event::{DimensionHash, EventId};
use icecore_model::varint::{take_varint, unzigzag};

use super::{VERSION, flag, tag};
use crate::{Attributes, EventKind, Scalar, StoredEvent, Value};

/// The least bytes of an event: flags, id, four names, two times, dimensions, count of attributes.
const MIN_EVENT_BYTES: usize = 1 + 16 + 4 + 2 + 16 + 1;

/// The least bytes of an attribute: a known name and a tag.
const MIN_ATTRIBUTE_BYTES: usize = 2;

/// What is wrong with the bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockError {
    /// How many bytes were not read yet.
    pub bytes_left: usize,
    pub reason: &'static str,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes_left, reason } = self;
        write!(
            f,
            "block of events: {reason}, {bytes_left} bytes before its end"
        )
    }
}

impl std::error::Error for BlockError {}

type Result<T> = std::result::Result<T, BlockError>;

/// All events of a block, and the version of the registry they were accepted under.
pub fn decode_events(block: &[u8]) -> Result<(u64, Vec<StoredEvent<'_>>)> {
    let block = EventBlock::new(block)?;
    let version = block.registry_version();
    let mut events = Vec::with_capacity(block.len().min(block.rest.len() / MIN_EVENT_BYTES));
    for event in block {
        events.push(event?);
    }
    Ok((version, events))
}

/// A block while it is read: an iterator over its events, which borrow from its bytes. Ends after
/// an error.
pub struct EventBlock<'a> {
    rest: &'a [u8],
    registry_version: u64,
    /// Events that were not read yet.
    left: usize,
    names: Vec<&'a str>,
    /// Of the event before.
    started_ns: i64,
    received_ns: i64,
}

impl<'a> EventBlock<'a> {
    pub fn new(block: &'a [u8]) -> Result<Self> {
        let mut this = Self {
            rest: block,
            registry_version: 0,
            left: 0,
            names: Vec::new(),
            started_ns: 0,
            received_ns: 0,
        };
        let version = this.byte()?;
        if version != VERSION {
            return Err(this.error("of a version that this program does not know"));
        }
        this.registry_version = this.varint()?;
        this.left = this.count_of(MIN_EVENT_BYTES)?;
        this.check_end()?;
        Ok(this)
    }

    pub fn registry_version(&self) -> u64 {
        self.registry_version
    }

    /// How many events are left.
    pub fn len(&self) -> usize {
        self.left
    }

    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    fn event(&mut self) -> Result<StoredEvent<'a>> {
        let flags = self.varint()?;
        if flags & !flag::ALL != 0 {
            return Err(self.error("flags that this program does not know"));
        }
        let has = |flag: u64| flags & flag != 0;
        let id = EventId(self.array()?);
        let parent = self.maybe(has(flag::PARENT), Self::array)?.map(EventId);
        let service = self.name()?;
        let event_type = self.name()?;
        let name = self.name()?;
        let outcome = self.name()?;
        self.started_ns = self.started_ns.wrapping_add(self.zigzag()?);
        self.received_ns = self.received_ns.wrapping_add(self.zigzag()?);
        let length = self.maybe(has(flag::ENDED), Self::zigzag)?;
        let duration = self.maybe(has(flag::DURATION), Self::zigzag)?;
        Ok(StoredEvent {
            service,
            event_type,
            name,
            id,
            parent,
            started_ns: self.started_ns,
            ended_ns: length.map(|length| self.started_ns.wrapping_add(length)),
            received_ns: self.received_ns,
            duration_ns: duration.map(|more| more.wrapping_add(length.unwrap_or(0))),
            kind: self.maybe(has(flag::KIND), Self::kind)?,
            outcome,
            error_code: self.maybe(has(flag::ERROR_CODE), Self::text)?,
            error_message: self.maybe(has(flag::ERROR_MESSAGE), Self::text)?,
            trace_id: self.maybe(has(flag::TRACE), Self::array)?,
            span_id: self.maybe(has(flag::SPAN), Self::array)?,
            parent_span_id: self.maybe(has(flag::PARENT_SPAN), Self::array)?,
            correlation_id: self.maybe(has(flag::CORRELATION), Self::text)?,
            dimensions: DimensionHash(self.array()?),
            synthetic: has(flag::SYNTHETIC),
            attributes: self.attributes()?,
            rest: self.maybe(has(flag::REST), Self::name)?.unwrap_or_default(),
        })
    }

    fn attributes(&mut self) -> Result<Attributes<'a>> {
        let count = self.count_of(MIN_ATTRIBUTE_BYTES)?;
        let mut leaves = Vec::with_capacity(count);
        for _ in 0..count {
            leaves.push((self.name()?, self.value()?));
        }
        Attributes::from_sorted(leaves).ok_or_else(|| self.error("attributes out of order"))
    }

    fn value(&mut self) -> Result<Value<'a>> {
        Ok(match self.byte()? {
            tag::NULL => Value::Null,
            tag::LIST => {
                let count = self.count_of(1)?;
                let mut list = Vec::with_capacity(count);
                for _ in 0..count {
                    let tag = self.byte()?;
                    list.push(self.scalar(tag)?);
                }
                Value::List(list)
            }
            tag::JSON => Value::Json(self.text()?),
            tag => Value::Scalar(self.scalar(tag)?),
        })
    }

    fn scalar(&mut self, tag: u8) -> Result<Scalar<'a>> {
        Ok(match tag {
            tag::TEXT => Scalar::Text(self.text()?),
            tag::INTEGER => Scalar::Integer(self.zigzag()?),
            tag::NUMBER => Scalar::Number(f64::from_bits(u64::from_le_bytes(self.array()?))),
            tag::FALSE => Scalar::Boolean(false),
            tag::TRUE => Scalar::Boolean(true),
            _ => return Err(self.error("a value of unknown type")),
        })
    }

    fn kind(&mut self) -> Result<EventKind> {
        let number = self.byte()?;
        EventKind::from_number(number).ok_or_else(|| self.error("an unknown kind"))
    }

    fn name(&mut self) -> Result<Cow<'a, str>> {
        let Some(at) = self.varint()?.checked_sub(1) else {
            let name = self.str()?;
            self.names.push(name);
            return Ok(Cow::Borrowed(name));
        };
        let name = usize::try_from(at).ok().and_then(|at| self.names.get(at));
        let name = name.copied();
        name.map(Cow::Borrowed)
            .ok_or_else(|| self.error("a name that was not written before"))
    }

    fn text(&mut self) -> Result<Cow<'a, str>> {
        self.str().map(Cow::Borrowed)
    }

    fn str(&mut self) -> Result<&'a str> {
        let length = self.count_of(1)?;
        let (text, rest) = self.rest.split_at(length);
        let text = std::str::from_utf8(text).map_err(|_| self.error("text that is not UTF-8"))?;
        self.rest = rest;
        Ok(text)
    }

    /// A number of things of which each takes at least so many bytes, and so no more than there
    /// can be.
    fn count_of(&mut self, bytes_each: usize) -> Result<usize> {
        let count = usize::try_from(self.varint()?).ok();
        count
            .filter(|count| *count <= self.rest.len() / bytes_each)
            .ok_or_else(|| self.error("a length beyond the end"))
    }

    fn maybe<T>(
        &mut self,
        has: bool,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        if has { read(self).map(Some) } else { Ok(None) }
    }

    fn zigzag(&mut self) -> Result<i64> {
        self.varint().map(unzigzag)
    }

    fn varint(&mut self) -> Result<u64> {
        take_varint(&mut self.rest).map_err(|_| self.error("a number that does not end"))
    }

    fn byte(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (array, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| self.error("it ends too early"))?;
        self.rest = rest;
        Ok(*array)
    }

    fn check_end(&self) -> Result<()> {
        if self.left == 0 && !self.rest.is_empty() {
            return Err(self.error("bytes after the last event"));
        }
        Ok(())
    }

    fn error(&self, reason: &'static str) -> BlockError {
        BlockError {
            bytes_left: self.rest.len(),
            reason,
        }
    }
}

impl<'a> Iterator for EventBlock<'a> {
    type Item = Result<StoredEvent<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let event = self.event().and_then(|event| {
            self.check_end()?;
            Ok(event)
        });
        if event.is_err() {
            self.left = 0;
        }
        Some(event)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}
