//! The record: a header, timestamps, a directory of chunks, and the chunks.
//!
//! ```text
//! version u8 = 1 | n uv | s uv | form u8 | timestamps
//!     | length of each chunk but the last, uv | chunks
//! ```
//!
//! Forms 0 and 1 are the record's own timestamps (`timestamps`); form 2 names a shared column:
//! `column uv | index of the first sample uv`. A chunk holds s values (the last one what is left);
//! s is the writer's business.

use std::ops::Range;

use icecore_model::varint::{push_varint, read_varint};

use super::timestamps::{self, StoredTimes};
use super::{MAX_CHUNK_LEN, TimeList, values};
use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "TimeSeries";
const VERSION: u8 = 1;
const SHARED: u8 = 2;

/// Chunks are written with at most so many samples. Fewer cost bytes, more cost reads of a short
/// range.
const WRITTEN_CHUNK_LEN: usize = 1024;

/// Where the timestamps of a record are to lie.
#[derive(Clone, Copy, Debug)]
pub enum Times<'a> {
    /// In the record itself.
    Own(&'a [i64]),
    /// In a column of the bucket, from index `first` on.
    Shared { column: u32, first: u32, len: u32 },
}

/// Where the timestamps of a record lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordTimes {
    Own,
    Shared { column: u32, first: u32 },
}

/// Appends a record. There are as many timestamps as values, and they increase strictly.
pub fn encode(bucket_start_ms: i64, times: Times<'_>, values: &[f64], out: &mut Vec<u8>) {
    assert_eq!(
        match times {
            Times::Own(list) => list.len(),
            Times::Shared { len, .. } => len as usize,
        },
        values.len(),
        "a timestamp for each value"
    );
    timestamps::check_len(values.len());
    out.push(VERSION);
    push_varint(out, values.len() as u64);
    let chunk_len = even_chunk_len(values.len());
    push_varint(out, chunk_len as u64);
    match times {
        Times::Own(list) => timestamps::encode(bucket_start_ms, list, out),
        Times::Shared { column, first, len } => {
            let end = first.checked_add(len);
            assert!(end.is_some(), "samples after the end of any column");
            out.push(SHARED);
            push_varint(out, column.into());
            push_varint(out, first.into());
        }
    }
    let mut encoder = values::Encoder::default();
    let mut chunks = Vec::new();
    let mut left = values;
    while !left.is_empty() {
        let (chunk, rest) = left.split_at(chunk_len.min(left.len()));
        left = rest;
        let start = chunks.len();
        encoder.encode(chunk, &mut chunks);
        if !left.is_empty() {
            push_varint(out, (chunks.len() - start) as u64);
        }
    }
    out.extend_from_slice(&chunks);
}

/// Chunks of about equal length: a last one of a few samples would cost more than it holds.
fn even_chunk_len(len: usize) -> usize {
    let chunks = len.div_ceil(WRITTEN_CHUNK_LEN).max(1);
    len.div_ceil(chunks).max(1)
}

/// A record whose header and directory are read and whose chunks are not.
#[derive(Clone, Debug)]
pub struct ColumnRecord<'a> {
    len: usize,
    chunk_len: usize,
    times: RecordTimes,
    own: Option<StoredTimes<'a>>,
    /// Varints, each of which is known to be whole and to stay within `chunks`.
    directory: &'a [u8],
    chunks: &'a [u8],
}

