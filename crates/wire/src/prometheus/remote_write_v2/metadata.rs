//! Metadata of a 2.0 request. It comes with every series; a catalog wants it once per family.

use icecore_model::{Metadata, MetricType, SampleSink};

use super::reference;
use super::symbols::Symbols;
use crate::prometheus::protobuf::{Reader, Result, known, varint_tag};

/// The metadata of one series as references.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MetadataRefs {
    metric_type: MetricType,
    help_ref: u32,
    unit_ref: u32,
}

impl MetadataRefs {
    /// Whether all fields are empty. Reference 0 is the empty string.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

pub(super) fn decode_metadata(message: &[u8], metadata: &mut MetadataRefs) -> Result<()> {
    const TYPE: u32 = varint_tag(1);
    const HELP_REF: u32 = varint_tag(3);
    const UNIT_REF: u32 = varint_tag(4);
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            TYPE => {
                metadata.metric_type =
                    MetricType::from_number(reader.varint()?).unwrap_or_default();
            }
            HELP_REF => metadata.help_ref = reference(reader.varint()?),
            UNIT_REF => metadata.unit_ref = reference(reader.varint()?),
            other => reader.skip_unknown(other, known(&[1, 3, 4]))?,
        }
    }
    Ok(())
}

/// The family that a series' metadata is about. 1.0 names it; here it follows from the metric name
/// and the type, so that a family has one entry in either version. A native histogram has
/// its family's name already.
pub(super) fn family_of<'a>(
    metric_name: &'a [u8],
    metadata: &MetadataRefs,
    has_histograms: bool,
) -> &'a [u8] {
    let suffixes: &[&[u8]] = match metadata.metric_type {
        MetricType::Histogram if !has_histograms => &[b"_bucket", b"_sum", b"_count"],
        MetricType::GaugeHistogram if !has_histograms => {
            &[b"_bucket", b"_gsum", b"_gcount", b"_sum", b"_count"]
        }
        MetricType::Summary => &[b"_sum", b"_count"],
        _ => &[],
    };
    suffixes
        .iter()
        .find_map(|suffix| metric_name.strip_suffix(*suffix))
        .unwrap_or(metric_name)
}

/// What the sink got last: the series of a family follow each other and repeat it.
#[derive(Default)]
pub(super) struct LastMetadata<'a> {
    family: &'a [u8],
    metadata: MetadataRefs,
}

impl<'a> LastMetadata<'a> {
    pub(super) fn emit(
        &mut self,
        family: &'a [u8],
        metadata: MetadataRefs,
        symbols: &Symbols<'a>,
        sink: &mut impl SampleSink,
    ) {
        if self.family == family && self.metadata == metadata {
            return;
        }
        (self.family, self.metadata) = (family, metadata);
        // A series without a name, or with one that is not UTF-8, is refused as a series.
        let Ok(family) = str::from_utf8(family) else {
            return;
        };
        if family.is_empty() {
            return;
        }
        let text = |reference| str::from_utf8(symbols.text(reference)?).ok();
        match (text(metadata.help_ref), text(metadata.unit_ref)) {
            (Some(help), Some(unit)) => {
                let metric_type = metadata.metric_type;
                sink.metadata(family, Metadata { metric_type, unit: unit.into(), help: help.into(), ..Metadata::default() });
            }
            _ => sink.reject(format!(
                "metadata of {family:?} refers to a symbol that does not exist or is not valid UTF-8"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_follow_from_name_and_type() {
        let family = |name: &str, metric_type, native| {
            let metadata = MetadataRefs {
                metric_type,
                ..MetadataRefs::default()
            };
            String::from_utf8(family_of(name.as_bytes(), &metadata, native).into()).unwrap()
        };
        assert_eq!(family("a_bucket", MetricType::Histogram, false), "a");
        assert_eq!(family("a_sum", MetricType::Histogram, false), "a");
        assert_eq!(family("a_count", MetricType::Summary, false), "a");
        assert_eq!(family("a", MetricType::Summary, false), "a");
        assert_eq!(family("a_gcount", MetricType::GaugeHistogram, false), "a");
        assert_eq!(family("a_count", MetricType::Histogram, true), "a_count");
        assert_eq!(family("a_count", MetricType::Counter, false), "a_count");
        assert_eq!(family("a_total", MetricType::Counter, false), "a_total");
    }
}
