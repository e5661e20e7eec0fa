//! Cells out of HBase's REST gateway.
//!
//! ```text
//! GET /table/exists ─► PUT /table/scanner ─► Location ─► GET … ─► cells, again until 204 ─► DELETE
//! ```
//!
//! Holds always: a scan that is interrupted goes on with the row that was read last; what comes
//! twice changes nothing.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use icecore_server::without_secrets;
use icecore_wire::opentsdb::cell_line::CellLine;
use icecore_wire::opentsdb::gateway::read_cells;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{RequestBuilder, Response, StatusCode};

use crate::remote::path_segment;

/// Cells of one answer.
const BATCH_CELLS: usize = 5000;

/// A gateway that takes longer is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a gateway that fails is asked again.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_secs(2);

/// Bytes of one answer: many times what its cells should take.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A scan of one table.
pub(super) struct Scan<'a> {
    client: reqwest::Client,
    gateway: &'a str,
    /// Its address without a password, for messages.
    shown: String,
    table: &'a str,
    /// The scanner's id, once it is open.
    scanner: Option<String>,
    /// The row that was read last.
    row: Vec<u8>,
    is_done: bool,
}

/// What an answer was.
enum Answer {
    Cells(String),
    End,
}

impl<'a> Scan<'a> {
    /// From a row on, or from the start where it is empty.
    pub(super) fn new(gateway: &'a str, table: &'a str, row: Vec<u8>) -> anyhow::Result<Self> {
        let client = reqwest::Client::builder()
            .user_agent(concat!("icecore/", env!("CARGO_PKG_VERSION")))
            .timeout(ANSWER_TIMEOUT)
            .no_proxy();
        Ok(Self {
            client: client.build()?,
            gateway,
            shown: without_secrets(gateway),
            table,
            scanner: None,
            row,
            is_done: false,
        })
    }

    /// The next cells; `None` at the end. What fails is tried again for a while.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Vec<CellLine<'a>>>> {
        let began = Instant::now();
        while !self.is_done {
            match self.step().await {
                Ok(Some(cells)) => return Ok(Some(cells)),
                Ok(None) => {}
                Err(error) if error.is::<NoSuchTable>() => return Err(error),
                Err(error) if began.elapsed() >= PATIENCE => return Err(error),
                Err(_) => {
                    self.scanner = None;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Ok(None)
    }

    /// Opens the scanner, or asks it once.
    async fn step(&mut self) -> anyhow::Result<Option<Vec<CellLine<'a>>>> {
        let Some(scanner) = &self.scanner else {
            self.scanner = Some(self.open().await?);
            return Ok(None);
        };
        let url = self.url(scanner);
        let request = self.client.get(&url).header(ACCEPT, "application/json");
        match self.ask(request).await? {
            Answer::End => {
                // A scanner that is not deleted ends by itself after a while.
                let _ = self.client.delete(&url).send().await;
                self.is_done = true;
            }
            Answer::Cells(text) => {
                let cells = read_cells(&text, self.table);
                let cells = cells.with_context(|| format!("{} answered no cells", self.shown))?;
                if let Some(last) = cells.last() {
                    self.row.clone_from(&last.row);
                }
                return Ok(Some(cells));
            }
        }
        Ok(None)
    }

    fn url(&self, scanner: &str) -> String {
        let table = path_segment(self.table);
        format!("{}/{table}/scanner/{scanner}", self.gateway)
    }

    async fn open(&self) -> anyhow::Result<String> {
        let table = path_segment(self.table);
        // A scanner is opened for any name.
        let exists = format!("{}/{table}/exists", self.gateway);
        let exists = send(self.client.get(exists), &self.shown).await?;
        if exists.status() == StatusCode::NOT_FOUND {
            bail!(NoSuchTable(self.table.to_owned()));
        }
        let url = format!("{}/{table}/scanner", self.gateway);
        let shown = format!("{}/{table}/scanner", self.shown);
        let start = STANDARD.encode(&self.row);
        let scanner = format!("<Scanner batch=\"{BATCH_CELLS}\" startRow=\"{start}\"/>");
        let request = self.client.put(&url).header(CONTENT_TYPE, "text/xml");
        let response = send(request.body(scanner), &self.shown).await?;
        if response.status() != StatusCode::CREATED {
            bail!("{shown} answered {}", response.status());
        }
        let location = response.headers().get(LOCATION);
        let location = location.and_then(|location| location.to_str().ok());
        // The gateway may know itself by another address than we do.
        let id = location.and_then(|location| location.trim_end_matches('/').rsplit('/').next());
        let id = id.filter(|id| !id.is_empty());
        let id = id.with_context(|| format!("{shown} did not say where its scanner is"))?;
        Ok(id.to_owned())
    }

    async fn ask(&self, request: RequestBuilder) -> anyhow::Result<Answer> {
        let mut response = send(request, &self.shown).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NO_CONTENT => return Ok(Answer::End),
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                bail!("{} has lost the scanner of {}", self.shown, self.table)
            }
            status => bail!("{} answered {status}", self.shown),
        }
        let mut text = Vec::new();
        while let Some(piece) = response
            .chunk()
            .await
            .map_err(reqwest::Error::without_url)
            .with_context(|| format!("response from {} was cut off", self.shown))?
        {
            text.extend_from_slice(&piece);
            if text.len() > ANSWER_BYTES_MAX {
                bail!(
                    "{} answered more than {ANSWER_BYTES_MAX} bytes at once",
                    self.shown
                );
            }
        }
        let text = String::from_utf8(text);
        let text = text.with_context(|| format!("{} answered no text", self.shown))?;
        Ok(Answer::Cells(text))
    }
}

async fn send(request: RequestBuilder, gateway: &str) -> anyhow::Result<Response> {
    request.send().await.map_err(|error| {
        let what = format!("no answer from HBase's REST gateway {gateway}");
        anyhow!(error.without_url()).context(what)
    })
}

/// The gateway does not have a table.
#[derive(Debug)]
pub(super) struct NoSuchTable(String);

impl std::fmt::Display for NoSuchTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no table {}", self.0)
    }
}

impl std::error::Error for NoSuchTable {}
