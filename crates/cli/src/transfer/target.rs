//! Where an export goes: a file that has its name when it is complete, or standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context as _, bail};

use super::state_file::sibling_path;

pub(super) enum Target {
    Stdout(io::Stdout),
    File(File),
}

impl Target {
    pub(super) fn open(output: &Path, resume: bool, bytes: u64) -> anyhow::Result<Self> {
        let part = sibling_path(output, ".part");
        let shown = part.display();
        if !resume && part.exists() {
            bail!(
                "{shown} exists from an incomplete export: continue it with --resume, or remove it"
            );
        }
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&part);
        let mut file = file.with_context(|| format!("cannot write {shown}"))?;
        if file.metadata()?.len() < bytes {
            bail!("{shown} is shorter than its state file says: remove both and start again");
        }
        // What was written of a slice that is not complete is written again.
        file.set_len(bytes)?;
        file.seek(SeekFrom::Start(bytes))?;
        Ok(Self::File(file))
    }

    pub(super) fn sync(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(_) => Ok(()),
            Self::File(file) => file.sync_data().context("cannot write"),
        }
    }
}

pub(super) struct CountingWriter<'t> {
    pub(super) target: &'t mut Target,
    pub(super) bytes: u64,
}

impl Write for CountingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.target {
            Target::Stdout(stdout) => stdout.write(bytes)?,
            Target::File(file) => file.write(bytes)?,
        };
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.target {
            Target::Stdout(stdout) => stdout.flush(),
            Target::File(file) => file.flush(),
        }
    }
}

/// How a file is compressed; each slice by itself, so that the file can be cut between two.
#[derive(Clone, Copy)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::None,
        }
    }

    pub(super) fn encoder<W: Write>(self, target: W) -> io::Result<Encoder<W>> {
        Ok(match self {
            Self::None => Encoder::None(target),
            Self::Gzip => Encoder::Gzip(flate2::write::GzEncoder::new(
                target,
                flate2::Compression::default(),
            )),
            Self::Zstd => Encoder::Zstd(zstd::stream::write::Encoder::new(target, 3)?),
        })
    }
}

pub(super) enum Encoder<W: Write> {
    None(W),
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Encoder<W> {
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::None(target) => target.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::None(mut target) => target.flush(),
            Self::Gzip(encoder) => encoder.finish()?.flush(),
            Self::Zstd(encoder) => encoder.finish()?.flush(),
        }
    }
}
