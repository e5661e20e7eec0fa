//! Compressed answers, for clients that say they understand them.
//!
//! ```text
//! answer ─┬─ small, or of a form that does not shrink ───► as it is
//!         ├─ of some kilobytes ─► compressed at once ────► with its length
//!         └─ larger, or streamed ─► piece by piece on blocking threads ─► streamed
//! ```
//!
//! Holds always: no async worker compresses more than [`AT_ONCE_BYTES_MAX`].

use std::io::{self, Write as _};

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use flate2::write::GzEncoder;
use futures::stream;
use http_body_util::BodyExt as _;
use icecore_wire::prometheus::query_columns::COLUMNS_TYPE;

/// Shorter answers fit into one packet anyway.
const PLAIN_BYTES_MAX: u64 = 1 << 10;

/// What is compressed where it comes up: less than a millisecond of work.
const AT_ONCE_BYTES_MAX: u64 = 16 << 10;

/// Numbers as text shrink by about ten times at once; higher levels win little for much more time.
const ZSTD_LEVEL: i32 = 1;
const GZIP_LEVEL: flate2::Compression = flate2::Compression::fast();

/// A form of compression that a client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Gzip,
    Zstd,
}

impl Encoding {
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// The best form that a client understands; `None` for none.
pub(crate) fn wanted(request: &Request) -> Option<Encoding> {
    // The answer to HEAD has no body, and a length that must not be lost.
    if request.method() == Method::HEAD {
        return None;
    }
    preferred(request.headers())
}

/// Whether a client takes what was compressed before it asked.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    accepted(headers).any(|(encoding, _)| encoding == Encoding::Gzip)
}

fn preferred(headers: &HeaderMap) -> Option<Encoding> {
    let mut best: Option<(Encoding, f32)> = None;
    for (encoding, weight) in accepted(headers) {
        // Of two that are welcome alike, zstd is smaller and faster.
        let better = best.is_none_or(|(other, other_weight)| {
            weight > other_weight || (weight == other_weight && other == Encoding::Gzip)
        });
        if better {
            best = Some((encoding, weight));
        }
    }
    best.map(|(encoding, _)| encoding)
}

/// The forms that a client understands, each with how welcome it is.
fn accepted(headers: &HeaderMap) -> impl Iterator<Item = (Encoding, f32)> {
    let given = headers.get_all(header::ACCEPT_ENCODING).iter();
    given
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|choice| {
            let (name, weight) = match choice.split_once(';') {
                Some((name, parameter)) => (name, weight_of(parameter)),
                None => (choice, 1.0),
            };
            let encoding = match name.trim().to_ascii_lowercase().as_str() {
                "zstd" => Encoding::Zstd,
                "gzip" | "x-gzip" | "*" => Encoding::Gzip,
                _ => return None,
            };
            (weight > 0.0).then_some((encoding, weight))
        })
}

/// The weight in `q=0.5`; what cannot be read is taken for a full one.
fn weight_of(parameter: &str) -> f32 {
    let weight = parameter.trim().strip_prefix("q=");
    weight.and_then(|text| text.parse().ok()).unwrap_or(1.0)
}

/// The same answer in this form, if it is worth it.
pub(crate) async fn compressed(mut response: Response, encoding: Option<Encoding>) -> Response {
    if !may_shrink(&response) {
        return response;
    }
    let vary = HeaderValue::from_static("Accept-Encoding");
    let headers = response.headers_mut();
    if !headers.get_all(header::VARY).iter().any(|it| *it == vary) {
        headers.append(header::VARY, vary);
    }
    let Some(encoding) = encoding else {
        return response;
    };
    let headers = response.headers_mut();
    let name = HeaderValue::from_static(encoding.name());
    headers.insert(header::CONTENT_ENCODING, name);
    headers.remove(header::CONTENT_LENGTH);
    let (head, body) = response.into_parts();
    let length = body.size_hint().exact();
    let body = if length.is_some_and(|length| length <= AT_ONCE_BYTES_MAX) {
        at_once(body, encoding).await
    } else {
        Body::from_stream(stream::try_unfold(
            Some(CompressingBody {
                body,
                encoder: Encoder::new(encoding),
            }),
            next_piece,
        ))
    };
    Response::from_parts(head, body)
}

