//! Time in slices, of which those without data are passed over.
//!
//! Holds always: time without data costs a number of requests that grows with its logarithm. After
//! an empty slice the next one that has something is looked for.

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::query::times::seconds;
use crate::remote::{Answer, Connection};

/// The time that is left, slice by slice.
pub(super) struct Slices {
    start_ms: i64,
    end_ms: i64,
    slice_ms: i64,
    /// Where the next slice begins.
    next_ms: i64,
    /// What complete slices take in the file.
    pub(super) bytes: u64,
}

impl Slices {
    pub(super) fn new(start_ms: i64, end_ms: i64, slice_ms: i64) -> Self {
        Self {
            start_ms,
            end_ms,
            slice_ms,
            next_ms: start_ms,
            bytes: 0,
        }
    }

    pub(super) fn from_state(state: &Value) -> anyhow::Result<Self> {
        let number = |key: &str| state[key].as_i64().context("invalid state file");
        Ok(Self {
            start_ms: number("start_ms")?,
            end_ms: number("end_ms")?,
            slice_ms: number("slice_ms")?,
            next_ms: number("next_ms")?,
            bytes: number("bytes")?.unsigned_abs(),
        })
    }

    pub(super) fn state(&self) -> Value {
        json!({
            "start_ms": self.start_ms, "end_ms": self.end_ms, "slice_ms": self.slice_ms,
            "next_ms": self.next_ms, "bytes": self.bytes,
        })
    }

    /// First and last millisecond of the next slice. Slices end at multiples of their length.
    pub(super) fn next(&self) -> Option<(i64, i64)> {
        if self.next_ms > self.end_ms {
            return None;
        }
        let last = match self.slice_ms {
            0 => self.end_ms,
            slice => {
                let number = self.next_ms.div_euclid(slice).saturating_add(1);
                number
                    .saturating_mul(slice)
                    .saturating_sub(1)
                    .min(self.end_ms)
            }
        };
        Some((self.next_ms, last))
    }

    pub(super) fn taken(&mut self, last_ms: i64, bytes: u64) {
        self.next_ms = last_ms.saturating_add(1);
        self.bytes += bytes;
    }

    /// Begins with the first slice that has something, or with the last if there is nothing.
    pub(super) async fn begin_with_data(
        &mut self,
        connection: &Connection,
        selectors: &[String],
    ) -> anyhow::Result<()> {
        self.skip_to_data(connection, selectors).await?;
        if self.next_ms > self.end_ms {
            let last = self.end_ms.div_euclid(self.slice_ms);
            self.next_ms = last.saturating_mul(self.slice_ms).max(self.start_ms);
        }
        self.start_ms = self.next_ms;
        Ok(())
    }

    /// Passes over slices that have nothing.
    pub(super) async fn skip_to_data(
        &mut self,
        connection: &Connection,
        selectors: &[String],
    ) -> anyhow::Result<()> {
        if self.slice_ms == 0 || self.next_ms > self.end_ms {
            return Ok(());
        }
        let (next_ms, end_ms) = (self.next_ms, self.end_ms);
        let slice_of = |ms: i64| ms.div_euclid(self.slice_ms);
        let mut search = Search::new(slice_of(next_ms), slice_of(end_ms));
        while let Some((first, last)) = search.next_probe() {
            let start_ms = first.saturating_mul(self.slice_ms).max(next_ms);
            let slices_end = last.saturating_add(1).saturating_mul(self.slice_ms);
            let range = (start_ms, slices_end.saturating_sub(1).min(end_ms));
            search.answered(has_series(connection, selectors, range).await?);
        }
        self.next_ms = match search.found() {
            Some(slice) => slice.saturating_mul(self.slice_ms).max(next_ms),
            None => end_ms.saturating_add(1),
        };
        Ok(())
    }

    pub(super) fn done(&self) -> f64 {
        let whole = self.end_ms.saturating_sub(self.start_ms).max(1) as f64;
        self.next_ms.saturating_sub(self.start_ms) as f64 / whole
    }
}