impl<'a> ColumnRecord<'a> {
    pub fn parse(record: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(RECORD, record);
        reader.version(VERSION)?;
        let len = timestamps::read_len(&mut reader)?;
        let chunk_len = match usize::try_from(reader.varint()?) {
            Ok(chunk_len @ 1..=MAX_CHUNK_LEN) => chunk_len,
            _ => return Err(reader.error("impossible chunk length")),
        };
        let mut own = None;
        let times = match reader.u8()? {
            SHARED => read_shared(&mut reader, len)?,
            form => {
                own = Some(StoredTimes::parse(form, &mut reader)?);
                RecordTimes::Own
            }
        };
        let (directory, chunks) = read_directory(reader.rest(), len.div_ceil(chunk_len))?;
        Ok(Self {
            len,
            chunk_len,
            times,
            own,
            directory,
            chunks,
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Samples per chunk.
    pub fn chunk_len(&self) -> usize {
        self.chunk_len
    }

    pub fn times(&self) -> RecordTimes {
        self.times
    }

    /// The timestamps, where they are the record's own.
    pub fn decode_times(&self, bucket_start_ms: i64) -> Result<TimeList, DecodeError> {
        match &self.own {
            Some(stored) => stored.decode(RECORD, bucket_start_ms, self.len),
            None => Err(DecodeError::new(RECORD, 0, "timestamps are in a column")),
        }
    }

    /// Appends the values of a range of samples. Only the chunks that overlap it are decoded. After
    /// an error `out` is as it was.
    pub fn decode_values(
        &self,
        range: Range<usize>,
        out: &mut Vec<f64>,
    ) -> Result<(), DecodeError> {
        if range.end > self.len {
            return Err(DecodeError::new(RECORD, 0, "no such samples"));
        }
        if range.is_empty() {
            return Ok(());
        }
        let before = out.len();
        let decoded = self.decode_chunks(range, out);
        if decoded.is_err() {
            out.truncate(before);
        }
        decoded
    }

    fn decode_chunks(&self, range: Range<usize>, out: &mut Vec<f64>) -> Result<(), DecodeError> {
        let first_chunk = range.start / self.chunk_len;
        let last_chunk = (range.end - 1) / self.chunk_len;
        let target = out.len() + range.len();
        // A chunk is decoded as a whole, so there is room for the rest of the first and last one.
        out.reserve((last_chunk - first_chunk + 1) * self.chunk_len);
        for (number, chunk) in self.chunks().enumerate().take(last_chunk + 1) {
            if number < first_chunk {
                continue;
            }
            let start = number * self.chunk_len;
            let len = self.chunk_len.min(self.len - start);
            let chunk_at = out.len();
            values::decode_into(chunk, len, out)?;
            if out.len() != chunk_at + len {
                return Err(DecodeError::new(RECORD, 0, "missing values"));
            }
            let unwanted = range.start.saturating_sub(start);
            out.drain(chunk_at..chunk_at + unwanted);
        }
        out.truncate(target);
        Ok(())
    }

    /// The bytes of each chunk.
    fn chunks(&self) -> impl Iterator<Item = &'a [u8]> {
        let Self {
            directory, chunks, ..
        } = *self;
        let mut directory_at = 0;
        let mut left = Some(chunks);
        std::iter::from_fn(move || {
            let all = left?;
            let Ok((len, next)) = read_varint(directory, directory_at) else {
                // The directory leaves out the last length.
                return left.take();
            };
            directory_at = next;
            let (chunk, rest) = all.split_at_checked(usize::try_from(len).ok()?)?;
            left = Some(rest);
            Some(chunk)
        })
    }
}

fn read_shared(reader: &mut Reader<'_>, len: usize) -> Result<RecordTimes, DecodeError> {
    let column = reader.varint32()?;
    let first = reader.varint32()?;
    // The cap on the length makes it fit, too.
    if first.checked_add(len as u32).is_none() {
        return Err(reader.error("samples after the end of any column"));
    }
    Ok(RecordTimes::Shared { column, first })
}

/// The lengths of the chunks and the chunks themselves, after a check that they are all there.
fn read_directory(rest: &[u8], chunks: usize) -> Result<(&[u8], &[u8]), DecodeError> {
    let mut reader = Reader::new(RECORD, rest);
    if chunks > reader.remaining() {
        return Err(reader.error("more chunks than bytes"));
    }
    let mut total = 0u64;
    for _ in 1..chunks {
        total = total.saturating_add(reader.varint()?);
    }
    let is_whole = match chunks {
        0 => reader.is_empty(),
        _ => total < reader.remaining() as u64,
    };
    if !is_whole {
        return Err(reader.error("chunks do not match the directory"));
    }
    Ok(rest.split_at(reader.position()))
}