/// Compresses a short body whole, so that the answer has a length.
async fn at_once(body: Body, encoding: Encoding) -> Body {
    let compress = |plain: Bytes| {
        let mut encoder = Encoder::new(encoding)?;
        encoder.add(&plain)?;
        encoder.finish()
    };
    match body.collect().await {
        Ok(whole) => match compress(whole.to_bytes()) {
            Ok(compressed) => Body::from(compressed),
            Err(error) => broken(error),
        },
        Err(error) => broken(io::Error::other(error)),
    }
}

/// A body that aborts the connection. Compression in memory does not fail.
fn broken(error: io::Error) -> Body {
    Body::from_stream(stream::iter([Err::<Bytes, _>(error)]))
}

/// A body on its way through an encoder.
struct CompressingBody {
    body: Body,
    encoder: io::Result<Encoder>,
}

/// The next compressed piece; the state is `None` after the last one.
async fn next_piece(
    state: Option<CompressingBody>,
) -> io::Result<Option<(Bytes, Option<CompressingBody>)>> {
    let Some(CompressingBody { mut body, encoder }) = state else {
        return Ok(None);
    };
    let mut encoder = encoder?;
    loop {
        let data = match body.frame().await {
            None => {
                let last = tokio::task::spawn_blocking(|| encoder.finish()).await??;
                return Ok(Some((last.into(), None)));
            }
            Some(frame) => frame.map_err(io::Error::other)?.into_data(),
        };
        // Trailers have no place in an answer of ours.
        let Ok(data) = data else { continue };
        let add = move |mut encoder: Encoder| {
            encoder.add(&data)?;
            io::Result::Ok((encoder.take(), encoder))
        };
        let compressed;
        (compressed, encoder) = tokio::task::spawn_blocking(move || add(encoder)).await??;
        if !compressed.is_empty() {
            let encoder = Ok(encoder);
            let rest = Some(CompressingBody { body, encoder });
            return Ok(Some((compressed.into(), rest)));
        }
    }
}

/// An encoder that writes into memory.
enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    fn new(encoding: Encoding) -> io::Result<Self> {
        Ok(match encoding {
            Encoding::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), GZIP_LEVEL)),
            Encoding::Zstd => {
                Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?)
            }
        })
    }

    fn add(&mut self, plain: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(plain),
            Self::Zstd(encoder) => encoder.write_all(plain),
        }
    }

    /// What is ready to be sent.
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        })
    }

    /// The rest.
    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// Whether compression is worth it.
