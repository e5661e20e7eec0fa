//! Reading what overlays, buckets of windows and remnants have of some series.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use bytes::Bytes;
use icecore_records::key;

use super::super::batches::{SeriesRecords, SourceRecord};
use super::super::sources::Source;
use super::series::{Chunk, ChunkSeries};
use crate::buckets::record_kind::RecordKind;
use crate::error::{Error, Result};
use crate::slate::fetch::{FetchedRecord, fetch};
use crate::slate::read_view::View;
use crate::stored::{self, SharedColumns};

/// A series by its place in label order, with the overlays that have it, each with its id there.
pub(super) type OverlaySeries = (u32, Vec<(usize, u32)>);

pub(super) struct ChunkReader<'r> {
    pub(super) view: &'r View,
    /// The overlays, and then the buckets of windows, and then remnants.
    pub(super) sources: &'r [Source],
    /// Which of them have windows.
    pub(super) windows: Range<usize>,
    /// Whether labels of all series are needed.
    pub(super) with_labels: bool,
    pub(super) concurrent_gets: usize,
}

impl ChunkReader<'_> {
    /// Reads what overlays and targets have of some series.
    ///
    /// `ids` are those that each target, by its place among the sources, has for series. Returns
    /// also how many bytes were read.
    pub(super) async fn read(
        &self,
        series: &[OverlaySeries],
        ids: &[(usize, HashMap<u32, u32>)],
    ) -> Result<(Chunk, usize)> {
        let mut chunk = Chunk::default();
        // By source: ids, with the place of their series.
        let mut wanted: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); self.sources.len()];
        for (place, (new, places)) in series.iter().enumerate() {
            for (at, id) in places {
                wanted[*at].insert(*id, place);
            }
            let of_targets = ids.iter().map(|(_, ids)| ids.get(new).copied());
            let mut of_targets: Vec<Option<u32>> = of_targets.collect();
            for ((at, _), id) in ids.iter().zip(&of_targets) {
                wanted[*at].extend(id.map(|id| (id, place)));
            }
            let in_remnants = of_targets.split_off(self.windows.len());
            chunk.series.push(ChunkSeries {
                in_remnants,
                records: SeriesRecords {
                    id: *new,
                    records: Vec::new(),
                },
                ids: of_targets,
                forward: None,
            });
        }
        let mut bytes = 0;
        for (at, wanted) in wanted.iter().enumerate() {
            for record in self.records(at, wanted).await? {
                bytes += record.value.len();
                if let Some(place) = wanted.get(&record.id.0) {
                    chunk.series[*place].records.records.push(record);
                }
            }
        }
        self.read_forward(series, &mut chunk).await?;
        chunk.columns = self.columns(&chunk).await?;
        Ok((chunk, bytes))
    }

    /// What a source has of series.
    async fn records(&self, at: usize, wanted: &BTreeMap<u32, usize>) -> Result<Vec<SourceRecord>> {
        let source = &self.sources[at];
        let ids: Vec<u32> = wanted.keys().copied().collect();
        let gets = self.concurrent_gets;
        let bucket = source.bucket;
        let kinds = if self.windows.contains(&at) {
            &[(RecordKind::Windows, RecordKind::HistogramWindows)][..]
        } else {
            &[
                (RecordKind::Floats, RecordKind::Starts),
                (RecordKind::Histograms, RecordKind::HistogramStarts),
                (RecordKind::Exemplars, RecordKind::Exemplars),
            ][..]
        };
        let mut records = Vec::new();
        for (plain, behind) in kinds {
            let key_of = |id| plain.key(bucket, id);
            for found in fetch(self.view, &ids, key_of, true, gets).await? {
                let FetchedRecord { id, suffix, value } = found;
                let kind = match suffix {
                    0 => *plain,
                    1 if plain != behind => *behind,
                    // Written by a newer version, which would have to be asked what it means.
                    _ => {
                        return Err(Error::Corrupt(
                            format!("bucket {bucket} has records that this version does not know")
                                .into(),
                        ));
                    }
                };
                records.push(SourceRecord {
                    source: at,
                    id,
                    kind,
                    value,
                });
            }
        }
        Ok(records)
    }

    /// Reads the forward records of series that some target does not have, or of all.
    async fn read_forward(&self, series: &[OverlaySeries], chunk: &mut Chunk) -> Result<()> {
        let gets = self.concurrent_gets;
        let mut wanted: BTreeMap<usize, BTreeMap<u32, usize>> = BTreeMap::new();
        for (place, (_, places)) in series.iter().enumerate() {
            let is_needed = self.with_labels || chunk.series[place].ids.contains(&None);
            if let Some((at, id)) = places.last().filter(|_| is_needed) {
                wanted.entry(*at).or_default().insert(*id, place);
            }
        }
        for (at, wanted) in wanted {
            let bucket = self.sources[at].bucket;
            let ids: Vec<u32> = wanted.keys().copied().collect();
            let key_of = |id| key::forward_index(bucket, id);
            for found in fetch(self.view, &ids, key_of, false, gets).await? {
                if let Some(place) = wanted.get(&found.id.0) {
                    // A copy: what was read is a slice of a whole block.
                    let value = Bytes::copy_from_slice(&found.value);
                    chunk.series[*place].forward = Some(value);
                }
            }
        }
        Ok(())
    }

    /// The shared columns of timestamps that records of samples refer to, by source.
    async fn columns(&self, chunk: &Chunk) -> Result<Vec<SharedColumns>> {
        let mut columns = Vec::with_capacity(self.sources.len());
        for (at, source) in self.sources.iter().enumerate() {
            let mut wanted = BTreeSet::new();
            let records = chunk.series.iter().flat_map(|s| &s.records.records);
            let floats =
                records.filter(|record| record.source == at && record.kind == RecordKind::Floats);
            for record in floats {
                let (id, value) = (record.id, &record.value);
                stored::add_referenced_columns(source.bucket, id, value, &mut wanted)?;
            }
            let mut of_source = SharedColumns::new();
            stored::read_columns(self.view, source.bucket, &wanted, &mut of_source).await?;
            columns.push(of_source);
        }
        Ok(columns)
    }
}
