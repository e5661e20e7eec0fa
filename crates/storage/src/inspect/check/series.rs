//! Which series a bucket has: dictionary and forward index, compared both ways, and their order.

use icecore_model::{BucketSize, Labels};
use icecore_records::{Bucket, SeriesId, forward_index, key, series_dictionary};
use roaring::RoaringBitmap;
use xxhash_rust::xxh3::xxh3_64;

use super::super::still::Record;
use super::postings::Postings;
use super::report::{Findings, ProblemKind};

/// The series of one bucket, without their labels.
#[derive(Default)]
pub(super) struct SeriesCheck {
    /// Fingerprint and id, sorted once all are there.
    dictionary: Vec<(u128, u32)>,
    /// Ascending by id, as keys are.
    forward: Vec<Forward>,
    previous: Option<(u32, Labels)>,
    /// Ids whose labels sort before those of the id before, with that id: behind it, and not behind
    /// the other, a run must begin.
    descents: Vec<(u32, u32)>,
    /// Ids whose forward record could not be read, or was deleted: nothing more can be said about
    /// them.
    unreadable: Vec<u32>,
    /// Series that were deleted and still lie in the bucket, in whichever part.
    pub(super) erased: RoaringBitmap,
}

struct Forward {
    id: u32,
    fingerprint: u128,
    /// A second hash, so that a collision of fingerprints is not taken for a repeated series.
    second: u64,
}

impl SeriesCheck {
    pub(super) fn dictionary(
        &mut self,
        fingerprint: u128,
        record: &Record,
        findings: &mut Findings,
    ) {
        match series_dictionary::decode(&record.value) {
            Ok(ids) => {
                if ids.is_empty() {
                    let reason = "no series under this fingerprint";
                    findings.problem(ProblemKind::Dictionary, &record.key, reason);
                }
                self.dictionary
                    .extend(ids.iter().map(|id| (fingerprint, id.0)));
            }
            Err(cause) => findings.undecodable(&record.key, &cause),
        }
    }

    pub(super) fn forward(
        &mut self,
        id: SeriesId,
        record: &Record,
        postings: &mut Postings,
        findings: &mut Findings,
    ) {
        if self.erased.contains(id.0) {
            self.unreadable.push(id.0);
            return;
        }
        let labels = match forward_index::decode(&record.value) {
            Ok(forward) => forward.labels,
            Err(cause) => {
                findings.undecodable(&record.key, &cause);
                self.unreadable.push(id.0);
                return;
            }
        };
        findings.counts.series += 1;
        postings.expect(id, &labels);
        let bindings = forward_index::label_bindings(&record.value).unwrap_or_default();
        self.forward.push(Forward {
            id: id.0,
            fingerprint: labels.fingerprint(),
            second: xxh3_64(bindings),
        });
        if let Some((before, previous)) = &self.previous
            && labels < *previous
        {
            self.descents.push((*before, id.0));
        }
        self.previous = Some((id.0, labels));
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.forward
            .binary_search_by_key(&id, |forward| forward.id)
            .is_ok()
            || self.unreadable.binary_search(&id).is_ok()
    }

    pub(super) fn is_readable(&self, id: u32) -> bool {
        self.unreadable.binary_search(&id).is_err()
    }

    pub(super) fn last_id(&self) -> Option<u32> {
        let last = self.forward.last().map(|forward| forward.id);
        last.max(self.unreadable.last().copied())
    }

    /// Compares the two sides. Ids from `committed` on may still be on their way.
    pub(super) fn conclude(&mut self, bucket: Bucket, committed: u32, findings: &mut Findings) {
        self.dictionary.sort_unstable();
        for (fingerprint, id) in &self.dictionary {
            let found = self.forward.binary_search_by_key(id, |forward| forward.id);
            let reason = match found.ok().and_then(|at| self.forward.get(at)) {
                None if self.unreadable.binary_search(id).is_ok() => continue,
                None => format!("names series {id}, which has no forward record"),
                Some(forward) if forward.fingerprint == *fingerprint => continue,
                Some(forward) => {
                    format!(
                        "names series {id}, whose fingerprint is {:032x}",
                        forward.fingerprint
                    )
                }
            };
            let key = key::series_dictionary(bucket, *fingerprint);
            findings.problem(ProblemKind::Dictionary, &key, reason);
        }
        // Larger buckets have no dictionary: their series are found in label order.
        let expected = bucket.size == BucketSize::HOUR;
        let named = self.forward.iter().filter(|f| expected && f.id < committed);
        for forward in named {
            let wanted = (forward.fingerprint, forward.id);
            if self.dictionary.binary_search(&wanted).is_err() {
                let key = key::forward_index(bucket, SeriesId(forward.id));
                let reason = format!(
                    "the dictionary does not name it under its fingerprint {:032x}",
                    forward.fingerprint
                );
                findings.problem(ProblemKind::Dictionary, &key, reason);
            }
        }
        self.repetitions(bucket, findings);
    }

    fn repetitions(&mut self, bucket: Bucket, findings: &mut Findings) {
        self.forward
            .sort_unstable_by_key(|f| (f.fingerprint, f.second, f.id));
        for pair in self.forward.windows(2) {
            if let [a, b] = pair
                && (a.fingerprint, a.second) == (b.fingerprint, b.second)
            {
                let key = key::forward_index(bucket, SeriesId(b.id));
                let reason = format!("has the same labels as series {}", a.id);
                findings.problem(ProblemKind::Ids, &key, reason);
            }
        }
        self.forward.sort_unstable_by_key(|forward| forward.id);
    }

    /// Ids below `committed` must be in label order from one run start to the next.
    pub(super) fn order(
        &self,
        bucket: Bucket,
        committed: u32,
        run_starts: &[SeriesId],
        findings: &mut Findings,
    ) {
        for (before, id) in self.descents.iter().filter(|(_, id)| *id < committed) {
            // The series that the run began with may have been deleted.
            let begins = |start: &SeriesId| *before < start.0 && start.0 <= *id;
            if !run_starts.iter().any(begins) {
                let key = key::forward_index(bucket, SeriesId(*id));
                let reason = "sorts before the series before it, and no run starts here";
                findings.problem(ProblemKind::Ids, &key, reason);
            }
        }
    }
}
