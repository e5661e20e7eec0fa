//! What goes on behind the requests, from outside: late flushes, held-back flushes, folding, runs.

mod fold;
mod held_back;
mod late_flush;
mod run;

use bytes::Bytes;
use icecore_model::{BucketSize, BucketStart};
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::{Bucket, ParsedKey, RecordType, key};
use icecore_storage::testing::Hooks;

use crate::process::{Process, World};

/// The window of 16 hours whose fifteenth hour is `T0`.
const WINDOW: BucketStart = BucketStart(28_332_480);

/// A world in which a run does not wait until the compactor has dropped what was replaced.
fn world_without_compaction() -> World {
    let mut world = World::new();
    world.options.store.compaction = false;
    world
}

/// A bucket of the window.
fn bucket(hours: u32, hours_after: u32) -> Bucket {
    let exponent = hours.trailing_zeros() as u8 + 1;
    Bucket {
        size: BucketSize::from_exponent(exponent).unwrap(),
        start: BucketStart(WINDOW.minutes() + 60 * hours_after),
    }
}

/// All records of a bucket.
fn records_of(process: &Process, bucket: Bucket) -> Vec<(Bytes, Bytes)> {
    let types = RecordType::ALL.iter().filter(|t| t.is_bucket_scoped());
    let prefixes = types.map(|record_type| key::record_prefix(*record_type, bucket));
    prefixes
        .flat_map(|prefix| process.run(process.db.records(&prefix)).unwrap())
        .collect()
}

fn meta_of(process: &Process, bucket: Bucket) -> BucketMeta {
    let found = process
        .run(process.db.records(&key::bucket_meta(bucket)))
        .unwrap();
    bucket_meta::decode(&found[0].1).unwrap()
}

/// The value of the samples (or histograms) of each series of a bucket, by id.
fn values_of(process: &Process, record_type: RecordType, bucket: Bucket) -> Vec<Bytes> {
    let prefix = key::record_prefix(record_type, bucket);
    let mut records = process.run(process.db.records(&prefix)).unwrap();
    records.retain(|(key, _)| {
        let parsed = ParsedKey::parse(key).unwrap();
        matches!(
            parsed,
            ParsedKey::TimeSeries { .. } | ParsedKey::HistogramSeries { .. }
        )
    });
    records.into_iter().map(|(_, value)| value).collect()
}
