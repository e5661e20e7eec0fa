//! `icecore export`: slices of time, one after the other, appended to a file.
//!
//! Holds always: time without data costs a number of requests that grows with its logarithm. After
//! an empty slice the next one that has something is looked for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use icecore_wire::native;
use serde_json::{Value, json};

use super::progress::Progress;
use super::state_file::{StateFile, sibling_path};
use crate::query::times::{Times, parse_duration_ms, seconds};
use crate::remote::{Answer, Body, Connection, ServerArgs};
use crate::{WrongUsage, utc};

const DAY_MS: i64 = 24 * 3_600_000;

/// What a server may have of the future, and a clock may be off.
const AHEAD_MS: i64 = 2 * 3_600_000;

/// Write series of a server to a file
///
/// Slice of time by slice of time, so that an import finds what belongs together close together and
/// an interrupted export can go on. The file has its name when it is complete, FILE.part until
/// then.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    /// The file to write; - for standard output. Names that end in .gz or .zst are compressed
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Series to export (default: all); may be repeated
    #[arg(short = 'm', long = "match", value_name = "SELECTOR")]
    selectors: Vec<String>,

    /// Start time (default: the first sample)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,

    /// End time (default: now)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    end: Option<String>,

    /// Lines of JSON, or frames that are smaller and faster
    #[arg(long, value_enum, default_value_t = Format::Native)]
    format: Format,

    /// How much time is asked for at once; 0 for everything, so that no series comes twice. One day
    /// into a file, everything to standard output unless given
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    slice: Option<i64>,

    /// Go on with FILE.part where the last slice ended
    #[arg(long)]
    resume: bool,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  icecore export -o all.native                                 everything
  icecore export -o up.json.zst --format json --match up --start -30d
  icecore export -o - --format json --match 'up{job=\"a\"}' | jq .metric
  icecore export -o all.native --resume                        after an interruption";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Native,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Native => "native",
        }
    }

    /// The length of an answer in which there is nothing.
    fn empty_bytes(self) -> u64 {
        match self {
            Self::Json => 0,
            Self::Native => {
                let mut stream = Vec::new();
                native::Encoder::new(&mut stream).finish(&mut stream);
                stream.len() as u64
            }
        }
    }
}

