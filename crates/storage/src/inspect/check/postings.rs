//! The inverted index of a bucket against the labels of its series: complete both ways.
//!
//! What the index must say is gathered from the forward records, four bytes per label and series;
//! then the index is read once beside it.

use std::collections::HashMap;

use icecore_model::Labels;
use icecore_records::{Bucket, SeriesId, inverted_index, key};

use super::super::still::Record;
use super::report::{Findings, ProblemKind};
use super::series::SeriesCheck;

/// Bytes of a key before the label.
const SCOPE_LEN: usize = 6;

pub(super) struct Postings {
    bucket: Bucket,
    /// Series by label pair, as it is written in keys; ascending.
    expected: HashMap<Box<[u8]>, Vec<u32>>,
    /// Pairs whose record lacks series. Judged once it is known which ids are committed.
    incomplete: Vec<Incomplete>,
}

struct Incomplete {
    pair: Box<[u8]>,
    first_missing: u32,
    missing: u64,
    /// Whether there is a record at all.
    present: bool,
}

impl Postings {
    pub(super) fn new(bucket: Bucket) -> Self {
        Self {
            bucket,
            expected: HashMap::new(),
            incomplete: Vec::new(),
        }
    }

    pub(super) fn expect(&mut self, id: SeriesId, labels: &Labels) {
        for (name, value) in labels.iter() {
            let key = key::inverted_index(self.bucket, name, value);
            let pair = key.get(SCOPE_LEN..).unwrap_or_default();
            match self.expected.get_mut(pair) {
                Some(ids) => ids.push(id.0),
                None => drop(self.expected.insert(pair.into(), vec![id.0])),
            }
        }
    }

    pub(super) fn record(
        &mut self,
        record: &Record,
        series: &SeriesCheck,
        findings: &mut Findings,
    ) {
        let pair = record.key.get(SCOPE_LEN..).unwrap_or_default();
        let expected = self.expected.remove(pair).unwrap_or_default();
        let found = match inverted_index::decode(&record.value) {
            Ok(found) => found,
            Err(cause) => return findings.undecodable(&record.key, &cause),
        };
        findings.counts.label_pairs += 1;
        findings.counts.postings += found.len();
        if found.is_empty() {
            findings.problem(ProblemKind::Postings, &record.key, "empty posting list");
        }
        let mut ahead = expected.iter().copied().peekable();
        let (mut missing, mut first_missing) = (0, None);
        let mut lacks = |id: u32| {
            missing += 1;
            first_missing.get_or_insert(id);
        };
        for id in &found {
            while let Some(absent) = ahead.next_if(|next| *next < id) {
                lacks(absent);
            }
            if ahead.next_if_eq(&id).is_none() {
                extra(id, record, series, findings);
            }
        }
        ahead.for_each(&mut lacks);
        if let Some(first_missing) = first_missing {
            self.incomplete.push(Incomplete {
                pair: pair.into(),
                first_missing,
                missing,
                present: true,
            });
        }
    }

    /// Ids from `committed` on may still be on their way into the index.
    pub(super) fn conclude(mut self, committed: u32, findings: &mut Findings) {
        let absent = self.expected.drain().filter_map(|(pair, ids)| {
            Some(Incomplete {
                pair,
                first_missing: *ids.first()?,
                missing: ids.len() as u64,
                present: false,
            })
        });
        self.incomplete.extend(absent);
        self.incomplete.sort_unstable_by(|a, b| a.pair.cmp(&b.pair));
        let scope = key::record_prefix(icecore_records::RecordType::InvertedIndex, self.bucket);
        for lacking in self
            .incomplete
            .iter()
            .filter(|i| i.first_missing < committed)
        {
            let key = [&scope[..], &lacking.pair[..]].concat();
            let what = if lacking.present {
                "the record lacks"
            } else {
                "there is no record for"
            };
            let (missing, first) = (lacking.missing, lacking.first_missing);
            let reason = format!("{what} {missing} series with this label, the first is {first}");
            findings.problem(ProblemKind::Postings, &key, reason);
        }
    }
}

fn extra(id: u32, record: &Record, series: &SeriesCheck, findings: &mut Findings) {
    if !series.contains(id) {
        let reason = format!("names series {id}, which has no forward record");
        findings.problem(ProblemKind::NoSeries, &record.key, reason);
    } else if series.is_readable(id) {
        let reason = format!("names series {id}, which does not have this label");
        findings.problem(ProblemKind::Postings, &record.key, reason);
    }
}
