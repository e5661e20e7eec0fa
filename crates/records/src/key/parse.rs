//! Keys back into what they name, for inspection, for replay and for the merge operator.

use std::fmt;

use icecore_model::event::{CellKey, IdentityKey};
use icecore_model::{BucketSize, BucketStart};

use super::{
    CATALOG_CURSOR_KIND, CATALOG_RECORD_KINDS, DELTA_TOTALS_KIND, EPOCH_SUMMARY_KIND, ESCAPE,
    EVENT_MARK_KIND, EVENTS_SEALED_KIND, FLUSH_CURSOR_KIND, JOURNAL_WATERMARK_KIND,
    MAINTENANCE_JOB_KIND, METRIC_METADATA_KIND, RESTORE_MARK_KIND, RETENTION_STATE_KIND,
    RETIRED_BUCKET_KIND, ROLLUP_HISTOGRAMS_SUFFIX, STARTS_SUFFIX, TERMINATOR, TIME_COLUMN_SUFFIX,
    TOMBSTONES_KIND, VERSION, event,
};
use crate::reader::Reader;
use crate::{Bucket, DecodeError, RecordType, SeriesId};

/// What a key names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedKey {
    BucketList,
    SeriesDictionary {
        bucket: Bucket,
        fingerprint: u128,
    },
    ForwardIndex {
        bucket: Bucket,
        series: SeriesId,
    },
    InvertedIndex {
        bucket: Bucket,
        name: String,
        value: String,
    },
    TimeSeries {
        bucket: Bucket,
        series: SeriesId,
    },
    TimeSeriesStarts {
        bucket: Bucket,
        series: SeriesId,
    },
    RollupSeries {
        bucket: Bucket,
        series: SeriesId,
    },
    RollupHistograms {
        bucket: Bucket,
        series: SeriesId,
    },
    BucketMeta {
        bucket: Bucket,
    },
    TimeColumn {
        bucket: Bucket,
        column: u32,
    },
    HistogramSeries {
        bucket: Bucket,
        series: SeriesId,
    },
    HistogramSeriesStarts {
        bucket: Bucket,
        series: SeriesId,
    },
    ExemplarSeries {
        bucket: Bucket,
        series: SeriesId,
    },
    Journal {
        epoch: u32,
        seq: u64,
    },
    FlushCursor {
        bucket: Bucket,
    },
    CatalogCursor,
    JournalWatermark,
    MaintenanceJob,
    RetiredBucket {
        bucket: Bucket,
    },
    DeltaTotalsCursor,
    DeltaTotals {
        part: u16,
    },
    Tombstones {
        bucket: Bucket,
    },
    RestoreMark,
    RetentionState,
    EpochSummary {
        epoch: u32,
    },
    /// Up to where the events of the journal are in cells.
    EventMark,
    /// Up to where the events of the journal are in files.
    EventsSealed,
    EventCell(CellKey),
    EventIdentity(IdentityKey),
    /// A record of another part of the program.
    CatalogRecord {
        key: Vec<u8>,
    },
    MetricMetadata {
        family: String,
    },
    /// A key version, record type or kind that this program does not know. Readers count it and
    /// leave it alone.
    Unknown {
        version: u8,
        tag: u8,
    },
}

impl ParsedKey {
    /// Reads a key. A key of a known shape that breaks its rules is an error.
    pub fn parse(key: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("key", key);
        let version = reader.u8()?;
        let tag = reader.u8()?;
        let unknown = Self::Unknown { version, tag };
        let Some(record_type) = RecordType::from_number(tag >> 4) else {
            return Ok(unknown);
        };
        if version != VERSION {
            return Ok(unknown);
        }
        let parsed = if record_type.is_bucket_scoped() {
            let bucket = bucket(tag & 0xf, &mut reader)?;
            parse_bucket_key(record_type, bucket, &mut reader)?
        } else if record_type == RecordType::EventCell {
            event::parse_cell(tag & 0xf, &mut reader)?
        } else if tag & 0xf != 0 {
            None
        } else {
            parse_global_key(record_type, &mut reader)?
        };
        let Some(parsed) = parsed else {
            return Ok(unknown);
        };
        reader.finish()?;
        Ok(parsed)
    }
}

