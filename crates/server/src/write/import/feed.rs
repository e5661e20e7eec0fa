//! The body of an import, as something that a thread can read from.
//!
//! ```text
//! socket ─► pieces, a few ahead ─► decompressed as far as asked for ─► the reading thread
//! ```
//!
//! Holds always:
//! - A body that expands enormously costs no more memory than the piece that is asked for, and it
//!   ends as soon as it has become more than a compressed body may ([`TooMuchWork`]).
//! - What stops arriving ends as a body that broke off, never as a body that ended.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::{Buf as _, Bytes};
use flate2::read::MultiGzDecoder;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::middleware::body::Pace;
use crate::middleware::decompress::{Encoding, RatioExceeded, ZSTD_WINDOW_LOG_MAX, check_ratio};
use crate::middleware::error::ApiError;

/// BodyChunks that are read ahead, each as large as a socket delivers them.
const PIECES_AHEAD: usize = 4;

/// What is asked for at a time.
const READ_BYTES: usize = 128 << 10;

/// Most bytes that a byte of a compressed import may expand to, beyond those that are free. JSON
/// lines of series with the same timestamps and constant values come to 2 300 as zstd, with 140
/// samples in each byte; nothing of gzip comes to more than 1 032. A sample of text has four bytes
/// or more, so this bounds samples, too.
const RATIO_MAX: u64 = 4096;

/// Time that reading a compressed body may take, without the time that it waits for the client or
/// the store, and the bytes that must have arrived for each second beyond that: what keeps work in
/// proportion to what a client sends.
const WORK_TIME_FREE: Duration = Duration::from_secs(30);
const WORK_BYTES_PER_SECOND: u64 = 64 << 10;

/// A compressed body is more work than what was sent justifies.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum TooMuchWork {
    #[error(transparent)]
    Ratio(#[from] RatioExceeded),
    #[error(
        "reading {sent} compressed bytes has taken {seconds} s of work: send it in parts, or \
         without compression"
    )]
    Time { sent: u64, seconds: u64 },
}

/// The cost of a body so far: bytes and time.
#[derive(Debug, Default)]
pub(super) struct Meter {
    sent: AtomicU64,
    waited_ns: AtomicU64,
}

impl Meter {
    /// Runs something that waits for others.
    pub(super) fn waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let waited = wait();
        let waited_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waited_ns.fetch_add(waited_ns, Relaxed);
        waited
    }

    /// Fails if what was sent does not justify `expanded` bytes and the time.
    fn check(&self, expanded: u64, elapsed: Duration) -> Result<(), TooMuchWork> {
        let sent = self.sent.load(Relaxed);
        check_ratio(sent, expanded, RATIO_MAX)?;
        let worked = elapsed.saturating_sub(Duration::from_nanos(self.waited_ns.load(Relaxed)));
        let allowed = WORK_TIME_FREE + Duration::from_secs(sent / WORK_BYTES_PER_SECOND);
        if worked > allowed {
            let seconds = worked.as_secs();
            return Err(TooMuchWork::Time { sent, seconds });
        }
        Ok(())
    }
}

/// A piece, or why there is none.
type BodyChunk = Result<Bytes, String>;

pub(super) fn pieces() -> (mpsc::Sender<BodyChunk>, BodyChunks) {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    let pieces = BodyChunks {
        receiver,
        current: Bytes::new(),
        meter: Arc::default(),
    };
    (sender, pieces)
}

/// Passes the body on until it ends, fails, or the receiver is gone. `is_wanted` says if another
/// import wanted a place within the given time: then a slow client has to give up its own.
pub(super) async fn pump(
    body: &mut Body,
    pieces: mpsc::Sender<BodyChunk>,
    is_wanted: impl Fn(Duration) -> bool,
) -> Result<(), ApiError> {
    let mut pace = Pace::default();
    loop {
        match pace.next_of_import(body, &is_wanted).await {
            Ok(None) => return Ok(()),
            Ok(Some(piece)) => {
                if pieces.send(Ok(piece)).await.is_err() {
                    return Ok(());
                }
            }
            Err(error) => {
                // A receiver that is gone has already failed for a reason of its own.
                let _ = pieces.send(Err(error.to_string())).await;
                return Err(error);
            }
        }
    }
}

/// The reading end.
pub(super) struct BodyChunks {
    receiver: mpsc::Receiver<BodyChunk>,
    current: Bytes,
    meter: Arc<Meter>,
}

impl BodyChunks {
    /// Returns the meter of this body.
    pub(super) fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// The plain bytes.
    pub(super) fn decompressed(self, encoding: Encoding) -> io::Result<Box<dyn Read + Send>> {
        let meter = self.meter();
        let decoder: Box<dyn Read + Send> = match encoding {
            Encoding::Identity => return Ok(Box::new(self)),
            Encoding::Gzip => Box::new(MultiGzDecoder::new(self)),
            Encoding::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(self)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        };
        Ok(Box::new(Expanding {
            decoder,
            meter,
            expanded: 0,
            began: Instant::now(),
        }))
    }
}

/// A compressed body that ends when it becomes too much work.
struct Expanding {
    decoder: Box<dyn Read + Send>,
    meter: Arc<Meter>,
    expanded: u64,
    began: Instant,
}

impl Read for Expanding {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer)?;
        self.expanded += u64::try_from(read).unwrap_or(u64::MAX);
        let checked = self.meter.check(self.expanded, self.began.elapsed());
        checked.map_err(io::Error::other)?;
        Ok(read)
    }
}

