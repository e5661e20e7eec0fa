//! Reading request bodies: never more than allowed, never for longer than a client deserves.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use crate::middleware::error::ApiError;

/// How long a client may pause in the middle of a body. The request as a whole has
/// `server.request_timeout`.
const BODY_PAUSE_MAX: Duration = Duration::from_secs(15);

/// In each such stretch of waiting for a body that is held in memory, at least so much of it must
/// arrive: half a kilobyte per second, which any line does. A client that sends most of its body
/// and then a byte now and then would keep the memory of others. Longer than a pause, so that one
/// alone is none.
const SLOWEST_STRETCH: Duration = Duration::from_secs(20);
const SLOWEST_BYTES: usize = 10 << 10;

/// In each such stretch, so much of an import must arrive if another one wanted its place: 64 KiB
/// per second, which a slow uplink does. Otherwise it may take as long as it likes.
const SLOWEST_BYTES_WANTED: usize = (64 << 10) * 20;

/// For so long an import counts as wanting a place that it did not find: longer than a stretch with
/// a pause at its end.
const WANTED_FOR: Duration = Duration::from_secs(40);

/// What is reserved ahead for a body that says it is long; the rest grows as it arrives, so that a
/// claim alone takes no memory.
const CAPACITY_AHEAD_MAX: usize = 1 << 20;

/// How much and for how long is read of a body that is not wanted.
const THROWN_AWAY_BYTES_MAX: usize = 256 << 20;
const THROWN_AWAY_TIME_MAX: Duration = Duration::from_secs(5);

