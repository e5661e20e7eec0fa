//! `icecore import`: a file in chunks, each acknowledged before the next is sent.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde_json::{Value, json};

use super::chunks::{Chunk, Chunks, InputFormat, plain};
use super::opentsdb::OpentsdbImport;
use super::progress::Progress;
use super::state_file::{StateFile, sibling_path};
use super::upload::{BadContent, upload};
use crate::remote::{Connection, ServerArgs};
use crate::{NotAllStored, WrongUsage};

/// Store the content of a file in a server
///
/// Takes what export writes, lines of JSON from elsewhere, and Prometheus' text format with
/// timestamps; the first bytes say which, and whether it is compressed with gzip or zstd.
#[derive(Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Import {
    #[command(subcommand)]
    source: Option<ImportFrom>,

    /// The file to read; - for standard input
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,

    /// Go on where FILE.progress says that the last import of the file was
    #[arg(long)]
    resume: bool,

    /// Pass over what cannot be read or stored, and count it; without, the exit code says so
    #[arg(long)]
    skip_errors: bool,

    /// Take text for OpenMetrics
    #[arg(long)]
    openmetrics: bool,

    /// Bytes, before compression, of one request
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20)]
    chunk_bytes: usize,

    /// A label for every series of a text; may be repeated
    #[arg(long = "extra-label", value_name = "NAME=VALUE")]
    extra_labels: Vec<String>,

    #[command(flatten)]
    server: ServerArgs,
}

/// What other programs have.
#[derive(Subcommand)]
enum ImportFrom {
    Opentsdb(OpentsdbImport),
}

const EXAMPLES: &str = "\
Examples:
  icecore import all.native
  icecore import up.json.zst --server http://db:9090
  curl -s http://127.0.0.1:9100/metrics | icecore import - --extra-label job=node
  icecore import all.native --resume                           after an interruption

Exit code 3: what the server refused is not stored; the rest is.";

