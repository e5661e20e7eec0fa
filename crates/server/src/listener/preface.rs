//! Which protocol a client speaks, from the first bytes that it sends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// RFC 9113, section 3.4.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Longer than any method of HTTP.
const METHOD_BYTES_MAX: usize = 32;

/// Waits for the first bytes of a client, no more than [`read`] needs; empty if it closes before.
pub(super) async fn first_bytes(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    let mut read = Vec::with_capacity(METHOD_BYTES_MAX);
    let most = u64::try_from(METHOD_BYTES_MAX).unwrap_or(u64::MAX);
    stream.take(most).read_buf(&mut read).await?;
    Ok(read.into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
    /// Anything else, where it is allowed.
    Line,
}

/// Reads until it is clear, and gives what was read. Whatever is not HTTP/2 counts as HTTP/1.1
/// unless there is a line protocol; so does a client that ends before it is clear.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    has_line_protocol: bool,
) -> io::Result<(Protocol, Bytes)> {
    let mut read = Vec::with_capacity(METHOD_BYTES_MAX);
    loop {
        if let Some(protocol) = protocol_of(&read, has_line_protocol) {
            return Ok((protocol, read.into()));
        }
        // Neither the preface nor a method is longer, so that no more is read than is needed.
        let left = u64::try_from(METHOD_BYTES_MAX - read.len()).unwrap_or(u64::MAX);
        if stream.take(left).read_buf(&mut read).await? == 0 {
            return Ok((Protocol::Http1, read.into()));
        }
    }
}

/// None while more bytes are needed.
fn protocol_of(read: &[u8], has_line_protocol: bool) -> Option<Protocol> {
    if read.starts_with(PREFACE) {
        return Some(Protocol::Http2);
    }
    if PREFACE.starts_with(read) {
        return None;
    }
    if !has_line_protocol {
        return Some(Protocol::Http1);
    }
    // Methods are in capitals, unlike the commands of line protocols.
    let is_method_byte = |byte: &u8| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_');
    match read.iter().position(|byte| !is_method_byte(byte)) {
        None if read.len() < METHOD_BYTES_MAX => None,
        Some(end) if end > 0 && read.get(end) == Some(&b' ') => Some(Protocol::Http1),
        _ => Some(Protocol::Line),
    }
}

/// A stream of which some was read already.
pub(super) struct Rewind<S> {
    first: Bytes,
    stream: S,
}

impl<S> Rewind<S> {
    pub(super) fn new(first: Bytes, stream: S) -> Self {
        Self { first, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewind<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let fits = self.first.len().min(buffer.remaining());
        if let Some(bytes) = self.first.get(..fits) {
            buffer.put_slice(bytes);
        }
        self.first.advance(fits);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewind<S> {
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

    async fn check(sent: &[u8], has_line_protocol: bool, expected: Protocol) {
        let (mut near, mut far) = tokio::io::duplex(1 << 10);
        far.write_all(sent).await.unwrap();
        drop(far);
        let (protocol, first) = read(&mut near, has_line_protocol).await.unwrap();
        assert_eq!(protocol, expected, "{}", sent.escape_ascii());
        let mut all = Vec::new();
        let mut stream = Rewind::new(first, near);
        stream.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, sent);
    }

    #[tokio::test]
    async fn what_was_read_is_not_lost() {
        for has_line_protocol in [false, true] {
            for (sent, expected) in [
                (&b""[..], Protocol::Http1),
                (b"GET / HTTP/1.1\r\n\r\n", Protocol::Http1),
                (b"M-SEARCH * HTTP/1.1\r\n\r\n", Protocol::Http1),
                (b"PRI * HTTP/2", Protocol::Http1),
                (b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n", Protocol::Http1),
                (PREFACE, Protocol::Http2),
                (
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand more frames",
                    Protocol::Http2,
                ),
            ] {
                check(sent, has_line_protocol, expected).await;
            }
        }
    }

    #[tokio::test]
    async fn lines_are_told_from_http() {
        let long = [b'A'; 2 * METHOD_BYTES_MAX];
        for sent in [
            &b"put a 1 2\n"[..],
            b"VERSION\n",
            b"\r\n",
            b" GET / HTTP/1.1\r\n",
            b"PRI\n",
            b"\x16\x03\x01",
            &long,
        ] {
            check(sent, true, Protocol::Line).await;
            check(sent, false, Protocol::Http1).await;
        }
    }
}
