//! A file in chunks that a server takes one by one: whole lines, or whole frames.

use std::io::{self, BufReader, Read};

use anyhow::{Context as _, bail};
use icecore_wire::native::{FrameHead, MAGIC, frame_head};

/// The longest line that is sent: it is in memory as a whole.
const LINE_BYTES_MAX: usize = 1 << 30;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputFormat {
    Json,
    Native,
    Text,
}

/// Decompresses what is compressed; the first bytes say so.
pub(crate) fn plain(source: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut source = BufReader::with_capacity(1 << 16, source);
    let start = io::BufRead::fill_buf(&mut source)?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::read::MultiGzDecoder::new(source)));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Ok(Box::new(zstd::stream::read::Decoder::new(source)?));
    }
    Ok(Box::new(source))
}

/// A part of the file.
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    /// Where it ends in the plain file.
    pub(crate) end: u64,
    /// Lines before it.
    pub(crate) lines_before: u64,
    /// Whether it ends in the middle of a native stream.
    pub(crate) open: bool,
}

pub(crate) struct Chunks {
    source: Box<dyn Read + Send>,
    pub(crate) form: InputFormat,
    /// What was read and is not in a chunk yet.
    rest: Vec<u8>,
    offset: u64,
    lines: u64,
    at_end: bool,
    chunk_bytes: usize,
    /// Whether a native stream is in the middle.
    open: bool,
}

impl Chunks {
    /// `chunk_bytes` is how much a chunk has at most, unless a line or a frame is longer.
    pub(crate) fn open(mut source: Box<dyn Read + Send>, chunk_bytes: usize) -> io::Result<Self> {
        let mut rest = Vec::new();
        source.by_ref().take(1 << 16).read_to_end(&mut rest)?;
        let first = rest.iter().find(|byte| !byte.is_ascii_whitespace());
        let form = match first {
            _ if rest.first() == MAGIC.first() => InputFormat::Native,
            Some(b'{') => InputFormat::Json,
            _ => InputFormat::Text,
        };
        Ok(Self {
            source,
            form,
            rest,
            offset: 0,
            lines: 0,
            at_end: false,
            chunk_bytes: chunk_bytes.max(1),
            open: false,
        })
    }

    /// Passes over what was stored before.
    pub(crate) fn skip_to(&mut self, offset: u64, lines: u64, open: bool) -> anyhow::Result<()> {
        let here = self
            .rest
            .len()
            .min(usize::try_from(offset).unwrap_or(usize::MAX));
        self.rest.drain(..here);
        let left = offset - here as u64;
        let passed = io::copy(&mut self.source.by_ref().take(left), &mut io::sink())?;
        if passed < left {
            bail!("the file is shorter than what was already imported from it");
        }
        (self.offset, self.lines) = (offset, lines);
        self.open = open;
        Ok(())
    }