impl Export {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        runtime.block_on(self.export())
    }

    async fn export(self) -> anyhow::Result<()> {
        let connection = self.server.connect()?;
        let to_stdout = self.output.as_os_str() == "-";
        if to_stdout && self.resume {
            bail!(WrongUsage("--resume needs a file".into()));
        }
        let slice_ms = self.slice.unwrap_or(if to_stdout { 0 } else { DAY_MS });
        let selectors = if self.selectors.is_empty() {
            vec!["{__name__!=\"\"}".to_owned()]
        } else {
            self.selectors.clone()
        };
        let times = Times::now();
        let time = |flag: &str, text: &Option<String>| -> Result<Option<i64>, WrongUsage> {
            let parsed = text.as_deref().map(|text| times.parse(text)).transpose();
            parsed.map_err(|problem| WrongUsage(format!("{flag}: {problem}")))
        };
        let (start, end) = (time("--start", &self.start)?, time("--end", &self.end)?);
        // Times relative to now would differ in a resumed export.
        let about = json!({
            "match": selectors, "format": self.format.name(), "slice_ms": slice_ms,
            "start": self.start, "end": self.end,
        });
        let state_file = StateFile::new(sibling_path(&self.output, ".state"), about);
        let noted = if self.resume {
            state_file.read()?
        } else {
            None
        };
        let mut slices = match &noted {
            Some(noted) => Slices::from_state(noted)?,
            None => {
                let end = end.unwrap_or_else(|| times.of_now().saturating_add(AHEAD_MS));
                if start.is_some_and(|start| start > end) {
                    bail!(WrongUsage("--start is after --end".into()));
                }
                let mut slices = Slices::new(start.unwrap_or(0), end, slice_ms);
                if start.is_none() && slice_ms > 0 {
                    slices.begin_with_data(&connection, &selectors).await?;
                }
                slices
            }
        };
        let mut target = if to_stdout {
            Target::Stdout(io::stdout())
        } else {
            Target::open(&self.output, self.resume, slices.bytes)?
        };
        let mut progress = Progress::new();
        let compression = Compression::of(&self.output);
        while let Some((from, to)) = slices.next() {
            let mut params: Vec<(&'static str, String)> = vec![
                ("start", seconds(from)),
                ("end", seconds(to)),
                ("format", self.format.name().into()),
            ];
            params.extend(selectors.iter().map(|s| ("match[]", s.clone())));
            let step = async {
                let done = slices.done();
                let copied = copy(
                    &connection,
                    &params,
                    compression,
                    &mut target,
                    &mut progress,
                    done,
                );
                let copied = copied.await?;
                slices.taken(to, copied.file_bytes);
                if copied.plain_bytes <= self.format.empty_bytes() {
                    slices.skip_to_data(&connection, &selectors).await?;
                }
                Ok::<_, anyhow::Error>(())
            };
            let stepped = tokio::select! {
                stepped = step => stepped,
                _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
            };
            stepped.with_context(|| {
                if to_stdout {
                    "export incomplete".into()
                } else {
                    format!(
                        "export incomplete; --resume continues at {}",
                        utc::format_ms(from)
                    )
                }
            })?;
            if !to_stdout {
                target.sync()?;
                state_file.write(&slices.state())?;
            }
        }
        if !to_stdout {
            fs::rename(sibling_path(&self.output, ".part"), &self.output)
                .with_context(|| format!("cannot write {}", self.output.display()))?;
            state_file.remove();
        }
        progress.clear();
        eprintln!("icecore: exported {}", progress.rates());
        Ok(())
    }
}

/// The time that is left, slice by slice.
struct Slices {
    start_ms: i64,
    end_ms: i64,
    slice_ms: i64,
    /// Where the next slice begins.
    next_ms: i64,
    /// What complete slices take in the file.
    bytes: u64,
}

impl Slices {
    fn new(start_ms: i64, end_ms: i64, slice_ms: i64) -> Self {
        Self {
            start_ms,
            end_ms,
            slice_ms,
            next_ms: start_ms,
            bytes: 0,
        }
    }

    fn from_state(state: &Value) -> anyhow::Result<Self> {
        let number = |key: &str| state[key].as_i64().context("invalid state file");
        Ok(Self {
            start_ms: number("start_ms")?,
            end_ms: number("end_ms")?,
            slice_ms: number("slice_ms")?,
            next_ms: number("next_ms")?,
            bytes: number("bytes")?.unsigned_abs(),
        })
    }

    fn state(&self) -> Value {
        json!({
            "start_ms": self.start_ms, "end_ms": self.end_ms, "slice_ms": self.slice_ms,
            "next_ms": self.next_ms, "bytes": self.bytes,
        })
    }

    /// First and last millisecond of the next slice. Slices end at multiples of their length.
    fn next(&self) -> Option<(i64, i64)> {
        if self.next_ms > self.end_ms {
            return None;
        }
        let last = match self.slice_ms {
            0 => self.end_ms,
            slice => {
                let number = self.next_ms.div_euclid(slice).saturating_add(1);
                number
                    .saturating_mul(slice)
                    .saturating_sub(1)
                    .min(self.end_ms)
            }
        };
        Some((self.next_ms, last))
    }

    fn taken(&mut self, last_ms: i64, bytes: u64) {
        self.next_ms = last_ms.saturating_add(1);
        self.bytes += bytes;
    }

