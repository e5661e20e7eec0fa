//! Compressed request bodies: gzip and zstd, never larger than allowed.
//!
//! Holds always:
//! - No more than the allowed bytes are produced, and of those none before the caller has agreed to
//!   the memory, so that a bomb costs what an honest request of that size costs.
//! - A body does not expand to more than [`RATIO_MAX`] times what was sent, so that work is in
//!   proportion to what a client sends. Imports, which are exports of others, have a limit of their
//!   own.
//! - A body is compressed once or not at all: a second layer multiplies what a bomb can do, and no
//!   client sends one.
//!
//! This is CPU work: callers run it off the async workers. Snappy is `icecore_wire`'s.

use std::fmt;
use std::io::{self, Read as _};

use axum::http::{HeaderMap, header};
use flate2::read::MultiGzDecoder;
use thiserror::Error;

use crate::middleware::error::ApiError;

/// Bytes that are agreed to and produced at a time.
const STEP_BYTES: usize = 256 << 10;

/// The window of a zstd body: 8 MiB, which is what RFC 9659 allows for HTTP. A frame can ask for
/// far more, and the decoder would take it.
pub(crate) const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Bytes that any body may expand to.
const EXPANDED_FREE: u64 = 32 << 20;

/// Most bytes that a byte of a compressed body may expand to, beyond those that are free. What
/// agents send comes to 10 to 60. Of gzip, 1 032 are possible, of zstd 32 000.
const RATIO_MAX: u64 = 256;

/// Fails if so many bytes of a compressed body expanded to too many.
pub(crate) fn check_ratio(sent: u64, expanded: u64, ratio_max: u64) -> Result<(), RatioExceeded> {
    if expanded <= EXPANDED_FREE.saturating_add(sent.saturating_mul(ratio_max)) {
        return Ok(());
    }
    Err(RatioExceeded {
        sent,
        expanded,
        ratio_max,
    })
}

/// A body expands to far more than bodies do.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "{sent} bytes of the body expand to more than {expanded}; a compressed body may expand \
     {ratio_max}-fold: send it in parts, or without compression"
)]
pub(crate) struct RatioExceeded {
    sent: u64,
    expanded: u64,
    ratio_max: u64,
}

/// How a request body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

/// An unsupported `Content-Encoding`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EncodingError {
    Unknown(String),
    Several,
}

impl Encoding {
    /// What `Content-Encoding` says; without one the body is as it is.
    pub(crate) fn from_header(headers: &HeaderMap) -> Result<Self, EncodingError> {
        let mut found = Self::Identity;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let text = value
                .to_str()
                .map_err(|_| EncodingError::Unknown("not ASCII".into()))?;
            for name in text.split(',') {
                let encoding = Self::from_name(name.trim())?;
                if encoding == Self::Identity {
                    continue;
                }
                if found != Self::Identity {
                    return Err(EncodingError::Several);
                }
                found = encoding;
            }
        }
        Ok(found)
    }

    /// One name of an encoding.
    pub(crate) fn from_name(name: &str) -> Result<Self, EncodingError> {
        const NAME_CHARS_SHOWN: usize = 40;
        match name.to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Self::Identity),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            "zstd" => Ok(Self::Zstd),
            _ => {
                let shown = name.chars().take(NAME_CHARS_SHOWN).collect();
                Err(EncodingError::Unknown(shown))
            }
        }
    }
}

impl fmt::Display for EncodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(
                f,
                "unsupported content encoding {name:?}: gzip, zstd and identity are taken"
            ),
            Self::Several => f.write_str("a body that is compressed more than once is not taken"),
        }
    }
}

/// Why there is no decompressed body.
#[derive(Debug)]
pub(crate) enum DecompressError {
    /// It would be longer than this many bytes.
    TooLarge(usize),
    /// The body expands to far more than bodies do.
    Ratio(RatioExceeded),
    /// It is not in the form that it claims.
    Broken(String),
    /// The caller did not agree to more memory.
    Refused(ApiError),
}