    /// The next chunk; `None` at the end.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Chunk>> {
        let mut wanted = self.chunk_bytes;
        loop {
            self.read_up_to(wanted)?;
            let length = match self.form {
                InputFormat::Native => self.frames()?,
                _ => self.lines()?,
            };
            if length > 0 {
                return Ok(Some(self.take(length)));
            }
            if self.at_end {
                return self.ended();
            }
            if wanted >= LINE_BYTES_MAX {
                bail!(
                    "line {} is longer than {LINE_BYTES_MAX} bytes",
                    self.lines + 1
                );
            }
            wanted *= 2;
        }
    }

    fn read_up_to(&mut self, wanted: usize) -> io::Result<()> {
        let missing = wanted.saturating_sub(self.rest.len());
        if missing > 0 && !self.at_end {
            let read = self.source.by_ref().take(missing as u64);
            let count = { read }.read_to_end(&mut self.rest)?;
            self.at_end = count < missing;
        }
        Ok(())
    }

    /// Bytes of whole lines.
    fn lines(&self) -> io::Result<usize> {
        if self.at_end {
            return Ok(self.rest.len());
        }
        let end = self.rest.iter().rposition(|byte| *byte == b'\n');
        Ok(end.map_or(0, |end| end + 1))
    }

    /// Bytes of whole frames.
    fn frames(&mut self) -> anyhow::Result<usize> {
        let mut at = 0;
        loop {
            let rest = self.rest.get(at..).unwrap_or_default();
            let head = frame_head(rest, self.open);
            match head.with_context(|| format!("at byte {}", self.offset + at as u64))? {
                FrameHead::Mark => {
                    at += MAGIC.len();
                    self.open = true;
                }
                FrameHead::Frame { length, last } if length <= rest.len() => {
                    at += length;
                    self.open = !last;
                }
                FrameHead::Frame { .. } | FrameHead::More => return Ok(at),
            }
        }
    }

    fn take(&mut self, length: usize) -> Chunk {
        let rest = self.rest.split_off(length);
        let mut bytes = std::mem::replace(&mut self.rest, rest);
        self.offset += length as u64;
        let lines_before = self.lines;
        if self.form == InputFormat::Native {
            if !bytes.starts_with(&MAGIC) {
                bytes.splice(..0, MAGIC);
            }
        } else {
            self.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        }
        Chunk {
            bytes,
            end: self.offset,
            lines_before,
            open: self.open,
        }
    }

    fn ended(&self) -> anyhow::Result<Option<Chunk>> {
        if self.form == InputFormat::Native && (self.open || !self.rest.is_empty()) {
            bail!(
                "the file is truncated: its final frame is missing; everything before it was stored"
            );
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(bytes: &[u8], chunk_bytes: usize) -> anyhow::Result<Vec<Chunk>> {
        let source = plain(io::Cursor::new(bytes.to_vec()))?;
        let mut chunks = Chunks::open(source, chunk_bytes)?;
        let mut all = Vec::new();
        while let Some(chunk) = chunks.next()? {
            all.push(chunk);
        }
        Ok(all)
    }

    #[test]
    fn lines_stay_whole() {
        let text = b"{\"a\":1}\n{\"b\":22222222222222222222}\n\n{\"c\":1}";
        for chunk_bytes in [1, 5, 10, 1000] {
            let all = chunks(text, chunk_bytes).unwrap();
            let joined: Vec<u8> = all.iter().flat_map(|chunk| chunk.bytes.clone()).collect();
            assert_eq!(joined, text);
            let (last, others) = all.split_last().unwrap();
            assert!(others.iter().all(|chunk| chunk.bytes.ends_with(b"\n")));
            assert_eq!(last.end, text.len() as u64);
        }
    }

    #[test]
    fn frames_stay_whole_and_each_chunk_is_a_stream() {
        let mut stream = Vec::new();
        icecore_wire::native::Encoder::new(&mut stream).finish(&mut stream);
        let file = stream.repeat(3);
        for chunk_bytes in [1, 20, 40, 1000] {
            let all = chunks(&file, chunk_bytes).unwrap();
            assert!(all.iter().all(|chunk| chunk.bytes.starts_with(&MAGIC)));
            assert_eq!(all.last().unwrap().end, file.len() as u64);
        }
        assert!(chunks(&file[..file.len() - 1], 1000).is_err());
        assert!(chunks(&MAGIC, 1000).is_err());
    }

    #[test]
    fn what_is_compressed_is_found_out() {
        let text = b"a 1 1\nb 2 2\n";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gzip, text).unwrap();
        for file in [
            gzip.finish().unwrap(),
            zstd::encode_all(&text[..], 1).unwrap(),
        ] {
            let mut chunks = Chunks::open(plain(io::Cursor::new(file)).unwrap(), 1000).unwrap();
            assert_eq!(chunks.form, InputFormat::Text);
            chunks.skip_to(6, 1, false).unwrap();
            let chunk = chunks.next().unwrap().unwrap();
            assert_eq!(
                (&chunk.bytes[..], chunk.end, chunk.lines_before),
                (&b"b 2 2\n"[..], 12, 1)
            );
            assert!(chunks.next().unwrap().is_none());
        }
    }
}
