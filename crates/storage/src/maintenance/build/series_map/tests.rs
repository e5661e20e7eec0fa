//! Runs of several buckets become one list of series, whatever the pages are.

use std::collections::BTreeMap;

use icecore_model::BucketStart;
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::{ForwardRecord, MetricMeta};
use proptest::prelude::*;

use super::*;
use crate::maintenance::build::sources::Source;

/// Forward records by id.
type Records = Vec<(u32, Bytes)>;

fn labels(name: &str) -> Labels {
    Labels::from_pairs([("__name__", "m"), ("a", name)])
}

/// A forward record; the unit tells where it came from.
fn record(name: &str, unit: usize) -> Bytes {
    let record = ForwardRecord {
        unit: unit.to_string(),
        meta: MetricMeta::default(),
        labels: labels(name),
    };
    forward_index::encode(&record).into()
}

/// A source whose runs have these series, with ids in this order.
fn source(hour: u32, runs: &[Vec<String>]) -> (Source, Records) {
    let bucket = Bucket::hour(BucketStart(hour * 60));
    let mut records = Vec::new();
    let mut ranges = Vec::new();
    for run in runs {
        let start = records.len() as u32;
        for name in run {
            records.push((records.len() as u32, record(name, hour as usize)));
        }
        ranges.push(start..records.len() as u32);
    }
    (Source::of(bucket, BucketMeta::default(), ranges), records)
}

/// Drives a merge with pages of this length, as the job does.
fn merged(
    sources: &[(Source, Records)],
    page_len: usize,
) -> Result<(Vec<NewSeries>, SeriesMap), UnsortedRun> {
    let plain: Vec<&Source> = sources.iter().map(|(source, _)| source).collect();
    let records: Vec<&Records> = sources.iter().map(|(_, records)| records).collect();
    let mut merge = Merge::new(plain.iter().copied());
    merge.page_len = page_len;
    let mut found = Vec::new();
    while !merge.is_done() {
        let pages = merge.wanted().into_iter().map(|wanted| {
            let at = plain
                .iter()
                .position(|s| s.bucket == wanted.bucket)
                .unwrap();
            let range = wanted.next as usize..wanted.end as usize;
            let mut page = records[at][range].to_vec();
            let last = page.len() <= wanted.len;
            page.truncate(wanted.len);
            Page {
                cursor: wanted.cursor,
                records: page,
                last,
                bytes: 0,
            }
        });
        let pages = pages.collect();
        merge.accept(pages).unwrap();
        found.extend(merge.advance()?);
    }
    Ok((found, merge.map))
}

fn sorted_names(names: &[u16]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|n| format!("{n:05}")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

proptest! {
    #[test]
    fn ids_are_in_label_order_and_map_back(
        hours in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(0u16..60, 1..40), 1..3),
            1..5,
        ),
        page_len in 1usize..10,
    ) {
        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        let mut sources = Vec::new();
        for (hour, runs) in hours.iter().enumerate() {
            let runs: Vec<Vec<String>> = runs.iter().map(|run| sorted_names(run)).collect();
            for name in runs.iter().flatten() {
                expected.insert(name.clone(), hour);
            }
            sources.push(source(hour as u32, &runs));
        }
        let (found, map) = merged(&sources, page_len).unwrap();
        prop_assert_eq!(found.len(), expected.len());
        prop_assert_eq!(map.len() as usize, expected.len());
        for (at, (series, (name, hour))) in found.iter().zip(&expected).enumerate() {
            prop_assert_eq!(series.id as usize, at);
            prop_assert_eq!(&series.value, &record(name, *hour), "of the newest source");
            prop_assert_eq!(series.labels, 2);
        }
        for (at, (_, records)) in sources.iter().enumerate() {
            for (id, value) in records {
                let new = map.new_id(at, *id).unwrap();
                let name = forward_index::decode(value).unwrap().labels;
                let new_name = forward_index::decode(&found[new as usize].value).unwrap().labels;
                prop_assert_eq!(name, new_name);
            }
        }
    }
}

#[test]
fn a_run_that_is_not_in_order_is_found_and_broken() {
    let names = |list: &[&str]| list.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let mut sources = vec![
        source(0, &[names(&["a", "c", "b", "d"])]),
        source(1, &[names(&["a", "b"])]),
    ];
    for page_len in [1, 2, 10] {
        let found = merged(&sources, page_len).err();
        assert_eq!(found, Some(UnsortedRun { source: 0, id: 2 }), "{page_len}");
    }
    sources[0].0.break_run(2);
    let (found, map) = merged(&sources, 2).unwrap();
    assert_eq!(found.len(), 4);
    assert_eq!((map.new_id(0, 1), map.new_id(0, 2)), (Some(2), Some(1)));
    assert_eq!(map.new_id(0, 4), None);
    assert_eq!(map.new_id(2, 0), None);
}

#[test]
fn a_broken_record_is_an_error() {
    let (source, mut records) = source(0, &[vec!["a".into()]]);
    records[0].1 = Bytes::from_static(b"\xff");
    let mut merge = Merge::new([&source]);
    let page = Page {
        cursor: 0,
        records,
        last: true,
        bytes: 0,
    };
    let refused = merge.accept(vec![page]);
    assert!(matches!(refused, Err(Error::Corrupt(text)) if text.to_string().contains("series 0")));
}