/// Reads a whole body. `setting` is what the limit is called; `arrived` is told of every piece
/// before it is kept and may refuse it.
pub(crate) async fn collect(
    body: &mut Body,
    bytes_max: usize,
    setting: &str,
    mut arrived: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<Bytes, ApiError> {
    let too_large = || {
        ApiError::too_large(format!(
            "the body is longer than {setting} = {bytes_max} bytes"
        ))
    };
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > bytes_max {
        return Err(too_large());
    }
    let mut pace = Pace::default();
    let slowest = || SLOWEST_BYTES;
    let Some(first) = pace.next_piece(body, slowest).await? else {
        return Ok(Bytes::new());
    };
    if first.len() > bytes_max {
        return Err(too_large());
    }
    arrived(first.len())?;
    let Some(second) = pace.next_piece(body, slowest).await? else {
        // The usual case of small requests: one piece, no copy.
        return Ok(first);
    };
    let mut whole = BytesMut::with_capacity(declared.min(CAPACITY_AHEAD_MAX));
    whole.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(piece) = next {
        if piece.len() > bytes_max - whole.len() {
            return Err(too_large());
        }
        arrived(piece.len())?;
        whole.extend_from_slice(&piece);
        next = pace.next_piece(body, slowest).await?;
    }
    Ok(whole.freeze())
}

/// How fast a body arrives. Only time that was spent waiting for the client counts.
#[derive(Default)]
pub(crate) struct Pace {
    waited: Duration,
    arrived: usize,
}

impl Pace {
    /// Returns the next piece of an import, which has to be faster while others want its place.
    pub(crate) async fn next_of_import(
        &mut self,
        body: &mut Body,
        is_wanted: impl Fn(Duration) -> bool,
    ) -> Result<Option<Bytes>, ApiError> {
        let slowest = || {
            if is_wanted(WANTED_FOR) {
                SLOWEST_BYTES_WANTED
            } else {
                0
            }
        };
        self.next_piece(body, slowest).await
    }

    /// Returns the next piece, or an error where fewer bytes than `slowest` says came in a stretch.
    async fn next_piece(
        &mut self,
        body: &mut Body,
        slowest: impl Fn() -> usize,
    ) -> Result<Option<Bytes>, ApiError> {
        let began = Instant::now();
        let piece = next_piece(body).await?;
        self.waited += began.elapsed();
        self.arrived += piece.as_ref().map_or(0, Bytes::len);
        if self.waited >= SLOWEST_STRETCH {
            if piece.is_some() && self.arrived < slowest() {
                return Err(ApiError::timeout(format!(
                    "the body arrives too slowly: {} bytes in {:?}",
                    self.arrived, self.waited
                )));
            }
            *self = Self::default();
        }
        Ok(piece)
    }
}

/// Reads what is left of the body of a request that is refused, and throws it away. A connection
/// that is closed while its client still sends breaks before the client has read the answer, so
/// that it would send the same again. Whoever asked before sending (`Expect`) has not begun.
pub(crate) async fn read_to_the_end(body: &mut Body, headers: &HeaderMap) {
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let read = async {
        let mut left = THROWN_AWAY_BYTES_MAX;
        while let Ok(Some(piece)) = next_piece(body).await {
            match left.checked_sub(piece.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // In time or not, the answer goes out.
    let _ = tokio::time::timeout(THROWN_AWAY_TIME_MAX, read).await;
}

/// The next piece of data; `None` at the end.
pub(crate) async fn next_piece(body: &mut Body) -> Result<Option<Bytes>, ApiError> {
    loop {
        let frame = tokio::time::timeout(BODY_PAUSE_MAX, body.frame())
            .await
            .map_err(|_| {
                ApiError::timeout(format!(
                    "nothing of the body arrived for {BODY_PAUSE_MAX:?}"
                ))
            })?;
        match frame {
            None => return Ok(None),
            Some(Err(error)) => {
                return Err(ApiError::bad_data(format!("the body broke off: {error}")));
            }
            Some(Ok(frame)) => {
                // Trailers carry nothing that we read.
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};

    use super::*;

    fn body(pieces: &[&'static [u8]]) -> Body {
        let pieces: Vec<_> = pieces.iter().map(|p| Ok::<_, std::io::Error>(*p)).collect();
        Body::from_stream(stream::iter(pieces))
    }

    async fn collected(pieces: &[&'static [u8]], max: usize) -> Result<Vec<u8>, ApiError> {
        let whole = collect(&mut body(pieces), max, "max", |_| Ok(())).await?;
        Ok(whole.to_vec())
    }

    #[tokio::test]
    async fn pieces_are_joined_up_to_the_limit() {
        assert_eq!(collected(&[], 0).await.unwrap(), b"");
        assert_eq!(collected(&[b"abc"], 3).await.unwrap(), b"abc");
        assert_eq!(collected(&[b"ab", b"c", b"d"], 4).await.unwrap(), b"abcd");
        assert!(collected(&[b"abc"], 2).await.is_err());
        assert!(collected(&[b"ab", b"c", b"d"], 3).await.is_err());
    }

    #[tokio::test]
    async fn a_declared_length_is_believed_when_it_is_too_much() {
        let mut asked = false;
        let mut body = Body::from("abcd");
        let whole = collect(&mut body, 3, "max", |_| {
            asked = true;
            Ok(())
        });
        assert!(whole.await.is_err());
        assert!(!asked);
    }

    #[tokio::test]
    async fn every_piece_is_accounted_for_before_it_is_kept() {
        let mut seen = Vec::new();
        let mut pieces = body(&[b"ab", b"cde", b"f"]);
        let whole = collect(&mut pieces, 100, "max", |bytes| {
            seen.push(bytes);
            match seen.len() {
                3 => Err(ApiError::unavailable("full")),
                _ => Ok(()),
            }
        });
        assert!(whole.await.is_err());
        assert_eq!(seen, [2, 3, 1]);
    }

    /// Pieces of so many bytes, each after a pause.
    fn slow(pause: Duration, sizes: &[usize]) -> Body {
        let pieces: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
        let pieces = stream::iter(pieces).then(move |piece| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, std::io::Error>(piece)
        });
        Body::from_stream(pieces)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_is_given_up() {
        let pause = Duration::from_secs(3);
        let enough = SLOWEST_BYTES / 2;
        let mut steady = slow(pause, &[enough; 20]);
        let whole = collect(&mut steady, 1 << 20, "max", |_| Ok(())).await;
        assert_eq!(whole.unwrap().len(), 20 * enough);
        // Nearly all of it at once and then next to nothing.
        let mut sizes = vec![500_000];
        sizes.extend([1; 20]);
        let began = Instant::now();
        let mut trickling = slow(pause, &sizes);
        let refused = collect(&mut trickling, 1 << 20, "max", |_| Ok(())).await;
        let refused = refused.unwrap_err();
        assert!(refused.to_string().contains("too slowly"), "{refused}");
        assert!(began.elapsed() < Duration::from_secs(50));
        // One pause is no reason.
        let mut short = slow(Duration::from_secs(14), &[10]);
        let whole = collect(&mut short, 100, "max", |_| Ok(())).await;
        assert_eq!(whole.unwrap().len(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_import_that_trickles_gives_up_its_place_to_others() {
        let pause = Duration::from_secs(3);
        let read = async |sizes: &[usize], is_wanted: bool| {
            let (mut body, mut pace) = (slow(pause, sizes), Pace::default());
            let mut bytes = 0;
            loop {
                match pace.next_of_import(&mut body, |_| is_wanted).await {
                    Ok(Some(piece)) => bytes += piece.len(),
                    Ok(None) => return Ok(bytes),
                    Err(error) => return Err(error),
                }
            }
        };
        let trickling = [1; 100];
        assert_eq!(read(&trickling, false).await.unwrap(), 100);
        let refused = read(&trickling, true).await.unwrap_err();
        assert!(refused.to_string().contains("too slowly"), "{refused}");
        let steady = [SLOWEST_BYTES_WANTED / 4; 30];
        assert!(read(&steady, true).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_pauses_for_too_long_is_told() {
        let mut stuck = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        assert!(collect(&mut stuck, 10, "max", |_| Ok(())).await.is_err());
    }
}
