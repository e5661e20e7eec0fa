//! Remote read: a request in, samples or chunks out.
//!
//! ```text
//! ReadRequest  { Query queries = 1;  ResponseType accepted_response_types = 2; }
//! Query        { int64 start_timestamp_ms = 1, end_timestamp_ms = 2; LabelMatcher matchers = 3;
//!                ReadHints hints = 4; }
//! LabelMatcher { Type type = 1; string name = 2, value = 3; }
//! ReadHints    { int64 step_ms = 1; string func = 2; int64 start_ms = 3, end_ms = 4; … }
//! ```
//!
//! Holds always:
//! - Of the answers that a client accepts, the first that is known is chosen; none said means
//!   samples.
//! - Hints narrow what is read and never widen it: Prometheus asks with them for what one selector
//!   of a query needs.
//!
//! Elsewhere: the two forms of the answer (`samples`, `frames`), chunks (`chunks` and its kinds).

mod bits;
mod chunks;
mod float_chunk;
mod float_histogram_chunk;
mod frames;
mod histogram_chunk;
mod histogram_layout;
mod samples;

pub use chunks::{CHUNK_SAMPLES_MAX, Chunk, ChunkEncoding, encode_chunks};
pub use frames::push_series_frames;
pub use samples::{finish_response, push_query_result, push_time_series};

use icecore_model::{MatchOp, Matcher, MatcherBudget, MatcherError};
use thiserror::Error;

use super::protobuf::{ProtobufError, Reader, bytes_tag, known, varint_tag};

/// The content type of an answer with samples; its encoding is snappy.
pub const SAMPLES_CONTENT_TYPE: &str = "application/x-protobuf";
/// The content type of an answer with chunks.
pub const STREAMED_CONTENT_TYPE: &str =
    "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse";

/// Most queries of one request: Prometheus sends one, other clients a few.
pub const READ_QUERIES_MAX: usize = 64;
/// Most matchers of one request: each may hold a compiled regular expression.
pub const READ_MATCHERS_MAX: usize = 1024;

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    pub queries: Vec<ReadQuery>,
    pub response_type: ResponseType,
}

/// One selection of a request.
#[derive(Clone, Debug)]
pub struct ReadQuery {
    pub matchers: Vec<Matcher>,
    /// Both ends are included; nothing lies between them when the end comes first.
    pub start_ms: i64,
    pub end_ms: i64,
    /// The client wants to know which series there are and not what is in them.
    pub labels_only: bool,
}

/// The form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseType {
    /// One message with all samples, in snappy.
    Samples,
    /// A stream of frames with chunks.
    StreamedChunks,
}

/// Why a request could not be read. All of it is the client's to repair.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReadRequestError {
    #[error("protobuf: {error} (in the field at byte {offset})")]
    Protobuf {
        /// Where the top-level field that could not be read begins in the decompressed body.
        offset: usize,
        #[source]
        error: ProtobufError,
    },
    #[error("the request has more than {READ_QUERIES_MAX} queries: send several requests")]
    TooManyQueries,
    #[error("the request has more than {READ_MATCHERS_MAX} matchers: send several requests")]
    TooManyMatchers,
    #[error("matcher type {0} does not exist")]
    MatcherType(u64),
    #[error("a matcher is not valid UTF-8")]
    NotText,
    #[error("matcher of label {name:?}: {error}")]
    Matcher {
        name: String,
        #[source]
        error: MatcherError,
    },
    #[error(
        "none of the accepted response types {0:?} is supported: \
         0 (SAMPLES) and 1 (STREAMED_XOR_CHUNKS) are"
    )]
    ResponseType(Vec<u64>),
}

type Result<T> = std::result::Result<T, ReadRequestError>;

/// A protobuf error gets its place where the top-level field is known.
impl From<ProtobufError> for ReadRequestError {
    fn from(error: ProtobufError) -> Self {
        Self::Protobuf { offset: 0, error }
    }
}

const REQUEST_QUERIES: u32 = bytes_tag(1);
const REQUEST_TYPES: u32 = varint_tag(2);
const REQUEST_TYPES_PACKED: u32 = bytes_tag(2);

const QUERY_START: u32 = varint_tag(1);
const QUERY_END: u32 = varint_tag(2);
const QUERY_MATCHERS: u32 = bytes_tag(3);
const QUERY_HINTS: u32 = bytes_tag(4);

const MATCHER_TYPE: u32 = varint_tag(1);
const MATCHER_NAME: u32 = bytes_tag(2);
const MATCHER_VALUE: u32 = bytes_tag(3);

const HINTS_FUNC: u32 = bytes_tag(2);
const HINTS_START: u32 = varint_tag(3);
const HINTS_END: u32 = varint_tag(4);

/// The function that Prometheus names when it wants series without samples.
const FUNC_SERIES: &[u8] = b"series";

/// Response types that an error repeats.
const TYPES_KEPT: usize = 16;

