//! `icecore opentsdb translate`: queries and dashboards of OpenTSDB, as PromQL.
//!
//! Holds always: standard output has the translation and nothing else, so that it can be piped;
//! what has to be true for it, and what has none, is said on standard error.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use icecore_model::format_duration_ms;
use icecore_opentsdb::translate::{
    Condition, DashboardOptions, Refusal, Steps, TranslateOptions, TranslatedPart, Translation,
    translate_body, translate_dashboard, translate_text,
};
use serde_json::{Value, json};

use crate::WrongUsage;
use crate::output::{Format, Output};
use crate::query::times::{Times, parse_duration_ms, seconds};

/// Most bytes of a file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Translate queries and dashboards to PromQL
///
/// The PromQL gives the same numbers over the same data, at the steps that are printed with it. If
/// that depends on the data, the conditions are said on standard error; if there is no such PromQL,
/// it is said why, and the exit code is 1.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Translate {
    /// What stands behind m= of /api/query, or behind exp= of /api/query/gexp
    #[arg(value_name = "QUERY")]
    queries: Vec<String>,

    /// The body of a request to /api/query or /api/query/exp; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "queries")]
    body: Option<PathBuf>,

    /// A dashboard of Grafana; it is printed with the queries replaced; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["queries", "body"])]
    dashboard: Option<PathBuf>,

    /// The UID of the data source in Grafana that answers PromQL
    #[arg(long, value_name = "UID", requires = "dashboard")]
    datasource: Option<String>,

    /// When the query starts, as OpenTSDB has it: 1h-ago, 2024/01/31-12:00, 1700000000
    #[arg(long, value_name = "TIME", conflicts_with = "dashboard")]
    start: Option<String>,

    /// When it ends; now by default
    #[arg(long, value_name = "TIME", requires = "start")]
    end: Option<String>,

    /// Refuse whatever is not the same for all data
    #[arg(long)]
    strict: bool,

    /// Interpolate gaps of series up to this long, as OpenTSDB does; makes longer expressions
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    bridge_gaps: Option<i64>,

    /// How queries are printed
    #[arg(short, long, value_enum, default_value_t, conflicts_with = "dashboard")]
    output: Format,
}

const EXAMPLES: &str = "\
Examples:
  icecore opentsdb translate 'sum:1m-avg:rate:sys.cpu.user{host=*}'
  icecore opentsdb translate 'scale(none:1m-avg:sys.cpu.user,100)'
  icecore opentsdb translate --start 1h-ago 'avg:5m-max-zero:sys.cpu.user' -o json
  icecore opentsdb translate --body query.json --strict
  icecore opentsdb translate --dashboard old.json --datasource icecore > new.json";

impl Translate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let options = TranslateOptions {
            start: self.start.clone().unwrap_or_default(),
            end: self.end.clone().unwrap_or_default(),
            now_ms: Times::now().of_now(),
            strict: self.strict,
            bridge_ms: self.bridge_gaps.filter(|ms| *ms > 0),
        };
        if let Some(file) = &self.dashboard {
            let uid = self.datasource.clone();
            let datasource_uid = uid.ok_or_else(|| {
                let cure = "its UID is in the address of its settings in Grafana";
                WrongUsage(format!("--dashboard needs --datasource: {cure}"))
            })?;
            let options = DashboardOptions {
                options,
                datasource_uid,
            };
            return dashboard(&read(file)?, &options);
        }
        let parts = match &self.body {
            Some(file) => translate_body(&read(file)?, &options)?,
            None if self.queries.is_empty() => {
                let usage = "nothing to translate: give a QUERY, --body or --dashboard";
                return Err(WrongUsage(usage.to_owned()).into());
            }
            None => {
                let parts = self.queries.iter().map(|query| TranslatedPart {
                    name: query.clone(),
                    translation: translate_text(query, &options),
                });
                parts.collect()
            }
        };
        match self.output {
            Format::Json => print_json(&parts)?,
            Format::Text => print_text(&parts)?,
        }
        let refused = parts.iter().filter(|part| part.translation.is_err());
        finish(refused.count(), parts.len())
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        let stdin = std::io::stdin();
        stdin.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        let open = std::fs::File::open(file);
        open.and_then(|open| open.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read {}", file.display()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!("{} has more than {FILE_BYTES_MAX} bytes", file.display());
    }
    Ok(text)
}

fn finish(refused: usize, all: usize) -> anyhow::Result<()> {
    if refused > 0 {
        bail!("{refused} of {all} not translated");
    }
    Ok(())
}

fn dashboard(text: &str, options: &DashboardOptions) -> anyhow::Result<()> {
    let translated = translate_dashboard(text, options)?;
    let mut output = Output::new();
    output.line(translated.json.trim_end())?;
    output.finish()?;
    let mut refused = 0;
    for line in &translated.report {
        match &line.outcome {
            Ok((conditions, notes)) => say(&line.place, conditions, notes),
            Err(reason) => {
                refused += 1;
                say_refusal(&line.place, reason);
            }
        }
    }
    finish(refused, translated.report.len())
}

fn say(place: &str, conditions: &[Condition], notes: &[String]) {
    for condition in conditions {
        eprintln!("{place}: the same if {condition}");
    }
    for note in notes {
        eprintln!("{place}: {note}");
    }
}

fn say_refusal(place: &str, reason: &Refusal) {
    eprintln!("{place}: not translated: {reason}");
}

fn print_text(parts: &[TranslatedPart]) -> anyhow::Result<()> {
    let mut output = Output::new();
    for part in parts {
        if let Ok(translation) = &part.translation {
            output.line(&translation.expr)?;
        }
    }
    output.finish()?;
    for TranslatedPart { name, translation } in parts {
        match translation {
            Ok(translation) => {
                eprintln!("{name}: {}", steps_text(&translation.steps));
                if let Some(legend) = &translation.legend {
                    eprintln!("{name}: legend {legend}");
                }
                say(name, &translation.conditions, &translation.notes);
            }
            Err(reason) => say_refusal(name, reason),
        }
    }
    Ok(())
}

fn steps_text(steps: &Steps) -> String {
    let step = match steps.step_ms {
        Some(step_ms) => format!("step {}", format_duration_ms(step_ms)),
        None => "a step at which there are points".to_owned(),
    };
    match steps.first_and_last_ms() {
        Some((start, end)) => format!("{step}, start {}, end {}", seconds(start), seconds(end)),
        None if steps.are_none() => format!("{step}; no step lies in the time asked for"),
        None => format!("{step}, start and end multiples of it"),
    }
}

fn print_json(parts: &[TranslatedPart]) -> anyhow::Result<()> {
    let parts = parts.iter().map(|part| match &part.translation {
        Ok(translation) => translation_json(&part.name, translation),
        Err(reason) => json!({"name": part.name, "refused": reason.to_string()}),
    });
    let mut output = Output::new();
    output.json(&Value::Array(parts.collect()))?;
    output.finish()?;
    Ok(())
}

fn translation_json(name: &str, translation: &Translation) -> Value {
    let steps = &translation.steps;
    let range = steps.first_and_last_ms();
    let text = |ms: Option<i64>| ms.map(seconds);
    let conditions: Vec<String> = translation
        .conditions
        .iter()
        .map(ToString::to_string)
        .collect();
    json!({
        "name": name,
        "expr": translation.expr,
        "legend": translation.legend,
        "step": steps.step_ms.map(format_duration_ms),
        "start": text(range.map(|range| range.0)),
        "end": text(range.map(|range| range.1)),
        "conditions": conditions,
        "notes": translation.notes,
    })
}
