//! An export of any format: slice after slice of time, each complete before the next.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::progress::Progress;
use super::rolled_up_time::RolledUpTime;
use super::slices::Slices;
use super::state_file::{StateFile, sibling_path};
use super::target::{Compression, CountingWriter, Target};
use crate::query::times::{Times, seconds};
use crate::remote::{Answer, Body, Connection};
use crate::{WrongUsage, utc};

const DAY_MS: i64 = 24 * 3_600_000;

/// What a server may have of the future, and a clock may be off.
const AHEAD_MS: i64 = 2 * 3_600_000;

/// What is held back of an answer until it is complete: its last line may be about it.
const REPORT_BYTES_MAX: usize = 64 << 10;

/// What is exported, and where to.
pub(crate) struct ExportRun {
    pub(crate) output: PathBuf,
    pub(crate) selectors: Vec<String>,
    pub(crate) start: Option<String>,
    pub(crate) end: Option<String>,
    pub(crate) slice: Option<i64>,
    pub(crate) resume: bool,
    pub(crate) request: ExportRequest,
}

/// What a server is asked for.
pub(crate) struct ExportRequest {
    pub(crate) path: &'static str,
    /// Beside time and series.
    pub(crate) params: Vec<(&'static str, String)>,
    /// The length of an answer in which there is nothing.
    pub(crate) empty_bytes: u64,
    /// Answers end with a line that begins with `#` and is a report.
    pub(crate) has_report: bool,
    /// What is asked for at the end, for all of time.
    pub(crate) last: Option<Vec<(&'static str, String)>>,
}

impl ExportRun {
    /// Writes the file; `report` is told what answers say about themselves.
    pub(crate) async fn run(
        self,
        connection: &Connection,
        mut report: impl FnMut(&Value),
    ) -> anyhow::Result<Progress> {
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
        let mut about = json!({
            "match": selectors, "slice_ms": slice_ms, "start": self.start, "end": self.end,
        });
        for (name, value) in &self.request.params {
            about[*name] = json!(value);
        }
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
                    slices.begin_with_data(connection, &selectors).await?;
                }
                slices
            }
        };
        let target = if to_stdout {
            Target::Stdout(std::io::stdout())
        } else {
            Target::open(&self.output, self.resume, slices.bytes)?
        };
        let mut copy = Copy {
            connection,
            request: &self.request,
            compression: Compression::of(&self.output),
            target,
            progress: Progress::new(),
            rolled: RolledUpTime::default(),
        };
        while let Some((from, to)) = slices.next() {
            let mut params = self.request.params.clone();
            params.extend([("start", seconds(from)), ("end", seconds(to))]);
            params.extend(selectors.iter().map(|s| ("match[]", s.clone())));
            let step = async {
                let copied = copy.copy(&params, slices.done(), &mut report).await?;
                slices.taken(to, copied.file_bytes);
                if copied.plain_bytes <= self.request.empty_bytes {
                    slices.skip_to_data(connection, &selectors).await?;
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
                copy.target.sync()?;
                state_file.write(&slices.state())?;
            }
        }
        if let Some(last) = &self.request.last {
            let mut params = last.clone();
            let range = [("start", start), ("end", end)];
            let given = |(name, ms): (&'static str, Option<i64>)| Some((name, seconds(ms?)));
            params.extend(range.into_iter().filter_map(given));
            copy.copy(&params, 1.0, &mut report).await?;
            copy.target.sync()?;
        }
        if !to_stdout {
            fs::rename(sibling_path(&self.output, ".part"), &self.output)
                .with_context(|| format!("cannot write {}", self.output.display()))?;
            state_file.remove();
        }
        copy.progress.clear();
        if let Some(rolled) = copy.rolled.note() {
            eprintln!("icecore: note: {rolled}");
        }
        Ok(copy.progress)
    }
}

/// What a slice takes.
struct SliceBytes {
    /// In the file, compressed.
    file_bytes: u64,
    /// As it was answered, without a report.
    plain_bytes: u64,
}

/// Copies answers.
struct Copy<'a> {
    connection: &'a Connection,
    request: &'a ExportRequest,
    compression: Compression,
    target: Target,
    progress: Progress,
    rolled: RolledUpTime,
}

impl Copy<'_> {
    /// Copies one answer.
    async fn copy(
        &mut self,
        params: &[(&'static str, String)],
        done: f64,
        report: &mut impl FnMut(&Value),
    ) -> anyhow::Result<SliceBytes> {
        let connection = self.connection;
        let path = self.request.path;
        let mut response = connection.post_streamed(path, params).await?;
        if !response.status().is_success() {
            let status = response.status();
            let bytes = response.bytes().await?;
            Answer::parse(&Body { status, bytes }, connection.server())?;
            bail!("{} answered {status}", connection.server());
        }
        if let Some(value) = response.headers().get(RolledUpTime::HEADER) {
            self.rolled.add(value.to_str().unwrap_or_default());
        }
        let mut sink = CountingWriter {
            target: &mut self.target,
            bytes: 0,
        };
        let mut encoder = self.compression.encoder(&mut sink)?;
        let mut plain_bytes = 0;
        let held_max = if self.request.has_report {
            REPORT_BYTES_MAX
        } else {
            0
        };
        let mut held: Vec<u8> = Vec::new();
        let cut_off = || format!("response from {} was cut off", connection.server());
        while let Some(piece) = response
            .chunk()
            .await
            .map_err(reqwest::Error::without_url)
            .with_context(cut_off)?
        {
            held.extend_from_slice(&piece);
            let written = held.len().saturating_sub(held_max);
            let written: Vec<u8> = held.drain(..written).collect();
            encoder.write_all(&written).context("cannot write")?;
            plain_bytes += written.len() as u64;
            self.progress.bytes += piece.len() as u64;
            self.progress.update("exporting: ", Some(done));
        }
        if self.request.has_report {
            let (lines, about) = split_report(&held).with_context(cut_off)?;
            encoder.write_all(lines).context("cannot write")?;
            plain_bytes += lines.len() as u64;
            self.progress.samples += about["samples"].as_u64().unwrap_or(0);
            report(&about);
        }
        encoder.finish().context("cannot write")?;
        Ok(SliceBytes {
            file_bytes: sink.bytes,
            plain_bytes,
        })
    }
}

/// The lines before the last one, and what that says; `None` where it is no report.
fn split_report(held: &[u8]) -> Option<(&[u8], Value)> {
    let end = held.strip_suffix(b"\n")?;
    let start = end.iter().rposition(|byte| *byte == b'\n');
    let (lines, last) = held.split_at(start.map_or(0, |start| start + 1));
    let report = serde_json::from_slice(last.strip_prefix(b"#")?).ok()?;
    Some((lines, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_the_last_line() {
        let (lines, report) = split_report(b"a 1\nb 2\n#{\"samples\":2}\n").unwrap();
        assert_eq!((lines, &report["samples"]), (&b"a 1\nb 2\n"[..], &json!(2)));
        let (lines, _) = split_report(b"#{}\n").unwrap();
        assert_eq!(lines, b"");
        for cut in [&b""[..], b"a 1\n", b"a 1\n#{}", b"a 1\n#{\n"] {
            assert!(split_report(cut).is_none());
        }
    }
}
