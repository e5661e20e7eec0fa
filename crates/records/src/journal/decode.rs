//! Reads one block back, for replay and for readers that follow the journal.

use icecore_model::{CatalogChange, Exemplar, Histogram, Labels, Metadata};

use super::compression::read_section;
use super::{RECORD, floats, kind};
use crate::forward_index::{read_bindings, read_pairs};
use crate::metadata::read_metadata;
use crate::reader::Reader;
use crate::{DecodeError, histogram};

/// One kind of content of a block. References are those of the record's epoch.
#[derive(Clone, Debug)]
pub enum Section {
    /// Labels of references that are used from here on.
    Definitions(Vec<(u32, Labels)>),
    /// Float samples as columns of equal length.
    Floats {
        refs: Vec<u32>,
        timestamps: Vec<i64>,
        values: Vec<f64>,
    },
    /// Reference, timestamp, histogram.
    Histograms(Vec<(u32, i64, Histogram)>),
    Exemplars(Vec<(u32, Exemplar)>),
    /// Metric family and its metadata.
    Metadata(Vec<(String, Metadata)>),
    /// Reference, timestamp of the sample, start timestamp.
    StartTimestamps(Vec<(u32, i64, i64)>),
    /// The events of the request, in bytes of their own.
    Events(Vec<u8>),
    /// How many of the last floats and histograms of the block are running totals of deltas.
    Totals {
        floats: usize,
        histograms: usize,
    },
    /// Records of the catalog, in the order of their changes.
    Catalog(Vec<CatalogChange>),
    /// Written by a newer program. It must be reported: it is data that is not read.
    Unknown {
        kind: u8,
    },
}

/// The sections of a block, in order; of each kind one, however many it was written as.
pub fn decode_block(block: &[u8]) -> Result<Vec<Section>, DecodeError> {
    let mut sections = Vec::new();
    each_section(block, |section_kind, raw| {
        let section = match section_kind {
            kind::DEFINITIONS => Section::Definitions(all(raw, |reader| {
                Ok((reader.varint32()?, read_bindings(reader)?))
            })?),
            other => decode_section(other, raw)?,
        };
        push(&mut sections, section);
        Ok(())
    })?;
    Ok(sections)
}

/// The same without label sets: `define` gets each definition as pairs that are sorted by name, and
/// no section holds them. A replay has millions of definitions and needs none as a label set.
pub fn decode_block_with(
    block: &[u8],
    mut define: impl FnMut(u32, &[(&str, &str)]),
) -> Result<Vec<Section>, DecodeError> {
    let mut sections = Vec::new();
    each_section(block, |section_kind, raw| {
        if section_kind != kind::DEFINITIONS {
            push(&mut sections, decode_section(section_kind, raw)?);
            return Ok(());
        }
        let mut reader = Reader::new(RECORD, raw);
        let mut pairs = Vec::new();
        while !reader.is_empty() {
            let number = reader.varint32()?;
            read_pairs(&mut reader, &mut pairs)?;
            define(number, &pairs);
        }
        Ok(())
    })?;
    Ok(sections)
}

