//! The check: everything is read, and everything that belongs together is compared.
//!
//! ```text
//! globals: list, journal, cursors, catalog, what lies elsewhere ─► buckets
//! per bucket, in key order: dictionary ─► forward ─► inverted ─► samples ─► meta
//!    ─► histograms ─► exemplars ─► (journal) ─► cursor ─► conclude
//! per week of events: cells, identities
//! per bucket of windows whose sources are there: made once more ─► compared
//! ```
//!
//! Holds always:
//! - Globals, each bucket, and each week of events are judged on one state of the database.
//! - What a flush has written before its commit is no problem as long as the journal holds it, too.
//! - A file that is missing counts as lost only after several fresh readers have missed it.
//!
//! Elsewhere: what a flush writes in which order (`crate::ingest::flush`).

mod bucket;
mod events;
mod globals;
mod journal;
mod postings;
mod report;
mod samples;
mod series;
mod windows;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::LocalBoxFuture;
use icecore_records::{Bucket, RecordType, key};
use slatedb::ErrorKind;
use slatedb::object_store::ObjectStore;

pub use report::{CheckCounts, CheckReport, Note, PROBLEM_KINDS, Problem, ProblemKind};

use super::Inspector;
use super::overview::{is_of_events, scope_of};
use crate::buckets::ladder;
use crate::error::{Error, Result};
use crate::options::StoreOptions;
use crate::slate::reader::has_vanished;
use bucket::BucketCheck;
use globals::GlobalCheck;
use report::Findings;

/// What a check is to do.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// Problems that the report spells out; all are counted.
    pub problems_max: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { problems_max: 1000 }
    }
}

/// Checks a database from start to end. It may be open and busy elsewhere, also in this process.
pub async fn check(
    options: &StoreOptions,
    object_store: Option<Arc<dyn ObjectStore>>,
) -> Result<CheckReport> {
    let mut inspector = Inspector::open_on(options, object_store).await?;
    let report = inspector.check(CheckOptions::default()).await?;
    inspector.close().await?;
    Ok(report)
}

impl Inspector {
    pub fn check(&mut self, options: CheckOptions) -> LocalBoxFuture<'_, Result<CheckReport>> {
        Box::pin(self.check_all(options))
    }

    async fn check_all(&mut self, options: CheckOptions) -> Result<CheckReport> {
        self.meter.expect(self.reader.segment_bytes());
        let mut all = Findings::new(options.problems_max);
        self.restarts = 0;

        let globals = self
            .attempt(async |view| GlobalCheck::new(options.problems_max).run(view).await)
            .await;
        let buckets: BTreeSet<Bucket> = match globals {
            Ok((findings, buckets)) => {
                all.join(findings);
                buckets
            }
            Err(error) => {
                all.problem(ProblemKind::Store, &[], unreadable(error)?);
                // What lies in buckets may still be sound.
                let segments = self.reader.segments();
                let scopes = segments.iter().filter_map(|segment| scope_of(segment));
                scopes.map(|(_, bucket)| bucket).collect()
            }
        };
        for bucket in buckets.iter().copied() {
            let checked = self
                .attempt(async |view| {
                    BucketCheck::new(bucket, options.problems_max)
                        .run(view)
                        .await
                })
                .await;
            match checked {
                Ok(findings) => all.join(findings),
                Err(error) => {
                    let prefix = key::record_prefix(RecordType::SeriesDictionary, bucket);
                    let reason = format!("bucket {bucket}: {}", unreadable(error)?);
                    all.problem(ProblemKind::Store, &prefix, reason);
                }
            }
        }
        let mut weeks = self.reader.segments();
        weeks.retain(|segment| is_of_events(segment));
        for week in weeks {
            let checked = self
                .attempt(async |view| events::check(view, &week, options.problems_max).await)
                .await;
            match checked {
                Ok(findings) => all.join(findings),
                Err(error) => all.problem(ProblemKind::Store, &week, unreadable(error)?),
            }
        }
        for bucket in buckets.into_iter().filter(|b| !ladder::is_raw(b.size)) {
            let compared = self
                .attempt(async |view| windows::compare(view, bucket, options.problems_max).await)
                .await;
            match compared {
                Ok(findings) => all.join(findings),
                // What cannot be read has been reported with its bucket.
                Err(error) => {
                    let cause = unreadable(error)?;
                    let text = format!("bucket {bucket} is not compared with its sources: {cause}");
                    all.note(&key::bucket_meta(bucket), text);
                }
            }
        }
        let location = self.location();
        Ok(CheckReport::new(
            location,
            all,
            self.meter.bytes(),
            self.restarts,
        ))
    }
}

/// What is wrong with the stored files, where that is the reason for an error.
fn unreadable(error: Error) -> Result<String> {
    let damaged = match &error {
        Error::Store { source, .. } => {
            matches!(source.kind(), ErrorKind::Data | ErrorKind::Invalid)
        }
        Error::Corrupt(_) => true,
        _ => false,
    };
    if has_vanished(&error) {
        return Ok(format!("a file is missing: {error}"));
    }
    if damaged {
        Ok(error.to_string())
    } else {
        Err(error)
    }
}