/// Decodes a decompressed request.
pub fn decode_read_request(body: &[u8]) -> Result<ReadRequest> {
    let mut queries = Vec::new();
    let mut accepted = Vec::new();
    let mut matchers_left = READ_MATCHERS_MAX;
    let mut budget = MatcherBudget::default();
    let mut request = Reader::new(body);
    while !request.is_empty() {
        let offset = body.len() - request.len();
        let field = request_field(
            &mut request,
            &mut queries,
            &mut accepted,
            &mut matchers_left,
            &mut budget,
        );
        field.map_err(|error| match error {
            ReadRequestError::Protobuf { error, .. } => {
                ReadRequestError::Protobuf { offset, error }
            }
            other => other,
        })?;
    }
    Ok(ReadRequest {
        queries,
        response_type: choose_response_type(&accepted)?,
    })
}

fn request_field(
    request: &mut Reader<'_>,
    queries: &mut Vec<ReadQuery>,
    accepted: &mut Vec<u64>,
    matchers_left: &mut usize,
    budget: &mut MatcherBudget,
) -> Result<()> {
    let mut accept = |response_type| {
        if accepted.len() < TYPES_KEPT {
            accepted.push(response_type);
        }
    };
    match request.tag()? {
        REQUEST_QUERIES => {
            if queries.len() == READ_QUERIES_MAX {
                return Err(ReadRequestError::TooManyQueries);
            }
            queries.push(decode_query(request.bytes()?, matchers_left, budget)?);
        }
        REQUEST_TYPES => accept(request.varint()?),
        REQUEST_TYPES_PACKED => {
            let mut packed = Reader::new(request.bytes()?);
            while !packed.is_empty() {
                accept(packed.varint()?);
            }
        }
        other => request.skip_unknown(other, known(&[1, 2]))?,
    }
    Ok(())
}

fn choose_response_type(accepted: &[u64]) -> Result<ResponseType> {
    if accepted.is_empty() {
        return Ok(ResponseType::Samples);
    }
    let supported = accepted.iter().find_map(|number| match number {
        0 => Some(ResponseType::Samples),
        1 => Some(ResponseType::StreamedChunks),
        _ => None,
    });
    supported.ok_or_else(|| ReadRequestError::ResponseType(accepted.to_vec()))
}

fn decode_query(
    message: &[u8],
    matchers_left: &mut usize,
    budget: &mut MatcherBudget,
) -> Result<ReadQuery> {
    let mut query = ReadQuery {
        matchers: Vec::new(),
        start_ms: 0,
        end_ms: 0,
        labels_only: false,
    };
    let mut hints = None;
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            QUERY_START => query.start_ms = reader.varint()? as i64,
            QUERY_END => query.end_ms = reader.varint()? as i64,
            QUERY_MATCHERS => {
                *matchers_left = matchers_left
                    .checked_sub(1)
                    .ok_or(ReadRequestError::TooManyMatchers)?;
                query
                    .matchers
                    .push(decode_matcher(reader.bytes()?, budget)?);
            }
            QUERY_HINTS => hints = Some(decode_hints(reader.bytes()?)?),
            other => reader.skip_unknown(other, known(&[1, 2, 3, 4]))?,
        }
    }
    if let Some(hints) = hints {
        query.labels_only = hints.labels_only;
        // Clients that know no range send zeros.
        if hints.end_ms != 0 && hints.start_ms <= hints.end_ms {
            query.start_ms = query.start_ms.max(hints.start_ms);
            query.end_ms = query.end_ms.min(hints.end_ms);
        }
    }
    Ok(query)
}

fn decode_matcher(message: &[u8], budget: &mut MatcherBudget) -> Result<Matcher> {
    let mut number = 0;
    let (mut name, mut value) = (&[][..], &[][..]);
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            MATCHER_TYPE => number = reader.varint()?,
            MATCHER_NAME => name = reader.bytes()?,
            MATCHER_VALUE => value = reader.bytes()?,
            other => reader.skip_unknown(other, known(&[1, 2, 3]))?,
        }
    }
    let op = match number {
        0 => MatchOp::Equal,
        1 => MatchOp::NotEqual,
        2 => MatchOp::Regex,
        3 => MatchOp::NotRegex,
        other => return Err(ReadRequestError::MatcherType(other)),
    };
    let text = |bytes| str::from_utf8(bytes).map_err(|_| ReadRequestError::NotText);
    let (name, value) = (text(name)?, text(value)?);
    let matcher = budget.matcher(op, name, value);
    matcher.map_err(|error| ReadRequestError::Matcher {
        name: name.into(),
        error,
    })
}

struct Hints {
    labels_only: bool,
    start_ms: i64,
    end_ms: i64,
}

/// Step, range and grouping are not used: all samples of the range are sent, as Prometheus does.
fn decode_hints(message: &[u8]) -> Result<Hints> {
    let mut hints = Hints {
        labels_only: false,
        start_ms: 0,
        end_ms: 0,
    };
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            HINTS_FUNC => hints.labels_only = reader.bytes()? == FUNC_SERIES,
            HINTS_START => hints.start_ms = reader.varint()? as i64,
            HINTS_END => hints.end_ms = reader.varint()? as i64,
            other => reader.skip_unknown(other, known(&[2, 3, 4]))?,
        }
    }
    Ok(hints)
}

#[cfg(test)]
mod tests;