impl fmt::Display for DecompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(max) => write!(f, "the decompressed body is longer than {max} bytes"),
            Self::Ratio(error) => error.fmt(f),
            Self::Broken(reason) => write!(f, "the body cannot be decompressed: {reason}"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

/// Replaces what is in `into` by the decompressed body, which has at most `max` bytes. `reserve` is
/// told how many more bytes will be taken, before they are, and may refuse.
pub(crate) fn decompress_reserving(
    encoding: Encoding,
    body: &[u8],
    max: usize,
    into: &mut Vec<u8>,
    reserve: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<(), DecompressError> {
    into.clear();
    let sent = match encoding {
        Encoding::Identity => u64::MAX,
        Encoding::Gzip | Encoding::Zstd => u64::try_from(body.len()).unwrap_or(u64::MAX),
    };
    let max = Expansion { sent, max };
    match encoding {
        Encoding::Identity => read_bounded(body, max, into, reserve),
        Encoding::Gzip => read_bounded(MultiGzDecoder::new(body), max, into, reserve),
        Encoding::Zstd => {
            let mut decoder = zstd::Decoder::with_buffer(body).map_err(broken)?;
            decoder
                .window_log_max(ZSTD_WINDOW_LOG_MAX)
                .map_err(broken)?;
            read_bounded(decoder, max, into, reserve)
        }
    }
}

/// Bytes that were sent, and most bytes that they may become.
#[derive(Clone, Copy)]
struct Expansion {
    sent: u64,
    max: usize,
}

fn read_bounded(
    mut reader: impl io::Read,
    Expansion { sent, max }: Expansion,
    into: &mut Vec<u8>,
    mut reserve: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<(), DecompressError> {
    loop {
        let expanded = u64::try_from(into.len()).unwrap_or(u64::MAX);
        check_ratio(sent, expanded, RATIO_MAX).map_err(DecompressError::Ratio)?;
        let step = STEP_BYTES.min(max - into.len());
        if step == 0 {
            // Full: right if nothing more comes.
            let more = reader.read(&mut [0]).map_err(broken)?;
            return match more {
                0 => Ok(()),
                _ => Err(DecompressError::TooLarge(max)),
            };
        }
        reserve(step).map_err(DecompressError::Refused)?;
        let step = u64::try_from(step).unwrap_or(u64::MAX);
        let read = reader
            .by_ref()
            .take(step)
            .read_to_end(into)
            .map_err(broken)?;
        if u64::try_from(read).is_ok_and(|read| read < step) {
            return Ok(());
        }
    }
}

fn broken(error: io::Error) -> DecompressError {
    DecompressError::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use axum::http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn decompress(
        encoding: Encoding,
        body: &[u8],
        max: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        decompress_reserving(encoding, body, max, into, |_| Ok(()))
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        gzip_at(flate2::Compression::fast(), bytes)
    }

    fn gzip_at(level: flate2::Compression, bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn compressed(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
        match encoding {
            Encoding::Identity => bytes.to_vec(),
            Encoding::Gzip => gzip(bytes),
            Encoding::Zstd => zstd::encode_all(bytes, 1).unwrap(),
        }
    }

    const ALL: [Encoding; 3] = [Encoding::Identity, Encoding::Gzip, Encoding::Zstd];

    #[test]
    fn the_limit_is_exact() {
        let bytes = vec![7; 1000];
        for encoding in ALL {
            let body = compressed(encoding, &bytes);
            let mut into = b"from before".to_vec();
            decompress(encoding, &body, 1000, &mut into).unwrap();
            assert_eq!(into, bytes);
            let error = decompress(encoding, &body, 999, &mut into).unwrap_err();
            assert!(matches!(error, DecompressError::TooLarge(999)), "{error:?}");
        }
    }

    #[test]
    fn a_bomb_takes_no_more_than_the_limit() {
        let zeros = vec![0; 64 << 20];
        for encoding in [Encoding::Gzip, Encoding::Zstd] {
            let bomb = compressed(encoding, &zeros);
            let mut reserved = 0;
            let mut into = Vec::new();
            let outcome = decompress_reserving(encoding, &bomb, 1 << 20, &mut into, |bytes| {
                reserved += bytes;
                Ok(())
            });
            assert!(matches!(outcome, Err(DecompressError::TooLarge(_))));
            assert_eq!(reserved, 1 << 20);
            assert!(into.capacity() <= 4 << 20, "{}", into.capacity());
        }
    }

    #[test]
    fn a_body_that_expands_too_much_is_refused_early() {
        let zeros = vec![0; 64 << 20];
        let gzip_bomb = gzip_at(flate2::Compression::best(), &zeros);
        let zstd_bomb = compressed(Encoding::Zstd, &zeros);
        for (encoding, bomb) in [(Encoding::Gzip, gzip_bomb), (Encoding::Zstd, zstd_bomb)] {
            let mut into = Vec::new();
            let outcome = decompress(encoding, &bomb, usize::MAX, &mut into);
            assert!(
                matches!(outcome, Err(DecompressError::Ratio(_))),
                "{outcome:?}"
            );
            let most = EXPANDED_FREE as usize + RATIO_MAX as usize * bomb.len();
            assert!(into.len() <= most + STEP_BYTES, "{}", into.len());
        }
        // As well as anything real, and anything that is small.
        let line = |i: u64| {
            format!(
                "http_requests_total{{instance=\"host-1\"}} 0 {}\n",
                i * 15_000
            )
        };
        let lines: String = (0..400_000).map(line).collect();
        for text in [lines.into_bytes(), vec![0; 32 << 20]] {
            let body = compressed(Encoding::Gzip, &text);
            let mut into = Vec::new();
            decompress(Encoding::Gzip, &body, usize::MAX, &mut into).unwrap();
            assert_eq!(into.len(), text.len());
        }
        let plain = vec![0; 40 << 20];
        decompress(Encoding::Identity, &plain, usize::MAX, &mut Vec::new()).unwrap();
    }

    #[test]
    fn memory_that_is_refused_is_not_taken() {
        let body = gzip(&vec![0; 1 << 20]);
        let mut into = Vec::new();
        let outcome = decompress_reserving(Encoding::Gzip, &body, 1 << 20, &mut into, |_| {
            Err(ApiError::unavailable("full"))
        });
        assert!(matches!(outcome, Err(DecompressError::Refused(_))));
        assert!(into.is_empty());
    }

    #[test]
    fn a_window_that_asks_for_much_memory_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&vec![1; 1 << 20]).unwrap();
        let body = encoder.finish().unwrap();
        let error = decompress(Encoding::Zstd, &body, 1 << 24, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, DecompressError::Broken(_)), "{error:?}");
    }

    #[test]
    fn several_members_are_one_body() {
        let body = [gzip(b"ab"), gzip(b"cd")].concat();
        let mut into = Vec::new();
        decompress(Encoding::Gzip, &body, 100, &mut into).unwrap();
        assert_eq!(into, b"abcd");
    }

    #[track_caller]
    fn check_header(values: &[&'static str], expected: Result<Encoding, EncodingError>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(value));
        }
        assert_eq!(Encoding::from_header(&headers), expected);
    }

    #[test]
    fn headers_name_one_encoding() {
        check_header(&[], Ok(Encoding::Identity));
        check_header(&["identity"], Ok(Encoding::Identity));
        check_header(&[" GZip "], Ok(Encoding::Gzip));
        check_header(&["identity, zstd"], Ok(Encoding::Zstd));
        check_header(&["gzip, gzip"], Err(EncodingError::Several));
        check_header(&["gzip", "zstd"], Err(EncodingError::Several));
        check_header(&["br"], Err(EncodingError::Unknown("br".into())));
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            for encoding in ALL {
                let mut into = Vec::new();
                decompress(encoding, &compressed(encoding, &bytes), 2000, &mut into).unwrap();
                prop_assert_eq!(&into, &bytes);
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..200_usize) {
            for encoding in ALL {
                let mut whole = compressed(encoding, &bytes);
                whole.truncate(cut);
                let mut into = Vec::new();
                let _ = decompress(encoding, &whole, 100, &mut into);
                let _ = decompress(encoding, &bytes, 100, &mut into);
            }
        }
    }
}
