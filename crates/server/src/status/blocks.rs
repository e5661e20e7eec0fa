//! `/api/v1/status/tsdb/blocks`: our buckets in the shape of Prometheus' blocks.
//!
//! Holds always: at most [`BLOCKS_MAX`] are listed, the newest of them; a warning says so. A bucket
//! has one id as long as it lives.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_model::HOUR_MS;
use icecore_storage::{BucketFigures, BucketRole};
use serde_json::{Value, json};

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::success;

/// Most blocks of an answer, some megabytes: 18 years with as many buckets as a year can have.
pub(crate) const BLOCKS_MAX: usize = 10_000;

/// The letters of a ULID.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

pub(crate) async fn status(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let database = app.database()?;
    let slot = app.limits.read_slot().await?;
    let mut buckets = database.bucket_figures().await?;
    // One that is being made has nothing to read yet.
    buckets.retain(|bucket| bucket.role != BucketRole::Building);
    let omitted = buckets.len().saturating_sub(BLOCKS_MAX);
    let mut warnings = Vec::new();
    if omitted > 0 {
        warnings.push(format!(
            "results truncated due to limit: {omitted} older blocks are not listed"
        ));
    }
    success(slot, warnings, move |out| {
        let blocks: Value = buckets.iter().skip(omitted).map(block_json).collect();
        out.extend_from_slice(json!({"blocks": blocks}).to_string().as_bytes());
    })
    .await
}

fn block_json(bucket: &BucketFigures) -> Value {
    let ulid = ulid(bucket);
    let mut stats = json!({});
    for (key, count) in [("numSamples", bucket.samples), ("numSeries", bucket.series)] {
        if let Some(count) = count {
            stats[key] = count.into();
        }
    }
    json!({
        "ulid": ulid,
        "minTime": bucket.start_ms,
        "maxTime": bucket.end_ms,
        "stats": stats,
        "compaction": {
            "level": level(bucket),
            "sources": [ulid],
            // A retired bucket is dropped when its readers are done.
            "deletable": bucket.role == BucketRole::Retired,
            "hints": [bucket.resolution, bucket.role.word()],
        },
        "version": 1,
    })
}

/// The number of times by which a bucket was made of smaller ones, at most: each is four times as
/// long as those before it.
fn level(bucket: &BucketFigures) -> u32 {
    let hours = (bucket.end_ms - bucket.start_ms) / HOUR_MS;
    1 + u64::try_from(hours).unwrap_or(1).max(1).ilog(4)
}

/// An id as Prometheus' blocks have it: 48 bits of time, and 80 that tell buckets of one start
/// apart.
fn ulid(bucket: &BucketFigures) -> String {
    let hours = (bucket.end_ms - bucket.start_ms) / HOUR_MS;
    let words = [bucket.resolution, bucket.role.word()];
    // FNV-1a: any number does that is always the same.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let time = u128::from(bucket.start_ms.unsigned_abs()) & ((1 << 48) - 1);
    let hours = u128::from(hours.unsigned_abs()) & 0xffff;
    let mut id = (time << 80) | (hours << 64) | u128::from(hash);
    let mut text = [b'0'; 26];
    for letter in text.iter_mut().rev() {
        *letter = LETTERS[(id & 31) as usize];
        id >>= 5;
    }
    text.iter().map(|letter| char::from(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(start_ms: i64, hours: i64, role: BucketRole) -> BucketFigures {
        BucketFigures {
            start_ms,
            end_ms: start_ms + hours * HOUR_MS,
            resolution: "raw",
            role,
            series: Some(2),
            samples: None,
            bytes: None,
        }
    }

    #[test]
    fn ids_differ_and_begin_with_the_time() {
        let time = 1_700_000_000_000;
        let ids = [
            bucket(time, 1, BucketRole::Live),
            bucket(time, 4, BucketRole::Live),
            bucket(time, 4, BucketRole::Retired),
        ]
        .map(|bucket| ulid(&bucket));
        for id in &ids {
            assert_eq!(id.len(), 26);
            // As any library writes this time.
            assert!(id.starts_with("01HF7YAT00"), "{id}");
        }
        assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
        assert_eq!(ulid(&bucket(time, 1, BucketRole::Live)), ids[0]);
    }

    #[test]
    fn levels_grow_with_size() {
        for (hours, expected) in [(1, 1), (4, 2), (16, 3), (64, 4), (256, 5), (1024, 6)] {
            let bucket = bucket(0, hours, BucketRole::Live);
            assert_eq!(level(&bucket), expected, "{hours} h");
        }
    }
}
