//! `icecore query`: asks a running server over HTTP and shows the answer.
//!
//! ```text
//! arguments ─► remote (HTTP) ─► Answer ─┬─► table, csv, json ─► standard output
//!                                       ├─► plot             ─► standard output
//!                                       └─► warnings, infos  ─► standard error
//! ```
//!
//! Holds always: standard output has the result and nothing else, so that it can be piped.

mod answer;
mod csv;
mod plot;
mod position;
mod render;
pub(crate) mod times;

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};

use times::{Times, parse_duration_ms};

use crate::WrongUsage;
use crate::output::Output;
use crate::remote::{self, ServerArgs};

/// Ask a running server
///
/// Works with Icecore and with anything else that has Prometheus' HTTP API.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Query {
    #[command(subcommand)]
    what: Action,
}

const EXAMPLES: &str = "\
Examples:
  icecore query instant 'sum by (job) (up)'
  icecore query range 'rate(http_requests_total[5m])' --start -6h -o plot
  icecore query range up --start 2023-11-14T22:00:00Z --end now --step 1m -o csv
  icecore query series '{job=\"node\"}' --start -1d
  icecore query labels                                  all label names
  icecore query labels job                              all values of the label job
Times are now, -1h30m (before now), RFC 3339 or UNIX seconds.";

#[derive(Subcommand)]
enum Action {
    Instant(InstantArgs),
    Range(RangeArgs),
    Series(SeriesArgs),
    Labels(LabelsArgs),
}

/// Evaluate an expression at one time
#[derive(Args)]
struct InstantArgs {
    /// The PromQL expression
    #[arg(value_name = "QUERY")]
    query: String,

    /// When to evaluate it
    #[arg(
        long,
        value_name = "TIME",
        default_value = "now",
        allow_hyphen_values = true
    )]
    time: String,

    #[command(flatten)]
    evaluation: EvaluationArgs,

    /// How to print the result
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    server: ServerArgs,
}

/// Evaluate an expression at the steps of a time range
#[derive(Args)]
struct RangeArgs {
    /// The PromQL expression
    #[arg(value_name = "QUERY")]
    query: String,

    /// First step
    #[arg(
        long,
        value_name = "TIME",
        default_value = "-1h",
        allow_hyphen_values = true
    )]
    start: String,

    /// No step after this time
    #[arg(
        long,
        value_name = "TIME",
        default_value = "now",
        allow_hyphen_values = true
    )]
    end: String,

    /// Time between two steps, 15s or 1m30s; a round one that suits the output unless given
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    step: Option<i64>,

    #[command(flatten)]
    evaluation: EvaluationArgs,

    /// How to print the result
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: RangeFormat,

    /// Columns of the plot; as many as the terminal has unless given
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,

    /// Lines of the plot
    #[arg(long, value_name = "LINES", default_value_t = plot::DEFAULT_HEIGHT)]
    height: usize,

    #[command(flatten)]
    server: ServerArgs,
}

/// List the series that match
#[derive(Args)]
struct SeriesArgs {
    /// Series selectors; series that match any of them are listed
    #[arg(value_name = "SELECTOR", required = true)]
    selectors: Vec<String>,

    #[command(flatten)]
    listing: ListingArgs,
}

/// List label names, or the values of one label
#[derive(Args)]
struct LabelsArgs {
    /// List the values of this label
    #[arg(value_name = "LABEL")]
    name: Option<String>,

    /// Only of series that match this selector; of any of them when it is repeated
    #[arg(long = "match", value_name = "SELECTOR")]
    selectors: Vec<String>,

    #[command(flatten)]
    listing: ListingArgs,
}

/// Flags of both kinds of lists.
#[derive(Args)]
struct ListingArgs {
    /// Only of series with samples at this time or later
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,

    /// Only of series with samples at this time or earlier
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    end: Option<String>,

    /// No more results than this
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u64>,

    /// How to print them
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    server: ServerArgs,
}

/// Flags of both kinds of queries.
#[derive(Args)]
struct EvaluationArgs {
    /// Give the query up after this time; the server has a limit of its own
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    timeout: Option<i64>,

    /// No more series than this
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u64>,