    /// Begins with the first slice that has something, or with the last if there is nothing.
    async fn begin_with_data(
        &mut self,
        connection: &Connection,
        selectors: &[String],
    ) -> anyhow::Result<()> {
        self.skip_to_data(connection, selectors).await?;
        if self.next_ms > self.end_ms {
            let last = self.end_ms.div_euclid(self.slice_ms);
            self.next_ms = last.saturating_mul(self.slice_ms).max(self.start_ms);
        }
        self.start_ms = self.next_ms;
        Ok(())
    }

    /// Passes over slices that have nothing.
    async fn skip_to_data(
        &mut self,
        connection: &Connection,
        selectors: &[String],
    ) -> anyhow::Result<()> {
        if self.slice_ms == 0 || self.next_ms > self.end_ms {
            return Ok(());
        }
        let (next_ms, end_ms) = (self.next_ms, self.end_ms);
        let slice_of = |ms: i64| ms.div_euclid(self.slice_ms);
        let mut search = Search::new(slice_of(next_ms), slice_of(end_ms));
        while let Some((first, last)) = search.next_probe() {
            let start_ms = first.saturating_mul(self.slice_ms).max(next_ms);
            let slices_end = last.saturating_add(1).saturating_mul(self.slice_ms);
            let range = (start_ms, slices_end.saturating_sub(1).min(end_ms));
            search.answered(has_series(connection, selectors, range).await?);
        }
        self.next_ms = match search.found() {
            Some(slice) => slice.saturating_mul(self.slice_ms).max(next_ms),
            None => end_ms.saturating_add(1),
        };
        Ok(())
    }

    fn done(&self) -> f64 {
        let whole = self.end_ms.saturating_sub(self.start_ms).max(1) as f64;
        self.next_ms.saturating_sub(self.start_ms) as f64 / whole
    }
}

/// The first slice that has something, found by asking about ever more slices and then about ever
/// fewer.
struct Search {
    /// Slices before it have nothing.
    first: i64,
    /// There is data between `first` and this slice, if that is known.
    found_by: Option<i64>,
    end: i64,
    width: i64,
}

impl Search {
    fn new(first: i64, end: i64) -> Self {
        Self {
            first,
            found_by: None,
            end,
            width: 1,
        }
    }

    /// The first and the last of the slices to ask about next; `None` at the end of the search.
    fn next_probe(&self) -> Option<(i64, i64)> {
        let last = match self.found_by {
            Some(by) if by <= self.first => return None,
            Some(by) => self.first + (by - self.first - 1) / 2,
            None if self.first > self.end => return None,
            None => self.first.saturating_add(self.width - 1).min(self.end),
        };
        Some((self.first, last))
    }

    /// Whether there was something in what was asked about.
    fn answered(&mut self, something: bool) {
        let Some((_, last)) = self.next_probe() else {
            return;
        };
        if something {
            self.found_by = Some(last);
        } else {
            self.first = last.saturating_add(1);
            self.width = self.width.saturating_mul(2);
        }
    }

    fn found(&self) -> Option<i64> {
        self.found_by
    }
}

async fn has_series(
    connection: &Connection,
    selectors: &[String],
    (start_ms, end_ms): (i64, i64),
) -> anyhow::Result<bool> {
    let mut params: Vec<(&'static str, String)> = vec![
        ("start", seconds(start_ms)),
        ("end", seconds(end_ms)),
        ("limit", "1".into()),
    ];
    params.extend(selectors.iter().map(|s| ("match[]", s.clone())));
    let body = connection.post("/api/v1/series", &params).await?;
    let answer = Answer::parse(&body, connection.server())?;
    let series = answer.data.as_array();
    Ok(series.is_some_and(|series| !series.is_empty()))
}

/// What a slice takes.
struct SliceBytes {
    /// In the file, compressed.
    file_bytes: u64,
    /// As it was answered.
    plain_bytes: u64,
}