fn parse_bucket_key(
    record_type: RecordType,
    bucket: Bucket,
    reader: &mut Reader<'_>,
) -> Result<Option<ParsedKey>, DecodeError> {
    let parsed = match record_type {
        RecordType::SeriesDictionary => {
            let fingerprint = u128::from_be_bytes(reader.array()?);
            ParsedKey::SeriesDictionary {
                bucket,
                fingerprint,
            }
        }
        RecordType::InvertedIndex => {
            let name = terminated(reader)?;
            let value = text(reader)?;
            ParsedKey::InvertedIndex {
                bucket,
                name,
                value,
            }
        }
        RecordType::BucketMeta if reader.is_empty() => ParsedKey::BucketMeta { bucket },
        RecordType::BucketMeta if reader.u8()? == TIME_COLUMN_SUFFIX => {
            let column = u32::from_be_bytes(reader.array()?);
            ParsedKey::TimeColumn { bucket, column }
        }
        RecordType::BucketMeta => return Ok(None),
        _ => {
            let series = SeriesId(u32::from_be_bytes(reader.array()?));
            return parse_series_key(record_type, bucket, series, reader);
        }
    };
    Ok(Some(parsed))
}

fn parse_series_key(
    record_type: RecordType,
    bucket: Bucket,
    series: SeriesId,
    reader: &mut Reader<'_>,
) -> Result<Option<ParsedKey>, DecodeError> {
    if reader.is_empty() {
        return Ok(match record_type {
            RecordType::ForwardIndex => Some(ParsedKey::ForwardIndex { bucket, series }),
            RecordType::TimeSeries => Some(ParsedKey::TimeSeries { bucket, series }),
            RecordType::RollupSeries => Some(ParsedKey::RollupSeries { bucket, series }),
            RecordType::HistogramSeries => Some(ParsedKey::HistogramSeries { bucket, series }),
            RecordType::ExemplarSeries => Some(ParsedKey::ExemplarSeries { bucket, series }),
            _ => None,
        });
    }
    let parsed = match (record_type, reader.u8()?) {
        (RecordType::TimeSeries, STARTS_SUFFIX) => ParsedKey::TimeSeriesStarts { bucket, series },
        (RecordType::HistogramSeries, STARTS_SUFFIX) => {
            ParsedKey::HistogramSeriesStarts { bucket, series }
        }
        (RecordType::RollupSeries, ROLLUP_HISTOGRAMS_SUFFIX) => {
            ParsedKey::RollupHistograms { bucket, series }
        }
        _ => return Ok(None),
    };
    Ok(Some(parsed))
}

fn parse_global_key(
    record_type: RecordType,
    reader: &mut Reader<'_>,
) -> Result<Option<ParsedKey>, DecodeError> {
    let parsed = match record_type {
        RecordType::BucketList => ParsedKey::BucketList,
        RecordType::Journal => {
            let epoch = u32::from_be_bytes(reader.array()?);
            let seq = u64::from_be_bytes(reader.array()?);
            ParsedKey::Journal { epoch, seq }
        }
        RecordType::Maintenance => match reader.u8()? {
            FLUSH_CURSOR_KIND => {
                let exponent = reader.u8()?;
                ParsedKey::FlushCursor {
                    bucket: bucket(exponent, reader)?,
                }
            }
            CATALOG_CURSOR_KIND => ParsedKey::CatalogCursor,
            JOURNAL_WATERMARK_KIND => ParsedKey::JournalWatermark,
            MAINTENANCE_JOB_KIND => ParsedKey::MaintenanceJob,
            RETIRED_BUCKET_KIND => {
                let exponent = reader.u8()?;
                ParsedKey::RetiredBucket {
                    bucket: bucket(exponent, reader)?,
                }
            }
            DELTA_TOTALS_KIND if reader.is_empty() => ParsedKey::DeltaTotalsCursor,
            DELTA_TOTALS_KIND => ParsedKey::DeltaTotals {
                part: u16::from_be_bytes(reader.array()?),
            },
            RESTORE_MARK_KIND => ParsedKey::RestoreMark,
            RETENTION_STATE_KIND => ParsedKey::RetentionState,
            EVENT_MARK_KIND => ParsedKey::EventMark,
            EVENTS_SEALED_KIND => ParsedKey::EventsSealed,
            EPOCH_SUMMARY_KIND => ParsedKey::EpochSummary {
                epoch: u32::from_be_bytes(reader.array()?),
            },
            TOMBSTONES_KIND => {
                let exponent = reader.u8()?;
                ParsedKey::Tombstones {
                    bucket: bucket(exponent, reader)?,
                }
            }
            _ => return Ok(None),
        },
        RecordType::EventIdentity => event::parse_identity(reader)?,
        RecordType::Catalog => match reader.u8()? {
            METRIC_METADATA_KIND => ParsedKey::MetricMetadata {
                family: text(reader)?,
            },
            kind if kind >= CATALOG_RECORD_KINDS => {
                let mut key = vec![kind];
                key.extend_from_slice(reader.rest());
                ParsedKey::CatalogRecord { key }
            }
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(parsed))
}

fn bucket(exponent: u8, reader: &mut Reader<'_>) -> Result<Bucket, DecodeError> {
    let size = BucketSize::from_exponent(exponent);
    let size = size.ok_or_else(|| reader.error("bucket size is not between 1 and 15"))?;
    let start = BucketStart(u32::from_be_bytes(reader.array()?));
    Ok(Bucket { size, start })
}

fn terminated(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let mut name = Vec::new();
    loop {
        match reader.u8()? {
            TERMINATOR => break,
            ESCAPE => match reader.u8()? {
                code @ 1..=2 => name.push(code - 1),
                _ => return Err(reader.error("unknown escape")),
            },
            byte => name.push(byte),
        }
    }
    String::from_utf8(name).map_err(|_| reader.error("label name is not UTF-8"))
}

fn text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let text = std::str::from_utf8(reader.rest());
    Ok(text
        .map_err(|_| reader.error("text is not UTF-8"))?
        .to_owned())
}

