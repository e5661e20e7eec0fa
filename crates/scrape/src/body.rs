//! Bodies of scrapes: buffers that are reused, and decompression within bounds.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use parking_lot::Mutex;

/// Bytes of one body, as sent and decompressed, whatever the job says. A million series take about
/// half of it; what is larger is not a page of metrics.
const BODY_BYTES_MAX: u64 = 256 << 20;

/// Buffers that are kept for the next scrape, and how large one may be to be kept: most pages have
/// a few hundred kilobytes, and a few scrapes are under way at once.
const KEPT_BUFFERS_MAX: usize = 32;
const KEPT_BYTES_MAX: usize = 4 << 20;

/// The words are Prometheus'.
pub(super) const TOO_LARGE: &str = "body size limit exceeded";

/// Idle buffers.
#[derive(Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    pub(super) fn take(&self) -> Vec<u8> {
        self.0.lock().pop().unwrap_or_default()
    }

    pub(super) fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut kept = self.0.lock();
        if buffer.capacity() <= KEPT_BYTES_MAX && kept.len() < KEPT_BUFFERS_MAX {
            kept.push(buffer);
        }
    }
}

/// What a job allows: 0 is no limit of its own.
pub(super) fn limit_of(body_size_limit: u64) -> u64 {
    match body_size_limit {
        0 => BODY_BYTES_MAX,
        limit => limit.min(BODY_BYTES_MAX),
    }
}

/// The compression of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

/// The largest window of zstd, as a power of two: 8 MiB, as in Prometheus. It is what the
/// decompression of one body takes besides the body.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Appends the decompressed body to `out`; an error when it has more than `limit` bytes or is not
/// so compressed.
pub(super) fn decompress(
    encoding: Encoding,
    body: &[u8],
    limit: u64,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let read = match encoding {
        Encoding::Identity => read_bounded(body, limit, out),
        Encoding::Gzip => read_bounded(MultiGzDecoder::new(body), limit, out),
        Encoding::Zstd => zstd_decoder(body).and_then(|reader| read_bounded(reader, limit, out)),
    };
    let read = read.map_err(|error| format!("cannot decompress the body: {error}"))?;
    if read as u64 > limit {
        return Err(TOO_LARGE.into());
    }
    Ok(())
}

fn zstd_decoder(body: &[u8]) -> io::Result<zstd::Decoder<'static, &[u8]>> {
    let mut decoder = zstd::Decoder::with_buffer(body)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn read_bounded(reader: impl Read, limit: u64, out: &mut Vec<u8>) -> io::Result<usize> {
    // One byte more shows that there is more.
    reader.take(limit.saturating_add(1)).read_to_end(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 1).unwrap()
    }

    type Compress = fn(&[u8]) -> Vec<u8>;

    const COMPRESSED: [(Encoding, Compress); 2] = [(Encoding::Gzip, gzip), (Encoding::Zstd, zstd)];

    #[test]
    fn bombs_end_at_the_limit() {
        for (encoding, compress) in COMPRESSED {
            let bomb = compress(&vec![b'x'; 10 << 20]);
            let mut out = Vec::new();
            let error = decompress(encoding, &bomb, 1000, &mut out).unwrap_err();
            assert_eq!(error, TOO_LARGE);
            assert_eq!(out.len(), 1001);
            out.clear();
            decompress(encoding, &compress(b"metric 1\n"), 9, &mut out).unwrap();
            assert_eq!(out, b"metric 1\n");
        }
    }

    #[test]
    fn what_is_not_compressed_is_said() {
        for (encoding, compress) in COMPRESSED {
            for body in [&b"metric 1\n"[..], &compress(b"metric 1\n")[..12]] {
                let error = decompress(encoding, body, 1000, &mut Vec::new()).unwrap_err();
                assert!(error.starts_with("cannot decompress the body"), "{error}");
            }
        }
    }

    #[test]
    fn windows_of_zstd_are_bounded() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(ZSTD_WINDOW_LOG_MAX + 1).unwrap();
        io::Write::write_all(&mut encoder, &vec![b'x'; 20 << 20]).unwrap();
        let body = encoder.finish().unwrap();
        let error = decompress(Encoding::Zstd, &body, 30 << 20, &mut Vec::new()).unwrap_err();
        assert!(error.starts_with("cannot decompress the body"), "{error}");
    }

    #[test]
    fn large_buffers_are_let_go() {
        let buffers = Buffers::default();
        buffers.recycle(Vec::with_capacity(KEPT_BYTES_MAX + 1));
        assert_eq!(buffers.take().capacity(), 0);
        buffers.recycle(Vec::with_capacity(100));
        assert!(buffers.take().capacity() >= 100);
    }
}
