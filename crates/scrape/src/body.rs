//! Bodies of scrapes: buffers that are reused, and decompression within bounds.

use std::io::Read as _;

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

/// Appends the decompressed body to `out`; an error when it reaches `limit` bytes or is no gzip.
pub(super) fn gunzip(body: &[u8], limit: u64, out: &mut Vec<u8>) -> Result<(), String> {
    // One byte more shows that there is more.
    let mut reader = MultiGzDecoder::new(body).take(limit.saturating_add(1));
    let read = reader.read_to_end(out);
    let read = read.map_err(|error| format!("cannot decompress the body: {error}"))?;
    if read as u64 > limit {
        return Err(TOO_LARGE.into());
    }
    Ok(())
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

    #[test]
    fn bombs_end_at_the_limit() {
        let bomb = gzip(&vec![b'x'; 10 << 20]);
        let mut out = Vec::new();
        let error = gunzip(&bomb, 1000, &mut out).unwrap_err();
        assert_eq!(error, TOO_LARGE);
        assert_eq!(out.len(), 1001);
        out.clear();
        gunzip(&gzip(b"metric 1\n"), 9, &mut out).unwrap();
        assert_eq!(out, b"metric 1\n");
    }

    #[test]
    fn what_is_no_gzip_is_said() {
        for body in [&b"metric 1\n"[..], &gzip(b"metric 1\n")[..12]] {
            let error = gunzip(body, 1000, &mut Vec::new()).unwrap_err();
            assert!(error.starts_with("cannot decompress the body"), "{error}");
        }
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