impl fmt::Display for ParsedKey {
    /// One readable line, for example `TimeSeries 1h@28333320 series 713`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BucketList => f.write_str("BucketList"),
            Self::SeriesDictionary {
                bucket,
                fingerprint,
            } => {
                write!(
                    f,
                    "SeriesDictionary {bucket} fingerprint {fingerprint:032x}"
                )
            }
            Self::ForwardIndex { bucket, series } => {
                write!(f, "ForwardIndex {bucket} series {series}")
            }
            Self::InvertedIndex {
                bucket,
                name,
                value,
            } => {
                write!(f, "InvertedIndex {bucket} {name:?}={value:?}")
            }
            Self::TimeSeries { bucket, series } => write!(f, "TimeSeries {bucket} series {series}"),
            Self::TimeSeriesStarts { bucket, series } => {
                write!(f, "TimeSeries {bucket} series {series} start timestamps")
            }
            Self::RollupSeries { bucket, series } => {
                write!(f, "RollupSeries {bucket} series {series}")
            }
            Self::RollupHistograms { bucket, series } => {
                write!(f, "RollupSeries {bucket} series {series} histograms")
            }
            Self::BucketMeta { bucket } => write!(f, "BucketMeta {bucket}"),
            Self::TimeColumn { bucket, column } => {
                write!(f, "BucketMeta {bucket} column of timestamps {column}")
            }
            Self::HistogramSeries { bucket, series } => {
                write!(f, "HistogramSeries {bucket} series {series}")
            }
            Self::HistogramSeriesStarts { bucket, series } => {
                write!(
                    f,
                    "HistogramSeries {bucket} series {series} start timestamps"
                )
            }
            Self::ExemplarSeries { bucket, series } => {
                write!(f, "ExemplarSeries {bucket} series {series}")
            }
            Self::Journal { epoch, seq } => write!(f, "Journal epoch {epoch} sequence {seq}"),
            Self::FlushCursor { bucket } => write!(f, "Maintenance flush cursor {bucket}"),
            Self::CatalogCursor => f.write_str("Maintenance catalog cursor"),
            Self::JournalWatermark => f.write_str("Maintenance journal watermark"),
            Self::MaintenanceJob => f.write_str("Maintenance job"),
            Self::RetiredBucket { bucket } => write!(f, "Maintenance retired bucket {bucket}"),
            Self::DeltaTotalsCursor => f.write_str("Maintenance cursor of running totals"),
            Self::DeltaTotals { part } => write!(f, "Maintenance running totals, part {part}"),
            Self::Tombstones { bucket } => write!(f, "Maintenance tombstones {bucket}"),
            Self::RestoreMark => f.write_str("Maintenance restore mark"),
            Self::RetentionState => f.write_str("Maintenance state of retention"),
            Self::EpochSummary { epoch } => write!(f, "Maintenance summary of epoch {epoch}"),
            Self::EventMark => f.write_str("Maintenance flush mark of events"),
            Self::EventsSealed => f.write_str("Maintenance sealed cursor of events"),
            Self::EventCell(cell) => event::fmt_cell(cell, f),
            Self::EventIdentity(identity) => event::fmt_identity(identity, f),
            Self::CatalogRecord { key } => {
                f.write_str("Catalog record ")?;
                key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::MetricMetadata { family } => write!(f, "Catalog metadata {family:?}"),
            Self::Unknown { version, tag } => {
                write!(f, "unknown (version {version}, tag {tag:#04x})")
            }
        }
    }
}
