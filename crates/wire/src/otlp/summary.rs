//! Points of summaries: one series per quantile, `_sum` and `_count`.
//!
//! ```text
//! SummaryDataPoint { fixed64 start = 2; fixed64 time = 3; fixed64 count = 4; double sum = 5;
//!                    ValueAtQuantile quantile_values = 6; KeyValue attributes = 7;
//!                    uint32 flags = 8; }
//! ValueAtQuantile { double quantile = 1; double value = 2; }
//! ```

use icecore_model::{SampleSink, Temporality};

use super::labels::{ExtraLabel, push_label};
use super::metric::Metric;
use super::point::PointTime;
use super::request::Decoder;
use crate::prometheus::number::push_formatted;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, fixed64_tag, known, varint_tag};

const START: u32 = fixed64_tag(2);
const TIME: u32 = fixed64_tag(3);
const COUNT: u32 = fixed64_tag(4);
const SUM: u32 = fixed64_tag(5);
const QUANTILES: u32 = bytes_tag(6);
const ATTRIBUTES: u32 = bytes_tag(7);
const FLAGS: u32 = varint_tag(8);
const FIELDS: u32 = known(&[2, 3, 4, 5, 6, 7, 8]);

impl<'a, S: SampleSink> Decoder<'a, '_, S> {
    pub(super) fn summary_point(&mut self, message: &'a [u8], metric: &Metric<'a>) -> Result<()> {
        let point = &mut self.point;
        point.clear();
        let (mut count, mut sum) = (0, 0.0);
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                ATTRIBUTES => point.push_attribute(reader.bytes()?)?,
                START => point.start_ns = reader.fixed64()?,
                TIME => point.time_ns = reader.fixed64()?,
                COUNT => count = reader.fixed64()?,
                SUM => sum = reader.double()?,
                QUANTILES => reader.skip(QUANTILES)?,
                FLAGS => point.flags = reader.varint()?,
                other => reader.skip_unknown(other, FIELDS)?,
            }
        }
        if let Some(when) = self.begin_point(metric)? {
            let written = self.put_summary(message, metric, when, count, sum)?;
            if let Err(reason) = written {
                self.sink.reject(reason);
            }
        }
        Ok(())
    }

    fn put_summary(
        &mut self,
        message: &[u8],
        metric: &Metric<'_>,
        when: PointTime,
        count: u64,
        sum: f64,
    ) -> Result<std::result::Result<(), String>> {
        let (mut label, mut text) = (Vec::new(), Vec::new());
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            let tag = reader.tag()?;
            if tag != QUANTILES {
                reader.skip(tag)?;
                continue;
            }
            let (quantile, value) = read_quantile(reader.bytes()?)?;
            text.clear();
            push_formatted(&mut text, format_args!("{quantile}"));
            label.clear();
            push_label(&mut label, ExtraLabel::Quantile.name().as_bytes(), &text);
            let extra = Some((ExtraLabel::Quantile, &label[..]));
            if let Err(reason) = self.labels.announce(self.sink, &metric.labels.plain, extra) {
                return Ok(Err(reason));
            }
            self.put(Temporality::Unspecified, when, value);
        }
        for (name, value) in [
            (&metric.labels.sum, sum),
            (&metric.labels.count, count as f64),
        ] {
            if let Err(reason) = self.labels.announce(self.sink, name, None) {
                return Ok(Err(reason));
            }
            self.put(Temporality::Cumulative, when, value);
        }
        Ok(Ok(()))
    }
}

fn read_quantile(message: &[u8]) -> Result<(f64, f64)> {
    const QUANTILE: u32 = fixed64_tag(1);
    const VALUE: u32 = fixed64_tag(2);
    let (mut quantile, mut value) = (0.0, 0.0);
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            QUANTILE => quantile = reader.double()?,
            VALUE => value = reader.double()?,
            other => reader.skip_unknown(other, known(&[1, 2]))?,
        }
    }
    Ok((quantile, value))
}