/// Copies one slice.
async fn copy(
    connection: &Connection,
    params: &[(&'static str, String)],
    compression: Compression,
    target: &mut Target,
    progress: &mut Progress,
    done: f64,
) -> anyhow::Result<SliceBytes> {
    let mut response = connection.post_streamed("/api/v1/export", params).await?;
    if !response.status().is_success() {
        let status = response.status();
        let bytes = response.bytes().await?;
        Answer::parse(&Body { status, bytes }, connection.server())?;
        bail!("{} answered {status}", connection.server());
    }
    let mut sink = CountingWriter { target, bytes: 0 };
    let mut encoder = compression.encoder(&mut sink)?;
    let mut plain_bytes = 0;
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(reqwest::Error::without_url)
        .with_context(|| format!("response from {} was cut off", connection.server()))?
    {
        encoder.write_all(&piece).context("cannot write")?;
        plain_bytes += piece.len() as u64;
        progress.bytes += piece.len() as u64;
        progress.update("exporting: ", Some(done));
    }
    encoder.finish().context("cannot write")?;
    Ok(SliceBytes {
        file_bytes: sink.bytes,
        plain_bytes,
    })
}

enum Target {
    Stdout(io::Stdout),
    File(File),
}

impl Target {
    fn open(output: &Path, resume: bool, bytes: u64) -> anyhow::Result<Self> {
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

    fn sync(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(_) => Ok(()),
            Self::File(file) => file.sync_data().context("cannot write"),
        }
    }
}

struct CountingWriter<'t> {
    target: &'t mut Target,
    bytes: u64,
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
enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::None,
        }
    }

    fn encoder<W: Write>(self, target: W) -> io::Result<Encoder<W>> {
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

enum Encoder<W: Write> {
    None(W),
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Encoder<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::None(target) => target.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::None(mut target) => target.flush(),
            Self::Gzip(encoder) => encoder.finish()?.flush(),
            Self::Zstd(encoder) => encoder.finish()?.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_slice_with_data_is_found_with_few_questions() {
        for (first, end, data) in [
            (0, 0, None),
            (0, 0, Some(0)),
            (5, 4, None),
            (-3, 10, Some(-3)),
            (0, 20_000, Some(19_999)),
            (0, 20_000, Some(20_000)),
            (0, 20_000, Some(1)),
            (0, 500_000, None),
            (i64::MAX - 2, i64::MAX, Some(i64::MAX)),
        ] {
            let mut search = Search::new(first, end);
            let mut questions = 0;
            while let Some((from, to)) = search.next_probe() {
                assert!(first <= from && from <= to && to <= end);
                search.answered(data.is_some_and(|slice| (from..=to).contains(&slice)));
                questions += 1;
                assert!(questions < 100);
            }
            assert_eq!(search.found(), data, "{first} to {end}");
            assert!(questions <= 40, "{questions} questions");
        }
    }

    #[test]
    fn the_first_of_several_is_found() {
        for first in 0..30 {
            let data = [7, 9, 10, 25];
            let expected = data.into_iter().find(|slice| *slice >= first);
            let mut search = Search::new(first, 29);
            while let Some((from, to)) = search.next_probe() {
                search.answered(data.iter().any(|slice| (from..=to).contains(slice)));
            }
            assert_eq!(search.found(), expected, "from {first}");
        }
    }

    #[test]
    fn slices_cover_the_range_once() {
        for (start, end, slice) in [
            (5, 25, 10),
            (0, 9, 10),
            (10, 10, 10),
            (3, 99, 0),
            (-5, 5, 4),
        ] {
            let mut slices = Slices::new(start, end, slice);
            let mut next = start;
            while let Some((from, to)) = slices.next() {
                assert_eq!(from, next);
                assert!(to >= from && to <= end);
                assert!(slice == 0 || from.div_euclid(slice) == to.div_euclid(slice));
                slices.taken(to, 7);
                let again = Slices::from_state(&slices.state()).unwrap();
                assert_eq!(again.next(), slices.next());
                next = to + 1;
            }
            assert_eq!(next, end + 1);
        }
    }
}
