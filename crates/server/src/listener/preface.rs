//! Which HTTP a client speaks: HTTP/2 begins with bytes that no HTTP/1.1 request begins with.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// RFC 9113, section 3.4.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// Reads until it is clear, and gives what was read. A client that ends before is answered as
/// HTTP/1.1 answers that.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(Version, Bytes)> {
    let mut read = Vec::with_capacity(PREFACE.len());
    while PREFACE.starts_with(&read) {
        if read.len() == PREFACE.len() {
            return Ok((Version::Http2, read.into()));
        }
        let left = u64::try_from(PREFACE.len() - read.len()).unwrap_or(u64::MAX);
        if stream.take(left).read_buf(&mut read).await? == 0 {
            break;
        }
    }
    Ok((Version::Http1, read.into()))
}

/// A stream of which some was read already.
pub(super) struct Begun<S> {
    begun: Bytes,
    stream: S,
}

impl<S> Begun<S> {
    pub(super) fn new(begun: Bytes, stream: S) -> Self {
        Self { begun, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.begun.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let fits = self.begun.len().min(buffer.remaining());
        if let Some(bytes) = self.begun.get(..fits) {
            buffer.put_slice(bytes);
        }
        self.begun.advance(fits);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    async fn check(sent: &[u8], expected: Version) {
        let (mut near, mut far) = tokio::io::duplex(1 << 10);
        far.write_all(sent).await.unwrap();
        drop(far);
        let (version, begun) = read(&mut near).await.unwrap();
        assert_eq!(version, expected, "{}", sent.escape_ascii());
        let mut all = Vec::new();
        let mut begun = Begun::new(begun, near);
        begun.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, sent);
    }

    #[tokio::test]
    async fn what_was_read_is_not_lost() {
        check(b"", Version::Http1).await;
        check(b"GET / HTTP/1.1\r\n\r\n", Version::Http1).await;
        check(b"PRI * HTTP/2", Version::Http1).await;
        check(b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n", Version::Http1).await;
        check(PREFACE, Version::Http2).await;
        check(&[PREFACE.as_slice(), b"more"].concat(), Version::Http2).await;
    }
}
