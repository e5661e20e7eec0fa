//! The engine: one call per query.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use icecore_model::{ImpliedMatchers, Labels, SeriesSource};

use crate::error::{Error, Result};
use crate::exec::{Context, Grid, Limits, Profile, Row, ScalarColumn, Values, merge_equal_labels};
use crate::operators::{self, Run};
use crate::parse::parse;
use crate::plan::{self, Plan, PlanContext, Root, Rules};
use crate::rollup::{RollupOptions, RollupReport};
use crate::value::{
    Answer, MatrixSeries, QueryTime, QueryValue, Request, SampleValue, Stats, VectorSample,
};

/// Limits and defaults of the queries of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How far back an instant selector looks for a sample. Prometheus' five minutes.
    pub lookback: Duration,
    /// The step of a subquery that names none. Prometheus' evaluation interval of one minute.
    pub default_step: Duration,
    /// Longest run time of a query. Prometheus' two minutes.
    pub timeout: Duration,
    /// Most samples of an answer. Prometheus' fifty million.
    pub samples_max: usize,
    /// Most bytes of rows that one query holds at a time.
    pub memory_max: usize,
    /// Most bytes of a label value that functions such as `label_join` make. As many as a stored
    /// one may have, whatever ingest admits, so that functions can copy any.
    pub label_value_bytes_max: usize,
    /// Most steps of a range query. Prometheus' 11 000: a week by the minute, and some.
    pub steps_max: usize,
    /// Whether functions that drop the metric name do so at the end of the evaluation, as in
    /// Prometheus with the feature `promql-delayed-name-removal`. Off there, so off here.
    pub delayed_name_removal: bool,
    /// What selectors imply about labels that they do not name.
    pub implied: Arc<ImpliedMatchers>,
    /// Which rewrites of the plan are applied. All of them, except to measure the effect of one.
    pub rules: Rules,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            lookback: Duration::from_secs(300),
            default_step: Duration::from_secs(60),
            timeout: Duration::from_secs(120),
            samples_max: 50_000_000,
            memory_max: 1 << 30,
            label_value_bytes_max: 32 << 10,
            steps_max: 11_000,
            delayed_name_removal: false,
            implied: Arc::default(),
            rules: Rules::ALL,
        }
    }
}

/// Answers queries. Keeps no state between them.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    options: EngineOptions,
}

impl Engine {
    pub fn new(options: EngineOptions) -> Self {
        Self { options }
    }

    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Answers a query. The future is CPU-bound: run it on a thread that may block, not on an async
    /// worker. Setting `canceled` ends it with the next batch.
    pub async fn execute(
        &self,
        source: &dyn SeriesSource,
        request: &Request,
        canceled: &AtomicBool,
    ) -> Result<Answer> {
        let (answer, _) = self.run(source, request, canceled, None).await?;
        Ok(answer)
    }

    /// Answers a query, and explains how: its plan as text for people, with what each part took.
    pub async fn execute_explained(
        &self,
        source: &dyn SeriesSource,
        request: &Request,
        canceled: &AtomicBool,
    ) -> Result<(Answer, String)> {
        let profile = Some(Profile::new());
        let (answer, explained) = self.run(source, request, canceled, profile).await?;
        Ok((answer, explained.unwrap_or_default()))
    }

    /// The answer, and the plan as text if there is a profile.
    async fn run(
        &self,
        source: &dyn SeriesSource,
        request: &Request,
        canceled: &AtomicBool,
        profile: Option<Profile>,
    ) -> Result<(Answer, Option<String>)> {
        let started = Instant::now();
        let timeout = request.timeout.map_or(self.options.timeout, |timeout| {
            timeout.min(self.options.timeout)
        });
        let expr = parse(&request.query)?;
        let parsed = Instant::now();
        let plan = self.plan(request, &expr)?;
        let planned = Instant::now();
        let limits = Limits {
            memory_bytes: self.options.memory_max,
            samples: self.options.samples_max,
            label_value_bytes: self.options.label_value_bytes_max,
        };
        let mut context = Context::new(source, limits, canceled, started.checked_add(timeout));
        context.rollup = RollupReport::new(plan.rollup);
        context.profile = profile;
        if request.counts_touched {
            context.count_touched(plan.grid);
        }
        context.check()?;
        let run = Run::new(&context, &plan);
        let value = value_of(&run).await?;
        let (value, truncated) = limited(value, request.limit);
        let (mut warnings, mut infos) = context.annotations.render(&request.query);
        let (about_rollup, rollup_infos) = context.rollup.render();
        warnings.extend(about_rollup);
        infos.extend(rollup_infos);
        if truncated {
            warnings.push("results truncated due to limit".to_string());
        }
        let (samples_touched, samples_per_step, samples_read_per_step) = context.touched();
        let stats = Stats {
            samples_touched,
            samples_per_step,
            samples_read_per_step,
            samples_read: context.samples_read.load(Ordering::Relaxed),
            series_read: context.series_read.load(Ordering::Relaxed),
            windows_read: context.rollup.windows_read(),
            memory_peak_bytes: context.memory_peak() as u64,
            parse_seconds: (parsed - started).as_secs_f64(),
            plan_seconds: (planned - parsed).as_secs_f64(),
            execute_seconds: planned.elapsed().as_secs_f64(),
        };
        let answer = Answer {
            value,
            warnings,
            infos,
            stats,
        };
        let explained = context.profile.as_ref();
        let explained = explained.map(|profile| plan::explain(&plan, Some(profile)));
        Ok((answer, explained))
    }

