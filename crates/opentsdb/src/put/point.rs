//! The time and the value of a point.

use icecore_model::{NumberForm, Sample};
use icecore_wire::opentsdb::number::{Number, parse_number};

use super::error::PutError;
use super::series::{SeriesText, tags_text};
use crate::hbase;
use crate::java::{bytes_text, double_text};

/// Times up to this are seconds, later ones milliseconds.
const SECONDS_MAX: i64 = u32::MAX as i64;

const MILLISECONDS_MAX: i64 = 9_999_999_999_999;

/// The sample of a point, and how it was written.
#[inline]
pub(super) fn sample(
    series: SeriesText<'_>,
    timestamp: i64,
    text: &str,
) -> Result<(Sample, NumberForm), PutError> {
    let number = parse_number(text)?;
    let (value, form) = match number {
        Number::Integer(integer) => NumberForm::of_integer(integer),
        Number::Float(value) => (value, NumberForm::FLOAT),
    };
    if !value.is_finite() {
        let (metric, value) = (series.metric(), double_text(value));
        let message =
            format!("value is NaN or Infinite: {value} for metric={metric} timestamp={timestamp}");
        return Err(PutError::Argument(message));
    }
    if !(0..=MILLISECONDS_MAX).contains(&timestamp) {
        return Err(bad_timestamp(series, timestamp, number));
    }
    let sample = Sample {
        timestamp_ms: milliseconds(timestamp),
        value,
        start_timestamp_ms: 0,
    };
    // A time within a second can only have been given in milliseconds.
    let form = form.with_milliseconds(timestamp > SECONDS_MAX && timestamp % 1000 == 0);
    Ok((sample, form))
}

/// A time in seconds or milliseconds.
pub(crate) fn milliseconds(timestamp: i64) -> i64 {
    if timestamp <= SECONDS_MAX {
        // Those before all times that can be stored are refused later.
        timestamp.saturating_mul(1000)
    } else {
        timestamp
    }
}

/// Whether a time is not in seconds.
pub(super) fn is_milliseconds(timestamp: i64) -> bool {
    timestamp > SECONDS_MAX
}

pub(super) fn bad_timestamp(series: SeriesText<'_>, timestamp: i64, number: Number) -> PutError {
    let tags = match series.tags() {
        Ok(tags) => tags_text(&tags),
        Err(error) => return error,
    };
    // Documents are stored with doubles, lines with floats where they fit.
    let encoded = match (series, number) {
        (SeriesText::Json { .. } | SeriesText::Pairs { .. }, Number::Float(value)) => {
            hbase::encode_double(value)
        }
        _ => hbase::encode(number),
    };
    let (bytes, flags) = (bytes_text(&encoded.bytes), encoded.flags.0);
    let kind = if timestamp < 0 { "negative " } else { "bad" };
    let metric = series.metric();
    PutError::Argument(format!(
        "{kind} timestamp={timestamp} when trying to add value={bytes}/{flags} \
         to metric={metric}, tags={tags}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: SeriesText<'_> = SeriesText::Line {
        metric: "m",
        tags: "host=a",
    };

    #[test]
    fn the_size_of_a_time_is_its_unit() {
        for (timestamp, timestamp_ms, milliseconds) in [
            (1_356_998_400, 1_356_998_400_000, false),
            (4_294_967_295, 4_294_967_295_000, false),
            (4_294_967_296, 4_294_967_296, false),
            (1_356_998_400_000, 1_356_998_400_000, true),
            (1_356_998_400_250, 1_356_998_400_250, false),
            (9_999_999_999_999, 9_999_999_999_999, false),
        ] {
            let (sample, form) = sample(LINE, timestamp, "1").unwrap();
            assert_eq!(sample.timestamp_ms, timestamp_ms);
            assert_eq!(form.milliseconds, milliseconds, "{timestamp}");
            assert_eq!(form.integer(sample.value), Some(1));
        }
    }

    #[test]
    fn what_cannot_be_stored_is_told_with_its_bytes() {
        let json = SeriesText::Json {
            metric: "m",
            tags: Some(r#"{"host":"a"}"#),
        };
        for (series, value, text) in [
            (LINE, "1", "[1]/0"),
            (LINE, "-300", "[-2, -44]/1"),
            (LINE, "42.5", "[66, 42, 0, 0]/11"),
            (json, "42.5", "[64, 69, 64, 0, 0, 0, 0, 0]/15"),
        ] {
            let error = sample(series, 10_000_000_000_000, value).unwrap_err();
            let message = format!(
                "bad timestamp=10000000000000 when trying to add value={text} \
                 to metric=m, tags={{host=a}}"
            );
            assert_eq!(error, PutError::Argument(message));
        }
        let error = sample(LINE, 1_500_000_000, "1e400").unwrap_err();
        let message = "value is NaN or Infinite: Infinity for metric=m timestamp=1500000000";
        assert_eq!(error, PutError::argument(message));
    }
}