/// The first slice that has something, found by asking about ever more slices and then about ever
/// fewer.
struct Search {
    /// Slices before it have nothing.
    first: i64,
    /// There is data between `first` and this slice, if that is known.
    found_by: Option<i64>,
    end: i64,
    width: i64,
}

impl Search {
    fn new(first: i64, end: i64) -> Self {
        Self {
            first,
            found_by: None,
            end,
            width: 1,
        }
    }

    /// The first and the last of the slices to ask about next; `None` at the end of the search.
    fn next_probe(&self) -> Option<(i64, i64)> {
        let last = match self.found_by {
            Some(by) if by <= self.first => return None,
            Some(by) => self.first + (by - self.first - 1) / 2,
            None if self.first > self.end => return None,
            None => self.first.saturating_add(self.width - 1).min(self.end),
        };
        Some((self.first, last))
    }

    /// Whether there was something in what was asked about.
    fn answered(&mut self, something: bool) {
        let Some((_, last)) = self.next_probe() else {
            return;
        };
        if something {
            self.found_by = Some(last);
        } else {
            self.first = last.saturating_add(1);
            self.width = self.width.saturating_mul(2);
        }
    }

    fn found(&self) -> Option<i64> {
        self.found_by
    }
}

async fn has_series(
    connection: &Connection,
    selectors: &[String],
    (start_ms, end_ms): (i64, i64),
) -> anyhow::Result<bool> {
    let mut params: Vec<(&'static str, String)> = vec![
        ("start", seconds(start_ms)),
        ("end", seconds(end_ms)),
        ("limit", "1".into()),
    ];
    params.extend(selectors.iter().map(|s| ("match[]", s.clone())));
    let body = connection.post("/api/v1/series", &params).await?;
    let answer = Answer::parse(&body, connection.server())?;
    let series = answer.data.as_array();
    Ok(series.is_some_and(|series| !series.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_slice_with_data_is_found_with_few_questions() {
        for (first, end, data) in [
            (0, 0, None),
            (0, 0, Some(0)),
            (5, 4, None),
            (-3, 10, Some(-3)),
            (0, 20_000, Some(19_999)),
            (0, 20_000, Some(20_000)),
            (0, 20_000, Some(1)),
            (0, 500_000, None),
            (i64::MAX - 2, i64::MAX, Some(i64::MAX)),
        ] {
            let mut search = Search::new(first, end);
            let mut questions = 0;
            while let Some((from, to)) = search.next_probe() {
                assert!(first <= from && from <= to && to <= end);
                search.answered(data.is_some_and(|slice| (from..=to).contains(&slice)));
                questions += 1;
                assert!(questions < 100);
            }
            assert_eq!(search.found(), data, "{first} to {end}");
            assert!(questions <= 40, "{questions} questions");
        }
    }

    #[test]
    fn the_first_of_several_is_found() {
        for first in 0..30 {
            let data = [7, 9, 10, 25];
            let expected = data.into_iter().find(|slice| *slice >= first);
            let mut search = Search::new(first, 29);
            while let Some((from, to)) = search.next_probe() {
                search.answered(data.iter().any(|slice| (from..=to).contains(slice)));
            }
            assert_eq!(search.found(), expected, "from {first}");
        }
    }

    #[test]
    fn slices_cover_the_range_once() {
        for (start, end, slice) in [
            (5, 25, 10),
            (0, 9, 10),
            (10, 10, 10),
            (3, 99, 0),
            (-5, 5, 4),
        ] {
            let mut slices = Slices::new(start, end, slice);
            let mut next = start;
            while let Some((from, to)) = slices.next() {
                assert_eq!(from, next);
                assert!(to >= from && to <= end);
                assert!(slice == 0 || from.div_euclid(slice) == to.div_euclid(slice));
                slices.taken(to, 7);
                let again = Slices::from_state(&slices.state()).unwrap();
                assert_eq!(again.next(), slices.next());
                next = to + 1;
            }
            assert_eq!(next, end + 1);
        }
    }
}