    /// The plan of a query as text for people.
    pub fn explain(&self, request: &Request) -> Result<String> {
        let expr = parse(&request.query)?;
        Ok(plan::explain(&self.plan(request, &expr)?, None))
    }

    fn plan(&self, request: &Request, expr: &crate::parse::Expr) -> Result<Plan> {
        let (grid, end_ms, is_range) = match request.time {
            QueryTime::Instant { time_ms } => (Grid::instant(time_ms), time_ms, false),
            QueryTime::Range {
                start_ms,
                end_ms,
                step_ms,
            } => (self.range_grid(start_ms, end_ms, step_ms)?, end_ms, true),
        };
        let lookback_ms = match request.lookback_ms {
            Some(lookback_ms) if lookback_ms > 0 => lookback_ms,
            _ => millis(self.options.lookback),
        };
        let context = PlanContext {
            query: &request.query,
            grid,
            end_ms,
            is_range,
            lookback_ms,
            default_step_ms: millis(self.options.default_step),
            delayed_names: self.options.delayed_name_removal,
            implied: &self.options.implied,
            rollup: RollupOptions {
                max_ms: request.max_source_resolution,
                is_strict: request.rollup_strict,
            },
        };
        let mut plan = plan::build(context, expr, self.options.rules)?;
        plan::optimize(&mut plan, self.options.rules);
        Ok(plan)
    }

    fn range_grid(&self, start_ms: i64, end_ms: i64, step_ms: i64) -> Result<Grid> {
        let refuse = |reason: &str| Err(Error::Invalid(reason.to_string()));
        if step_ms <= 0 {
            return refuse(
                "zero or negative query resolution step widths are not accepted. Try a positive integer",
            );
        }
        if end_ms < start_ms {
            return refuse("end timestamp must not be before start time");
        }
        let grid = Grid::range(start_ms, end_ms, step_ms);
        if grid.steps > self.options.steps_max.saturating_add(1) {
            return refuse(
                "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
            );
        }
        Ok(grid)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

async fn value_of<'q>(run: &'q Run<'q>) -> Result<QueryValue> {
    let plan = run.plan;
    let time_ms = plan.grid.start_ms;
    match &plan.root {
        Root::Text(text) => Ok(QueryValue::Text {
            time_ms,
            text: text.clone(),
        }),
        Root::Scalar(node) => {
            let column = operators::scalar(run, node).await?;
            Ok(if plan.is_range {
                scalar_matrix(plan.grid, &column)
            } else {
                QueryValue::Scalar {
                    time_ms,
                    value: column.at(0),
                }
            })
        }
        Root::Matrix(input, windows) => {
            let series = operators::range_samples(run, input, windows).await?;
            Ok(QueryValue::Matrix(series))
        }
        Root::Vector(node) => {
            let mut operator = operators::build(run, node);
            let (mut rows, _held) = operators::collect(run.context, &mut *operator).await?;
            if plan.delayed_names {
                operators::drop_names(&mut rows);
            }
            let rows = merge_equal_labels(rows)?;
            check_samples(&rows, run.context.limits.samples)?;
            Ok(if plan.is_range {
                matrix(plan.grid, rows)
            } else {
                vector(time_ms, rows)
            })
        }
    }
}

fn check_samples(rows: &[Row], samples_max: usize) -> Result<()> {
    let samples: usize = rows.iter().map(|row| row.values.floats.len()).sum();
    if samples > samples_max {
        Err(Error::LimitReached(
            "query processing would load too many samples into memory in query execution"
                .to_string(),
        ))
    } else {
        Ok(())
    }
}

fn scalar_matrix(grid: Grid, column: &ScalarColumn) -> QueryValue {
    let values = Values {
        floats: (0..grid.steps).map(|step| column.at(step)).collect(),
        histograms: Vec::new(),
    };
    QueryValue::Matrix(vec![MatrixSeries::on_grid(Labels::empty(), grid, values)])
}

fn matrix(grid: Grid, mut rows: Vec<Row>) -> QueryValue {
    rows.sort_by(|a, b| operators::answer_order(&a.labels, &b.labels));
    let series = rows
        .into_iter()
        .filter(|row| !row.values.is_empty())
        .map(|row| MatrixSeries::on_grid(row.labels, grid, row.values));
    QueryValue::Matrix(series.collect())
}

fn vector(time_ms: i64, rows: Vec<Row>) -> QueryValue {
    let sample = |row: Row| {
        let value = match (row.values.histogram(0), row.values.float(0)) {
            (Some(histogram), _) => SampleValue::Histogram(histogram.clone()),
            (None, Some(value)) => SampleValue::Float(value),
            (None, None) => return None,
        };
        Some(VectorSample {
            labels: row.labels,
            time_ms,
            value,
        })
    };
    QueryValue::Vector(rows.into_iter().filter_map(sample).collect())
}

/// At most `limit` series, and whether there were more.
fn limited(value: QueryValue, limit: Option<usize>) -> (QueryValue, bool) {
    let limit = match limit {
        None | Some(0) => usize::MAX,
        Some(limit) => limit,
    };
    match value {
        QueryValue::Vector(mut samples) if samples.len() > limit => {
            samples.truncate(limit);
            (QueryValue::Vector(samples), true)
        }
        QueryValue::Matrix(mut series) if series.len() > limit => {
            series.truncate(limit);
            (QueryValue::Matrix(series), true)
        }
        value => (value, false),
    }
}
