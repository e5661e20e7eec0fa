//! Points of gauges and sums.
//!
//! ```text
//! NumberDataPoint
//!     { fixed64 start = 2; fixed64 time = 3; double as_double = 4; Exemplar exemplars = 5;
//!       sfixed64 as_int = 6; KeyValue attributes = 7; uint32 flags = 8; }
//! ```

use icecore_model::SampleSink;

use super::metric::Metric;
use super::request::Decoder;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, fixed64_tag, known, varint_tag};

const START: u32 = fixed64_tag(2);
const TIME: u32 = fixed64_tag(3);
const AS_DOUBLE: u32 = fixed64_tag(4);
const EXEMPLARS: u32 = bytes_tag(5);
const AS_INT: u32 = fixed64_tag(6);
const ATTRIBUTES: u32 = bytes_tag(7);
const FLAGS: u32 = varint_tag(8);
const FIELDS: u32 = known(&[2, 3, 4, 5, 6, 7, 8]);

impl<'a, S: SampleSink> Decoder<'a, '_, S> {
    pub(super) fn number_point(&mut self, message: &'a [u8], metric: &Metric<'a>) -> Result<()> {
        let point = &mut self.point;
        point.clear();
        let mut value = None;
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                ATTRIBUTES => point.push_attribute(reader.bytes()?)?,
                START => point.start_ns = reader.fixed64()?,
                TIME => point.time_ns = reader.fixed64()?,
                AS_DOUBLE => value = Some(reader.double()?),
                AS_INT => value = Some(reader.fixed64()? as i64 as f64),
                EXEMPLARS => point.exemplars.push(reader.bytes()?),
                FLAGS => point.flags = reader.varint()?,
                other => reader.skip_unknown(other, FIELDS)?,
            }
        }
        let Some(when) = self.begin_point(metric)? else {
            return Ok(());
        };
        if value.is_none() && !when.stale {
            self.sink
                .reject(format!("{}: data point without a value", metric.family));
            return Ok(());
        }
        let announced = self.labels.announce(self.sink, &metric.labels.plain, None);
        if let Err(reason) = announced {
            self.sink.reject(reason);
            return Ok(());
        }
        self.put(metric.number_temporality(), when, value.unwrap_or(0.0));
        self.put_exemplars(when)
    }
}
