//! The body of an import, as something that a thread can read from.
//!
//! ```text
//! socket ─► pieces, a few ahead ─► decompressed as far as asked for ─► the reading thread
//! ```
//!
//! Holds always:
//! - A body that expands enormously costs no more memory than the piece that is asked for.
//! - What stops arriving ends as a body that broke off, never as a body that ended.

use std::io::{self, Read};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf as _, Bytes};
use flate2::read::MultiGzDecoder;
use tokio::sync::mpsc;

use crate::middleware::body::Pace;
use crate::middleware::decompress::{Encoding, ZSTD_WINDOW_LOG_MAX};
use crate::middleware::error::ApiError;

/// BodyChunks that are read ahead, each as large as a socket delivers them.
const PIECES_AHEAD: usize = 4;

/// What is asked for at a time.
const READ_BYTES: usize = 128 << 10;

/// A piece, or why there is none.
type BodyChunk = Result<Bytes, String>;

pub(super) fn pieces() -> (mpsc::Sender<BodyChunk>, BodyChunks) {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    let pieces = BodyChunks {
        receiver,
        current: Bytes::new(),
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
}

impl BodyChunks {
    /// The plain bytes.
    pub(super) fn decompressed(self, encoding: Encoding) -> io::Result<Box<dyn Read + Send>> {
        Ok(match encoding {
            Encoding::Identity => Box::new(self),
            Encoding::Gzip => Box::new(MultiGzDecoder::new(self)),
            Encoding::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(self)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        })
    }
}

impl Read for BodyChunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.receiver.blocking_recv() {
                None => return Ok(0),
                Some(Ok(piece)) => self.current = piece,
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