fn each_section(
    block: &[u8],
    mut visit: impl FnMut(u8, &[u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut reader = Reader::new(RECORD, block);
    let mut buffer = Vec::new();
    while !reader.is_empty() {
        let section_kind = reader.u8()?;
        visit(section_kind, read_section(&mut reader, &mut buffer)?)?;
    }
    Ok(())
}

fn push(sections: &mut Vec<Section>, next: Section) {
    let rest = join(sections.last_mut(), next);
    sections.extend(rest);
}

/// Appends a section to one of the same kind; returns it where the kinds differ.
fn join(last: Option<&mut Section>, next: Section) -> Option<Section> {
    match (last, next) {
        (Some(Section::Definitions(all)), Section::Definitions(more)) => all.extend(more),
        (
            Some(Section::Floats {
                refs,
                timestamps,
                values,
            }),
            Section::Floats {
                refs: more_refs,
                timestamps: more_timestamps,
                values: more_values,
            },
        ) => {
            refs.extend(more_refs);
            timestamps.extend(more_timestamps);
            values.extend(more_values);
        }
        (Some(Section::Histograms(all)), Section::Histograms(more)) => all.extend(more),
        (Some(Section::Exemplars(all)), Section::Exemplars(more)) => all.extend(more),
        (Some(Section::Metadata(all)), Section::Metadata(more)) => all.extend(more),
        (Some(Section::StartTimestamps(all)), Section::StartTimestamps(more)) => all.extend(more),
        (Some(Section::Events(all)), Section::Events(more)) => all.extend(more),
        (Some(Section::Catalog(all)), Section::Catalog(more)) => all.extend(more),
        (_, next) => return Some(next),
    }
    None
}

fn decode_section(section_kind: u8, raw: &[u8]) -> Result<Section, DecodeError> {
    Ok(match section_kind {
        kind::FLOATS => {
            let (refs, timestamps, values) = floats::decode(raw)?;
            Section::Floats {
                refs,
                timestamps,
                values,
            }
        }
        kind::HISTOGRAMS => Section::Histograms(all(raw, read_histogram)?),
        kind::EXEMPLARS => Section::Exemplars(all(raw, read_exemplar)?),
        kind::METADATA => Section::Metadata(all(raw, |reader| {
            Ok((reader.text()?.to_owned(), read_metadata(reader)?))
        })?),
        kind::START_TIMESTAMPS => Section::StartTimestamps(all(raw, |reader| {
            let (series_ref, timestamp) = (reader.varint32()?, reader.zigzag()?);
            Ok((
                series_ref,
                timestamp,
                timestamp.wrapping_add(reader.zigzag()?),
            ))
        })?),
        kind::EVENTS => Section::Events(raw.to_vec()),
        kind::TOTALS => {
            let mut reader = Reader::new(RECORD, raw);
            let (floats, histograms) = (reader.varint32()?, reader.varint32()?);
            reader.finish()?;
            Section::Totals {
                floats: floats as usize,
                histograms: histograms as usize,
            }
        }
        kind::CATALOG => Section::Catalog(all(raw, read_change)?),
        kind => Section::Unknown { kind },
    })
}

/// Reads entries until the section ends.
fn all<T>(
    raw: &[u8],
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut reader = Reader::new(RECORD, raw);
    let mut entries = Vec::new();
    while !reader.is_empty() {
        entries.push(read(&mut reader)?);
    }
    Ok(entries)
}

fn read_histogram(reader: &mut Reader<'_>) -> Result<(u32, i64, Histogram), DecodeError> {
    let (series_ref, timestamp) = (reader.varint32()?, reader.zigzag()?);
    let histogram = histogram::read(reader, None)?;
    let histogram = histogram.ok_or_else(|| reader.error("entry without a histogram"))?;
    Ok((series_ref, timestamp, histogram))
}

fn read_change(reader: &mut Reader<'_>) -> Result<CatalogChange, DecodeError> {
    let key = reader.counted_bytes()?.to_vec();
    let is_written = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return Err(reader.error("a catalog record is neither written nor removed")),
    };
    let value = reader.counted_bytes()?.to_vec();
    if !is_written && !value.is_empty() {
        return Err(reader.error("a removed catalog record has a value"));
    }
    Ok(CatalogChange {
        key,
        value: is_written.then_some(value),
    })
}

fn read_exemplar(reader: &mut Reader<'_>) -> Result<(u32, Exemplar), DecodeError> {
    let (series_ref, timestamp_ms) = (reader.varint32()?, reader.zigzag()?);
    let value = reader.f64()?;
    let labels = read_bindings(reader)?;
    Ok((
        series_ref,
        Exemplar {
            labels,
            timestamp_ms,
            value,
        },
    ))
}
