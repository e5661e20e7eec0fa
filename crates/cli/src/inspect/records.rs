//! `inspect records`: keys and values, taken apart.

use clap::Args;
use icecore_storage::inspect::{Bucket, Fact, Inspector, RecordSelection, RecordType, RecordView};
use serde_json::{Map, Value, json};

use super::parse_type;
use crate::output::{Format, Output, unhex};
use crate::utc::format_ms;

#[derive(Args)]
#[command(next_help_heading = "Records")]
pub(super) struct RecordArgs {
    /// Only keys that begin with these bytes
    #[arg(long, value_name = "HEX", value_parser = unhex)]
    prefix: Option<HexBytes>,

    /// Only records of this type, for example ForwardIndex
    #[arg(long = "type", value_name = "NAME", value_parser = parse_type)]
    record_type: Option<RecordType>,

    /// Only keys from this one on
    #[arg(long, value_name = "HEX", value_parser = unhex)]
    from: Option<HexBytes>,

    /// Only keys before this one
    #[arg(long, value_name = "HEX", value_parser = unhex)]
    to: Option<HexBytes>,

    /// Show the bytes of values, too
    #[arg(long)]
    pub(super) hex: bool,

    /// Show everything that is in a record
    #[arg(short, long)]
    verbose: bool,
}

/// A name of its own, because clap takes a `Vec` for a flag that is repeated.
type HexBytes = Vec<u8>;

impl RecordArgs {
    pub(super) fn is_given(&self) -> bool {
        let text = [&self.prefix, &self.from, &self.to];
        text.iter().any(|bytes| bytes.is_some())
            || self.record_type.is_some()
            || self.hex
            || self.verbose
    }

    pub(super) fn selection(&self, bucket: Option<Bucket>, limit: Option<u64>) -> RecordSelection {
        RecordSelection {
            prefix: self.prefix.clone().unwrap_or_default(),
            record_type: self.record_type,
            bucket,
            from: self.from.clone().unwrap_or_default(),
            to: self.to.clone(),
            limit,
            details: self.verbose,
        }
    }
}

pub(super) async fn show(
    inspector: &mut Inspector,
    selection: &RecordSelection,
    format: Format,
    with_hex: bool,
    output: &mut Output,
) -> anyhow::Result<()> {
    let mut written = Ok(true);
    inspector
        .records(selection, |record| {
            written = match format {
                Format::Json => output.json(&to_json(&record, with_hex)),
                Format::Text => print(&record, with_hex, output),
            };
            matches!(written, Ok(true))
        })
        .await?;
    written?;
    Ok(())
}

fn print(record: &RecordView, with_hex: bool, output: &mut Output) -> std::io::Result<bool> {
    let facts = record.facts.iter();
    let facts: Vec<String> = facts
        .map(|(name, fact)| format!("{name}={}", text(fact)))
        .collect();
    let bytes = record.value.len();
    let mut line = format!(
        "{}  {}  {bytes} B  {}",
        hex::encode(&record.key),
        record.name,
        facts.join(" ")
    );
    if let Some(problem) = &record.problem {
        line.push_str(&format!("  PROBLEM: {problem}"));
    }
    let mut more = output.line(line.trim_end())?;
    // What this program cannot read is shown as it is.
    if with_hex || record.problem.is_some() || record.record_type.is_none() {
        more = output.line(&format!("    value {}", hex::encode(&record.value)))?;
    }
    for detail in &record.details {
        more = output.line(&format!("    {detail}"))?;
    }
    Ok(more)
}

fn text(fact: &Fact) -> String {
    match fact {
        Fact::Count(count) => count.to_string(),
        Fact::Number(number) => number.to_string(),
        Fact::Time(ms) => format_ms(*ms),
        Fact::Text(text) if text.contains([' ', '\n']) || text.is_empty() => format!("{text:?}"),
        Fact::Text(text) | Fact::Series(text) => text.clone(),
    }
}

fn to_json(record: &RecordView, with_hex: bool) -> Value {
    let facts = record.facts.iter().map(|(name, fact)| {
        let value = match fact {
            Fact::Count(count) => json!(count),
            // NaN and infinities have no JSON number.
            Fact::Number(number) if !number.is_finite() => json!(number.to_string()),
            Fact::Number(number) => json!(number),
            Fact::Time(ms) => json!(ms),
            Fact::Text(text) | Fact::Series(text) => json!(text),
        };
        ((*name).to_owned(), value)
    });
    let mut object = Map::new();
    object.insert("key".into(), json!(hex::encode(&record.key)));
    object.insert("name".into(), json!(record.name));
    object.insert(
        "type".into(),
        json!(record.record_type.map(RecordType::name)),
    );
    object.insert("bucket".into(), json!(record.bucket.map(|b| b.to_string())));
    object.insert("valueBytes".into(), json!(record.value.len()));
    object.insert("facts".into(), Value::Object(Map::from_iter(facts)));
    object.insert("problem".into(), json!(record.problem));
    if !record.details.is_empty() {
        object.insert("details".into(), json!(record.details));
    }
    if with_hex {
        object.insert("value".into(), json!(hex::encode(&record.value)));
    }
    Value::Object(object)
}