impl Read for BodyChunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            let receiver = &mut self.receiver;
            match self.meter.waiting(|| receiver.blocking_recv()) {
                None => return Ok(0),
                Some(Ok(piece)) => {
                    let bytes = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                    self.meter.sent.fetch_add(bytes, Relaxed);
                    self.current = piece;
                }
                Some(Err(reason)) => return Err(io::Error::other(reason)),
            }
        }
        let length = buffer.len().min(self.current.len());
        let (to, _) = buffer.split_at_mut(length);
        self.current.copy_to_slice(to);
        Ok(length)
    }
}

/// What was read and not yet used.
pub(super) struct Buffer {
    source: Box<dyn Read + Send>,
    bytes: Vec<u8>,
    used: usize,
    at_end: bool,
    /// Why there is no more, until what came before has been looked at.
    broken: Option<io::Error>,
}

impl Buffer {
    pub(super) fn new(source: Box<dyn Read + Send>) -> Self {
        Self {
            source,
            bytes: Vec::new(),
            used: 0,
            at_end: false,
            broken: None,
        }
    }

    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.used..).unwrap_or_default()
    }

    /// Whether nothing follows what is here.
    pub(super) fn at_end(&self) -> bool {
        self.at_end
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.used = (self.used + bytes).min(self.bytes.len());
    }

    /// Reads until there are this many bytes, and some more if they are there at once. A source
    /// that breaks is an error of the next call, so that what it delivered before is not lost.
    pub(super) fn fill(&mut self, at_least: usize) -> io::Result<()> {
        self.bytes.drain(..self.used);
        self.used = 0;
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        while !self.at_end && self.bytes.len() < at_least.max(READ_BYTES / 2) {
            let begin = self.bytes.len();
            self.bytes.resize(begin + READ_BYTES, 0);
            let read = self
                .source
                .read(self.bytes.get_mut(begin..).unwrap_or_default());
            let read = match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                Ok(0) => {
                    self.at_end = true;
                    Ok(0)
                }
                other => other,
            };
            self.bytes.truncate(begin + read.as_ref().unwrap_or(&0));
            if let Err(error) = read {
                self.broken = Some(error);
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// The bytes that a compressed body becomes, or why it ends.
    fn expanded(encoding: Encoding, body: Vec<u8>) -> Result<usize, TooMuchWork> {
        let (sender, pieces) = pieces();
        let sending = std::thread::spawn(move || {
            for piece in body.chunks(10_000) {
                if sender
                    .blocking_send(Ok(Bytes::copy_from_slice(piece)))
                    .is_err()
                {
                    return;
                }
            }
        });
        let mut source = pieces.decompressed(encoding).unwrap();
        let mut total = 0;
        let mut buffer = vec![0; READ_BYTES];
        let outcome = loop {
            match source.read(&mut buffer) {
                Ok(0) => break Ok(total),
                Ok(read) => total += read,
                Err(error) => {
                    let cause = error.get_ref().and_then(|error| error.downcast_ref());
                    break Err(*cause.expect("no other error"));
                }
            }
        };
        drop(source);
        sending.join().unwrap();
        outcome
    }

    #[test]
    fn a_bomb_ends_and_a_body_does_not() {
        let gzip = |bytes: &[u8]| {
            let level = flate2::Compression::best();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let zeros = vec![0; 64 << 20];
        let bomb = zstd::encode_all(&*zeros, 1).unwrap();
        let outcome = expanded(Encoding::Zstd, bomb);
        assert!(matches!(outcome, Err(TooMuchWork::Ratio(_))), "{outcome:?}");
        // Nothing of gzip expands to so much: time is its limit.
        assert_eq!(expanded(Encoding::Gzip, gzip(&zeros)), Ok(zeros.len()));
        let line = |i: usize| format!("metric{{host=\"a\"}} {i} {}\n", 15_000 * i);
        let lines: String = (0..600_000).map(line).collect();
        let body = gzip(lines.as_bytes());
        assert_eq!(expanded(Encoding::Gzip, body), Ok(lines.len()));
    }

    /// As VictoriaMetrics exports what kube-state-metrics says.
    #[test]
    fn an_export_of_constant_series_with_the_same_timestamps_is_read() {
        let joined = |texts: Vec<String>| texts.join(",");
        let timestamps = (0..5760_u64).map(|i| (1_700_000_000_000 + 15_000 * i).to_string());
        let timestamps = joined(timestamps.collect());
        let values = joined(vec!["1".to_owned(); 5760]);
        let line = |i: u32| {
            let pod = format!("app-{:05}-x{i:03}", i * 7919 % 100_000);
            format!(
                "{{\"metric\":{{\"__name__\":\"kube_pod_status_ready\",\"pod\":\"{pod}\"}},\
                 \"values\":[{values}],\"timestamps\":[{timestamps}]}}\n"
            )
        };
        let lines: String = (0..450).map(line).collect();
        let body = zstd::encode_all(lines.as_bytes(), 3).unwrap();
        assert!(lines.len() > 1032 * body.len(), "{}", body.len());
        assert_eq!(expanded(Encoding::Zstd, body), Ok(lines.len()));
    }

    #[test]
    fn time_is_in_proportion_to_what_was_sent() {
        let meter = Meter::default();
        meter.sent.store(1 << 20, Relaxed);
        let second = Duration::from_secs(1);
        assert_eq!(meter.check(0, 46 * second), Ok(()));
        let late = meter.check(0, 48 * second);
        assert!(
            matches!(late, Err(TooMuchWork::Time { seconds: 48, .. })),
            "{late:?}"
        );
        meter.waiting(|| std::thread::sleep(Duration::from_millis(50)));
        assert_eq!(
            meter.check(0, 46 * second + Duration::from_millis(40)),
            Ok(())
        );
        let message = late.unwrap_err().to_string();
        assert!(message.contains("without compression"), "{message}");
    }
}