fn may_shrink(response: &Response) -> bool {
    let headers = response.headers();
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|v| v.to_str().ok()).unwrap_or("");
    let shrinks = [
        "application/json",
        "application/x-ndjson",
        "text/",
        COLUMNS_TYPE,
    ];
    let shrinks = shrinks
        .iter()
        .any(|prefix| content_type.starts_with(prefix));
    // Compression would hold back events until there are enough of them.
    let shrinks = shrinks && !content_type.starts_with("text/event-stream");
    let length = response.body().size_hint().exact();
    shrinks
        && response.status() != StatusCode::NO_CONTENT
        && !headers.contains_key(header::CONTENT_ENCODING)
        && length.is_none_or(|length| length > PLAIN_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::response::IntoResponse as _;

    use super::*;

    fn preferred_of(accepted: &'static str) -> Option<Encoding> {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_static(accepted);
        headers.insert(header::ACCEPT_ENCODING, value);
        preferred(&headers)
    }

    #[test]
    fn the_client_chooses() {
        for (accepted, encoding) in [
            ("", None),
            ("identity", None),
            ("br, deflate", None),
            ("gzip", Some(Encoding::Gzip)),
            ("GZIP;q=0.5", Some(Encoding::Gzip)),
            ("*", Some(Encoding::Gzip)),
            ("gzip, deflate, br, zstd", Some(Encoding::Zstd)),
            ("zstd, gzip", Some(Encoding::Zstd)),
            ("zstd;q=0.2, gzip;q=0.8", Some(Encoding::Gzip)),
            ("zstd;q=0, gzip", Some(Encoding::Gzip)),
            ("gzip;q=0", None),
            ("gzip;q=zero", Some(Encoding::Gzip)),
        ] {
            assert_eq!(preferred_of(accepted), encoding, "{accepted}");
        }
        assert_eq!(preferred(&HeaderMap::new()), None);
    }

    #[test]
    fn gzip_need_not_be_the_best_choice() {
        for (accepted, accepts) in [
            ("gzip, deflate, br, zstd", true),
            ("zstd, gzip;q=0.1", true),
            ("*", true),
            ("zstd", false),
            ("zstd, gzip;q=0", false),
            ("identity", false),
        ] {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_static(accepted);
            headers.insert(header::ACCEPT_ENCODING, value);
            assert_eq!(accepts_gzip(&headers), accepts, "{accepted}");
        }
    }

    fn json(body: impl Into<Body>) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
    }

    async fn plain(response: Response) -> Vec<u8> {
        let encoding = response.headers().get(header::CONTENT_ENCODING).cloned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let mut plain = Vec::new();
        match encoding.as_ref().map(|value| value.to_str().unwrap()) {
            None => plain.extend_from_slice(&body),
            Some("gzip") => {
                let mut decoder = flate2::read::GzDecoder::new(&body[..]);
                decoder.read_to_end(&mut plain).unwrap();
            }
            Some("zstd") => plain = zstd::decode_all(&body[..]).unwrap(),
            Some(other) => panic!("{other}"),
        }
        plain
    }

    #[tokio::test]
    async fn every_size_reads_back() {
        for encoding in [Encoding::Gzip, Encoding::Zstd] {
            for length in [0, 1024, 1025, 16 << 10, (16 << 10) + 1, 1 << 20] {
                let text: Vec<u8> = (0..length).map(|i| b"0123456789,"[i % 11]).collect();
                let response = compressed(json(text.clone()), Some(encoding)).await;
                let shrinks = length > 1024;
                let headers = response.headers();
                assert_eq!(headers.contains_key(header::CONTENT_ENCODING), shrinks);
                assert_eq!(headers.contains_key(header::VARY), shrinks);
                let has_length = response.body().size_hint().exact().is_some();
                assert_eq!(has_length, length <= 16 << 10);
                assert_eq!(plain(response).await, text);
            }
        }
    }

    #[tokio::test]
    async fn streams_read_back_and_break_off() {
        let piece = |n: u8| Ok::<_, io::Error>(Bytes::from(vec![n; 50_000]));
        let streamed = json(Body::from_stream(stream::iter((0..9).map(piece))));
        let response = compressed(streamed, Some(Encoding::Zstd)).await;
        assert_eq!(plain(response).await.len(), 450_000);
        let broken = [piece(0), Err(io::Error::other("broke off"))];
        let streamed = json(Body::from_stream(stream::iter(broken)));
        let response = compressed(streamed, Some(Encoding::Gzip)).await;
        assert!(response.into_body().collect().await.is_err());
    }

    #[tokio::test]
    async fn some_answers_stay_as_they_are() {
        let text = vec![b'x'; 5000];
        let unwanted = compressed(json(text.clone()), None).await;
        assert!(!unwanted.headers().contains_key(header::CONTENT_ENCODING));
        assert_eq!(unwanted.headers()[header::VARY], "Accept-Encoding");
        let protobuf = [(header::CONTENT_TYPE, "application/x-protobuf")];
        let binary = (protobuf, text.clone()).into_response();
        let binary = compressed(binary, Some(Encoding::Gzip)).await;
        assert!(!binary.headers().contains_key(header::CONTENT_ENCODING));
        let mut encoded = json(text.clone());
        let snappy = HeaderValue::from_static("snappy");
        encoded
            .headers_mut()
            .insert(header::CONTENT_ENCODING, snappy);
        let encoded = compressed(encoded, Some(Encoding::Gzip)).await;
        assert_eq!(encoded.headers()[header::CONTENT_ENCODING], "snappy");
        assert_eq!(
            encoded.into_body().collect().await.unwrap().to_bytes(),
            text
        );
    }
}
