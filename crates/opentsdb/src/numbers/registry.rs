//! What is known of the numbers of all series.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use icecore_model::{
    Catalog, CatalogChange, Labels, NumberForm, NumberForms, StoreError, push_raw_label,
};
use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_128;

use super::series::{Exception, Mode, SeriesNumbers, of_mode};
use crate::catalog_key;
use crate::rollup::base_metric;
use crate::uid::{UidKind, Uids};

/// Series with exceptions that are kept. A server with more takes the others as natural.
const SERIES_MAX: usize = 4 << 20;

/// Identifies a series: a hash of its labels.
pub(super) type SeriesKey = u128;

/// How numbers were written.
pub(crate) struct Numbers {
    series: RwLock<HashMap<SeriesKey, SeriesNumbers>>,
    /// How many there are, to be asked for each point.
    count: AtomicUsize,
    uids: Arc<Uids>,
}

impl Numbers {
    /// Reads all exceptions.
    pub(crate) async fn load(catalog: &dyn Catalog, uids: Arc<Uids>) -> Result<Self, StoreError> {
        let records = catalog.range(catalog_key::numbers(), usize::MAX).await?;
        let mut series: HashMap<SeriesKey, SeriesNumbers> = HashMap::new();
        for (key, value) in records {
            let (series_key, timestamp_ms, exception) = parse(&key, &value)
                .ok_or_else(|| StoreError(format!("cannot read form of numbers: {key:02x?}")))?;
            series
                .entry(series_key)
                .or_default()
                .add(timestamp_ms, exception);
        }
        Ok(Self {
            count: AtomicUsize::new(series.len()),
            series: RwLock::new(series),
            uids,
        })
    }

    /// Whether every series is natural.
    pub(super) fn are_natural(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// What has to be stored with a number so that its form is known.
    pub(super) fn note(
        &self,
        series: SeriesKey,
        timestamp_ms: i64,
        value: f64,
        form: NumberForm,
    ) -> Option<CatalogChange> {
        {
            let known = self.series.read();
            let exception = match known.get(&series) {
                Some(known) => known.exception(timestamp_ms, value, form),
                None => SeriesNumbers::default().exception(timestamp_ms, value, form),
            };
            exception?;
        }
        let mut all = self.series.write();
        if all.len() >= SERIES_MAX && !all.contains_key(&series) {
            return None;
        }
        let known = all.entry(series).or_default();
        let exception = known.exception(timestamp_ms, value, form)?;
        known.add(timestamp_ms, exception);
        self.count.store(all.len(), Relaxed);
        Some(CatalogChange {
            key: catalog_key::number(series, timestamp_ms),
            value: Some(encode(exception)),
        })
    }

    /// The forms of samples, given in time order.
    pub(super) fn forms(&self, labels: &Labels, times: &[i64], values: &[f64]) -> NumberForms {
        let metric = base_metric(labels);
        // Others than OpenTSDB's clients send floats.
        if !self.uids.read(UidKind::Metric).is_written(metric) {
            return NumberForms::default();
        }
        let samples = times.iter().copied().zip(values.iter().copied());
        let natural = |(time, value)| (time, of_mode(Mode::Natural, value));
        if self.are_natural() {
            return NumberForms::of(samples.map(natural));
        }
        let all = self.series.read();
        match all.get(&key_of(labels)) {
            Some(known) => {
                NumberForms::of(samples.map(|(time, value)| (time, known.form(time, value))))
            }
            None => NumberForms::of(samples.map(natural)),
        }
    }
}

/// The key of a series whose labels are in the order of their names.
pub(super) fn key_of_bytes(labels: &[u8]) -> SeriesKey {
    xxh3_128(labels)
}

fn key_of(labels: &Labels) -> SeriesKey {
    let mut bytes = Vec::with_capacity(256);
    for (name, value) in labels.iter() {
        push_raw_label(&mut bytes, name, value);
    }
    key_of_bytes(&bytes)
}

const FROM: u8 = 0;
const AT: u8 = 1;
const INTEGER: u8 = 1;
const MILLISECONDS: u8 = 2;

/// `kind u8 | integer and unit u8 | correction i16`.
fn encode(exception: Exception) -> Vec<u8> {
    let (kind, form) = match exception {
        Exception::From(Mode::Natural) => (FROM, NumberForm::of_integer(0).1),
        Exception::From(Mode::Floats) => (FROM, NumberForm::FLOAT),
        Exception::At(form) => (AT, form),
    };
    let integer = if form.correction().is_some() {
        INTEGER
    } else {
        0
    };
    let unit = if form.milliseconds { MILLISECONDS } else { 0 };
    let mut value = vec![kind, integer | unit];
    value.extend_from_slice(&form.correction().unwrap_or(0).to_be_bytes());
    value
}

fn parse(key: &[u8], value: &[u8]) -> Option<(SeriesKey, i64, Exception)> {
    let (series, timestamp_ms) = catalog_key::parse_number(key)?;
    let [kind, flags, high, low] = *value else {
        return None;
    };
    if flags & !(INTEGER | MILLISECONDS) != 0 {
        return None;
    }
    let is_integer = flags & INTEGER != 0;
    let correction = i16::from_be_bytes([high, low]);
    let form = NumberForm::from_parts(is_integer.then_some(correction), flags & MILLISECONDS != 0);
    let exception = match kind {
        FROM if is_integer => Exception::From(Mode::Natural),
        FROM => Exception::From(Mode::Floats),
        AT => Exception::At(form),
        _ => return None,
    };
    Some((series, timestamp_ms, exception))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_come_back() {
        let key = catalog_key::number(7, 1_700_000_000_000);
        for exception in [
            Exception::From(Mode::Natural),
            Exception::From(Mode::Floats),
            Exception::At(NumberForm::FLOAT),
            Exception::At(NumberForm::of_integer(i64::MAX).1),
            Exception::At(NumberForm::of_integer(5).1.with_milliseconds(true)),
        ] {
            let parsed = parse(&key, &encode(exception));
            assert_eq!(parsed, Some((7, 1_700_000_000_000, exception)));
        }
        for broken in [&[][..], &[2, 0, 0, 0], &[0, 4, 0, 0], &[0, 0, 0]] {
            assert_eq!(parse(&key, broken), None);
        }
        assert_eq!(
            parse(&key[1..], &encode(Exception::At(NumberForm::FLOAT))),
            None
        );
    }
}
