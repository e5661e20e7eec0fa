//! The bytes of a block: all events of one request.
//!
//! ```text
//! block   version u8 = 1 | varint registry version | varint count | event*
//! event   varint flags | id 16 | [parent 16] | name service | name type | name name | name outcome
//!         | zigzag start − start of the event before | zigzag received − that of the event before
//!         | [zigzag end − start] | [zigzag duration − (end − start, or 0)] | [kind u8]
//!         | [text error code] | [text error message] | [trace 16] | [span 8] | [parent span 8]
//!         | [text correlation] | dimensions 16 | varint count (name path | value)* | [name rest]
//! name    varint 0 | text (it is given the next number, from 1 on), or the varint of its number
//! text    varint length | UTF-8
//! value   0 null | 1 text | 2 zigzag integer | 3 f64 LE | 4 false | 5 true
//!         | 6 varint count, values 1 to 5 | 7 text of JSON
//! ```
//!
//! Texts that repeat from event to event are names and are written once: that is half of a block,
//! and a name is checked once when it is read.
//!
//! Holds always:
//! - The same events give the same bytes.
//! - A decoder never panics and takes no more memory than a multiple of the bytes it is given.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{BlockError, EventBlock, decode_events};
pub use encode::encode_events;

const VERSION: u8 = 1;

/// What an event has. The numbers are stored.
mod flag {
    pub(super) const PARENT: u64 = 1;
    pub(super) const ENDED: u64 = 1 << 1;
    pub(super) const DURATION: u64 = 1 << 2;
    pub(super) const KIND: u64 = 1 << 3;
    pub(super) const ERROR_CODE: u64 = 1 << 4;
    pub(super) const ERROR_MESSAGE: u64 = 1 << 5;
    pub(super) const TRACE: u64 = 1 << 6;
    pub(super) const SPAN: u64 = 1 << 7;
    pub(super) const PARENT_SPAN: u64 = 1 << 8;
    pub(super) const CORRELATION: u64 = 1 << 9;
    pub(super) const SYNTHETIC: u64 = 1 << 10;
    pub(super) const REST: u64 = 1 << 11;
    pub(super) const ALL: u64 = (1 << 12) - 1;
}

/// What an attribute has. The numbers are stored.
mod tag {
    pub(super) const NULL: u8 = 0;
    pub(super) const TEXT: u8 = 1;
    pub(super) const INTEGER: u8 = 2;
    pub(super) const NUMBER: u8 = 3;
    pub(super) const FALSE: u8 = 4;
    pub(super) const TRUE: u8 = 5;
    pub(super) const LIST: u8 = 6;
    pub(super) const JSON: u8 = 7;
}
