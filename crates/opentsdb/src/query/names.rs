//! Which names of a query exist.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use icecore_model::{MatchOp, Matcher, SelectHints, Selection};

use super::filter::TagFilter;
use super::run::source_error;
use super::window::Scan;
use crate::error::Error;
use crate::tsd::Tsd;
use crate::uid::{UidKind, no_such_name};

/// How often a sub query may ask the store for series with a name that has no UID. After that, such
/// names do not exist.
const PROBES_MAX: usize = 64;

/// Names that queries have to know. One without a UID is known if series have it that somebody else
/// has written.
pub(super) struct Names<'a> {
    tsd: &'a Tsd,
    scan: Scan,
    /// How often the store may still be asked.
    probes_left: AtomicUsize,
}

impl<'a> Names<'a> {
    pub(super) fn new(tsd: &'a Tsd, scan: Scan) -> Self {
        Self {
            tsd,
            scan,
            probes_left: AtomicUsize::new(PROBES_MAX),
        }
    }

    /// Checks a name that is the value of a label.
    pub(super) async fn check(&self, kind: UidKind, name: &str, label: &str) -> Result<(), Error> {
        if self.has_id(kind, name)? || self.has_series(Matcher::equal(label, name)).await? {
            return Ok(());
        }
        Err(no_such_name(kind, name))
    }

    /// A name that was taken from an id is not known any more, whatever is stored under it.
    fn has_id(&self, kind: UidKind, name: &str) -> Result<bool, Error> {
        let space = self.tsd.uids.read(kind);
        if space.current_name(name).is_some() {
            return Err(no_such_name(kind, name));
        }
        Ok(space.id(name).is_some())
    }

    pub(super) async fn check_tagk(&self, tagk: &str) -> Result<(), Error> {
        if self.has_id(UidKind::Tagk, tagk)? {
            return Ok(());
        }
        if let Ok(present) = Matcher::new(MatchOp::NotEqual, tagk, "")
            && self.has_series(present).await?
        {
            return Ok(());
        }
        Err(no_such_name(UidKind::Tagk, tagk))
    }

    /// The values of a filter that names them, and that are names; `None` where there is none, so
    /// that the filter has to be applied as it is.
    pub(super) async fn known_literals(
        &self,
        filter: &TagFilter,
    ) -> Result<Option<Vec<String>>, Error> {
        let Some(literals) = filter.literals() else {
            return Ok(None);
        };
        let mut literals: Vec<&String> = literals.iter().collect();
        literals.sort_unstable();
        let mut known = Vec::new();
        for value in literals {
            match self.check(UidKind::Tagv, value, &filter.tagk).await {
                Ok(()) => known.push(value.clone()),
                Err(_) if self.tsd.config.skip_unresolved_tagvs => {}
                Err(error) => return Err(error),
            }
        }
        Ok((!known.is_empty()).then_some(known))
    }

    /// Whether some series in the time of the query matches.
    async fn has_series(&self, matcher: Matcher) -> Result<bool, Error> {
        // An empty value would match all series without the label.
        if matcher.op() == MatchOp::Equal && matcher.matches("") {
            return Ok(false);
        }
        let take = |left: usize| left.checked_sub(1);
        if self
            .probes_left
            .fetch_update(Relaxed, Relaxed, take)
            .is_err()
        {
            return Ok(false);
        }
        let selection = Selection {
            matchers: vec![matcher],
            start_ms: self.scan.start_ms,
            end_ms: self.scan.end_ms.saturating_sub(1),
            hints: SelectHints {
                series_limit: Some(1),
                labels_only: true,
                ..SelectHints::default()
            },
        };
        let source = &self.tsd.stores.series;
        let mut stream = source.select(selection).await.map_err(source_error)?;
        while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
            if !batch.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