impl Import {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        match self.source {
            Some(ImportFrom::Opentsdb(import)) => runtime.block_on(import.import()),
            None => runtime.block_on(self.import()),
        }
    }

    async fn import(self) -> anyhow::Result<()> {
        let Some(path) = &self.file else {
            bail!(WrongUsage("FILE is missing".into()));
        };
        let connection = self.server.connect()?;
        let from_stdin = path.as_os_str() == "-";
        if from_stdin && self.resume {
            bail!(WrongUsage("--resume needs a file".into()));
        }
        let shown = path.display();
        let (source, file_bytes): (Box<dyn Read + Send>, u64) = if from_stdin {
            (Box::new(std::io::stdin()), 0)
        } else {
            let file = File::open(path);
            let file = file.with_context(|| format!("cannot read {shown}"))?;
            let bytes = file.metadata()?.len();
            (Box::new(file), bytes)
        };
        let plain = plain(source).with_context(|| format!("cannot read {shown}"))?;
        let mut chunks = Chunks::open(plain, self.chunk_bytes)
            .with_context(|| format!("cannot read {shown}"))?;
        let state_file = StateFile::new(
            sibling_path(path, ".progress"),
            json!({"bytes": file_bytes}),
        );
        if self.resume
            && let Some(noted) = state_file.read()?
        {
            let number = |key: &str| noted[key].as_u64().context("invalid state file");
            let open = noted["open"].as_bool().unwrap_or_default();
            chunks.skip_to(number("offset")?, number("lines")?, open)?;
        }
        let mut progress = Progress::new();
        let mut rejected = Rejections::default();
        let mut exemplars = 0;
        let mut has_state = self.resume && state_file.path().exists();
        loop {
            let reading = tokio::task::spawn_blocking(move || {
                let next = chunks.next();
                (next, chunks)
            });
            let next;
            (next, chunks) = reading.await?;
            let Some(chunk) = next.with_context(|| format!("cannot read {shown}"))? else {
                break;
            };
            let lines = chunk.bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let lines = chunk.lines_before + lines;
            let state = json!({"offset": chunk.end, "lines": lines, "open": chunk.open});
            let bytes = chunk.bytes.len() as u64;
            let stored = tokio::select! {
                stored = self.store(&connection, chunks.form, chunk) => stored,
                _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
            };
            let counts = stored.map_err(|error| {
                let state = has_state.then(|| state_file.path());
                let context = incomplete(&error, self.skip_errors, state);
                progress.clear();
                rejected.print();
                error.context(context)
            })?;
            rejected.add(&counts);
            progress.bytes += bytes;
            let count = |key: &str| counts[key].as_u64().unwrap_or(0);
            progress.samples += count("samples") + count("histograms");
            exemplars += count("exemplars");
            if !from_stdin {
                state_file.write(&state)?;
                has_state = true;
            }
            progress.update("importing: ", None);
        }
        progress.clear();
        state_file.remove();
        rejected.print();
        eprintln!("icecore: imported {}", progress.rates());
        let has_content = progress.bytes > 0 && chunks.form != InputFormat::Native;
        let what = match rejected.count() {
            _ if self.skip_errors => return Ok(()),
            0 if has_content && progress.samples + exemplars == 0 => {
                "nothing was stored: there are no samples".to_owned()
            }
            0 => return Ok(()),
            count => format!(
                "{count} samples or lines were not stored, for the reasons above; --skip-errors \
                 accepts that"
            ),
        };
        Err(NotAllStored(what).into())
    }

    /// Sends one chunk until it is stored, or must not be sent again.
    async fn store(
        &self,
        connection: &Connection,
        form: InputFormat,
        chunk: Chunk,
    ) -> anyhow::Result<Value> {
        let lines_before = chunk.lines_before;
        let plain = form == InputFormat::Native;
        let body = if plain {
            chunk.bytes
        } else {
            tokio::task::spawn_blocking(move || zstd::bulk::compress(&chunk.bytes, 1)).await??
        };
        let mut headers = Vec::new();
        if !plain {
            headers.push((CONTENT_ENCODING, "zstd"));
        }
        if form == InputFormat::Text && self.openmetrics {
            headers.push((CONTENT_TYPE, "application/openmetrics-text"));
        }
        upload(
            connection,
            &self.path(form),
            &headers,
            body.into(),
            lines_before,
        )
        .await
    }

    fn path(&self, form: InputFormat) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if self.skip_errors {
            query.append_pair("skip_errors", "true");
        }
        let path = match form {
            InputFormat::Json => {
                query.append_pair("format", "json");
                "/api/v1/import"
            }
            InputFormat::Native => {
                query
                    .append_pair("format", "native")
                    .append_pair("partial", "true");
                "/api/v1/import"
            }
            InputFormat::Text => {
                for label in &self.extra_labels {
                    query.append_pair("extra_label", label);
                }
                "/api/v1/import/prometheus"
            }
        };
        format!("{path}?{}", query.finish())
    }
}

/// Returns how an import that has failed can go on, given its state file if there is one.
pub(super) fn incomplete(error: &anyhow::Error, skips: bool, state: Option<&Path>) -> String {
    let mut text = String::from("import incomplete");
    if error.is::<BadContent>() && !skips {
        text.push_str("; --skip-errors passes over what cannot be read or stored");
    }
    if let Some(state) = state {
        let state = state.display();
        text.push_str(&format!("; --resume continues it (state in {state})"));
    }
    text
}

/// What the server did not store, all chunks together.
#[derive(Default)]
struct Rejections(Vec<(String, u64)>);

impl Rejections {
    const SHOWN: usize = 10;

    fn add(&mut self, counts: &Value) {
        for rejected in counts["rejected"].as_array().into_iter().flatten() {
            let reason = rejected["reason"].as_str().unwrap_or_default();
            let count = rejected["count"].as_u64().unwrap_or(0);
            if let Some((_, known)) = self.0.iter_mut().find(|(known, _)| known == reason) {
                *known += count;
            } else if self.0.len() < Self::SHOWN {
                self.0.push((reason.to_owned(), count));
            } else if let Some((last, known)) = self.0.last_mut() {
                "other reasons".clone_into(last);
                *known += count;
            }
        }
    }

    /// Returns the number of samples and lines.
    fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn print(&self) {
        for (reason, count) in &self.0 {
            eprintln!("icecore: warning: {count} not stored: {reason}");
        }
    }
}