    /// Say on standard error how the server evaluates the query
    #[arg(long)]
    explain: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Table,
    /// The data of the server's answer
    Json,
    /// For spreadsheets
    Csv,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RangeFormat {
    /// For people
    #[default]
    Table,
    /// The data of the server's answer
    Json,
    /// For spreadsheets
    Csv,
    /// Drawn in the terminal
    Plot,
}

impl Query {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        runtime.block_on(async {
            match self.what {
                Action::Instant(instant) => instant.run().await,
                Action::Range(range) => range.run().await,
                Action::Series(series) => series.run().await,
                Action::Labels(labels) => labels.run().await,
            }
        })
    }
}

type Params = Vec<(&'static str, String)>;

impl InstantArgs {
    async fn run(self) -> anyhow::Result<()> {
        let times = Times::now();
        let mut params: Params = vec![
            ("query", self.query.clone()),
            ("time", times.param("--time", &self.time)?),
        ];
        self.evaluation.add_to(&mut params);
        let ask = self
            .server
            .post("/api/v1/query", &params, self.evaluation.timeout);
        let answer = ask
            .await
            .map_err(|error| position::point_at(error, &self.query))?;
        answer.print_notes();
        render::print_query(&answer, self.output, Output::new())
    }
}

impl RangeArgs {
    async fn run(self) -> anyhow::Result<()> {
        let times = Times::now();
        let (start_ms, end_ms) = times.range(&self.start, &self.end)?;
        let width = plot::width(self.width);
        let points = match self.output {
            RangeFormat::Table => render::TABLE_POINTS,
            // Two dots per column.
            RangeFormat::Plot => 2 * width,
            RangeFormat::Json | RangeFormat::Csv => render::DATA_POINTS,
        };
        let step_ms = match self.step {
            Some(0) => return Err(WrongUsage("--step must be longer than 0".into()).into()),
            Some(step_ms) => step_ms,
            None => times::round_step_ms(end_ms - start_ms, points),
        };
        let mut params: Params = vec![
            ("query", self.query.clone()),
            ("start", times::seconds(start_ms)),
            ("end", times::seconds(end_ms)),
            ("step", times::seconds(step_ms)),
        ];
        self.evaluation.add_to(&mut params);
        let ask = self
            .server
            .post("/api/v1/query_range", &params, self.evaluation.timeout);
        let answer = ask
            .await
            .map_err(|error| position::point_at(error, &self.query))?;
        answer.print_notes();
        let output = Output::new();
        let format = match self.output {
            RangeFormat::Table => Format::Table,
            RangeFormat::Json => Format::Json,
            RangeFormat::Csv => Format::Csv,
            RangeFormat::Plot => {
                let area = plot::Area {
                    start_ms,
                    end_ms,
                    step_ms,
                    width,
                    height: self.height,
                };
                return plot::print(&answer.series()?, &area, output);
            }
        };
        render::print_query(&answer, format, output)
    }
}

impl SeriesArgs {
    async fn run(self) -> anyhow::Result<()> {
        let params = self.listing.params(&self.selectors)?;
        let answer = self
            .listing
            .server
            .post("/api/v1/series", &params, None)
            .await?;
        answer.print_notes();
        render::print_label_sets(&answer, self.listing.output, Output::new())
    }
}

impl LabelsArgs {
    async fn run(self) -> anyhow::Result<()> {
        let params = self.listing.params(&self.selectors)?;
        let path = match &self.name {
            None => "/api/v1/labels".to_owned(),
            Some(name) => format!("/api/v1/label/{}/values", remote::path_segment(name)),
        };
        let answer = self.listing.server.post(&path, &params, None).await?;
        answer.print_notes();
        let heading = self.name.as_deref().unwrap_or("label");
        render::print_words(&answer, heading, self.listing.output, Output::new())
    }
}

impl ListingArgs {
    fn params(&self, selectors: &[String]) -> Result<Params, WrongUsage> {
        let times = Times::now();
        let mut params: Params = Vec::new();
        params.extend(
            selectors
                .iter()
                .map(|selector| ("match[]", selector.clone())),
        );
        if let Some(start) = &self.start {
            params.push(("start", times.param("--start", start)?));
        }
        if let Some(end) = &self.end {
            params.push(("end", times.param("--end", end)?));
        }
        params.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        Ok(params)
    }
}

impl EvaluationArgs {
    fn add_to(&self, params: &mut Params) {
        params.extend(self.timeout.map(|ms| ("timeout", times::seconds(ms))));
        params.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        params.extend(self.explain.then(|| ("explain", "true".into())));
    }
}

#[cfg(test)]
mod tests;
