//! Writes requests the way clients do, independently of the decoder: fields that hold zero are left
//! out, repeated numbers are packed.

use std::collections::HashMap;

use icecore_model::{Histogram, HistogramCounts, Metadata, Sample, Span};

use crate::request::{Request, SentExemplar, SentHistogram, Series};

/// A message that is being written.
#[derive(Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn varint(&mut self, field: u64, value: u64) -> &mut Self {
        if value != 0 {
            self.present_varint(field, value);
        }
        self
    }

    /// A member of a `oneof` is written even when it is zero.
    pub(crate) fn present_varint(&mut self, field: u64, value: u64) {
        self.raw_varint(field << 3);
        self.raw_varint(value);
    }

    pub(crate) fn zigzag(&mut self, field: u64, value: i64) -> &mut Self {
        self.varint(field, zigzag(value))
    }

    pub(crate) fn double(&mut self, field: u64, value: f64) -> &mut Self {
        if value.to_bits() != 0 {
            self.present_double(field, value);
        }
        self
    }

    pub(crate) fn present_double(&mut self, field: u64, value: f64) {
        self.raw_varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn fixed64(&mut self, field: u64, value: u64) -> &mut Self {
        self.double(field, f64::from_bits(value))
    }

    pub(crate) fn bytes(&mut self, field: u64, content: &[u8]) -> &mut Self {
        self.raw_varint(field << 3 | 2);
        self.raw_varint(content.len() as u64);
        self.0.extend(content);
        self
    }

    pub(crate) fn text(&mut self, field: u64, content: &str) -> &mut Self {
        if !content.is_empty() {
            self.bytes(field, content.as_bytes());
        }
        self
    }

    pub(crate) fn packed(
        &mut self,
        field: u64,
        values: impl IntoIterator<Item = u64>,
    ) -> &mut Self {
        let mut content = Message::default();
        for value in values {
            content.raw_varint(value);
        }
        if !content.0.is_empty() {
            self.bytes(field, &content.0);
        }
        self
    }

    pub(crate) fn packed_doubles(&mut self, field: u64, values: &[f64]) -> &mut Self {
        if !values.is_empty() {
            self.bytes(
                field,
                &values
                    .iter()
                    .flat_map(|v| v.to_le_bytes())
                    .collect::<Vec<_>>(),
            );
        }
        self
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

pub(crate) fn encode_v1(request: &Request) -> Vec<u8> {
    encode_v1_with(request, series_v1)
}

/// Encodes a request with another way to write a series.
pub(crate) fn encode_v1_with(request: &Request, series: impl Fn(&Series) -> Vec<u8>) -> Vec<u8> {
    let mut message = Message::default();
    for one in &request.series {
        message.bytes(1, &series(one));
    }
    for (family, metadata) in &request.metadata {
        let mut entry = Message::default();
        entry
            .varint(1, metadata.metric_type.number().into())
            .text(2, family)
            .text(4, &metadata.help)
            .text(5, &metadata.unit);
        message.bytes(3, &entry.0);
    }
    message.0
}

pub(crate) fn series_v1(series: &Series) -> Vec<u8> {
    fields_v1(series).concat()
}

/// The fields of a series one by one, so that a test can put them into another order.
pub(crate) fn fields_v1(series: &Series) -> Vec<Vec<u8>> {
    let bytes_field = |number, content: Vec<u8>| field(|message| message.bytes(number, &content));
    let labels = series
        .labels
        .iter()
        .map(|label| bytes_field(1, label_v1(label)));
    let samples = series
        .samples
        .iter()
        .map(|sample| bytes_field(2, sample_v1(sample)));
    let exemplars = series
        .exemplars
        .iter()
        .map(|exemplar| bytes_field(3, exemplar_v1(exemplar)));
    let histograms = series.histograms.iter().map(|histogram| {
        let without_start = SentHistogram {
            start_timestamp_ms: 0,
            ..histogram.clone()
        };
        bytes_field(4, encode_histogram(&without_start))
    });
    labels
        .chain(samples)
        .chain(exemplars)
        .chain(histograms)
        .collect()
}

/// One field alone.
fn field(write: impl FnOnce(&mut Message) -> &mut Message) -> Vec<u8> {
    let mut message = Message::default();
    write(&mut message);
    message.0
}

/// The label bytes of a series as they stand in a 1.0 request.
pub(crate) fn raw_labels(series: &Series) -> Vec<u8> {
    let mut message = Message::default();
    for label in &series.labels {
        message.bytes(1, &label_v1(label));
    }
    message.0
}

fn label_v1((name, value): &(String, String)) -> Vec<u8> {
    let mut message = Message::default();
    message.bytes(1, name.as_bytes()).bytes(2, value.as_bytes());
    message.0
}

fn sample_v1(sample: &Sample) -> Vec<u8> {
    let mut message = Message::default();
    message
        .double(1, sample.value)
        .varint(2, sample.timestamp_ms as u64);
    message.0
}

fn exemplar_v1(exemplar: &SentExemplar) -> Vec<u8> {
    let mut message = Message::default();
    for label in &exemplar.labels {
        message.bytes(1, &label_v1(label));
    }
    message
        .double(2, exemplar.value)
        .varint(3, exemplar.timestamp_ms as u64);
    message.0
}

pub(crate) fn encode_histogram(sent: &SentHistogram) -> Vec<u8> {
    let Histogram {
        counts,
        negative_spans,
        positive_spans,
        ..
    } = &sent.histogram;
    let mut message = Message::default();
    match counts {
        HistogramCounts::Integer { count, .. } => message.present_varint(1, *count),
        HistogramCounts::Float { count, .. } => message.present_double(2, *count),
    }
    message
        .double(3, sent.histogram.sum)
        .zigzag(4, sent.histogram.schema.into())
        .double(5, sent.histogram.zero_threshold);
    match counts {
        HistogramCounts::Integer {
            zero_count,
            positive_deltas,
            negative_deltas,
            ..
        } => {
            message.present_varint(6, *zero_count);
            encode_spans(&mut message, 8, negative_spans);
            message.packed(9, negative_deltas.iter().map(|delta| zigzag(*delta)));
            encode_spans(&mut message, 11, positive_spans);
            message.packed(12, positive_deltas.iter().map(|delta| zigzag(*delta)));
        }
        HistogramCounts::Float {
            zero_count,
            positive,
            negative,
            ..
        } => {
            message.present_double(7, *zero_count);
            encode_spans(&mut message, 8, negative_spans);
            message.packed_doubles(10, negative);
            encode_spans(&mut message, 11, positive_spans);
            message.packed_doubles(13, positive);
        }
    }
    message
        .varint(14, sent.histogram.reset_hint.number().into())
        .varint(15, sent.timestamp_ms as u64)
        .packed_doubles(16, &sent.histogram.custom_bounds)
        .varint(17, sent.start_timestamp_ms as u64);
    message.0
}

fn encode_spans(message: &mut Message, field: u64, spans: &[Span]) {
    for span in spans {
        let mut content = Message::default();
        content
            .zigzag(1, span.offset.into())
            .varint(2, span.length.into());
        message.bytes(field, &content.0);
    }
}

/// Gives out references to strings.
pub(crate) struct SymbolTable {
    pub(crate) symbols: Vec<String>,
    refs: HashMap<String, u64>,
}

impl Default for SymbolTable {
    fn default() -> Self {
        Self {
            symbols: vec![String::new()],
            refs: HashMap::from([(String::new(), 0)]),
        }
    }
}

impl SymbolTable {
    pub(crate) fn reference(&mut self, text: &str) -> u64 {
        *self.refs.entry(text.into()).or_insert_with(|| {
            self.symbols.push(text.into());
            self.symbols.len() as u64 - 1
        })
    }

    fn refs(&mut self, labels: &[(String, String)]) -> Vec<u64> {
        labels
            .iter()
            .flat_map(|(n, v)| [self.reference(n), self.reference(v)])
            .collect()
    }
}

pub(crate) fn encode_v2(request: &Request) -> Vec<u8> {
    let mut table = SymbolTable::default();
    let series: Vec<_> = request
        .series
        .iter()
        .map(|series| fields_v2(series, &mut table).concat())
        .collect();
    assemble_v2(&table.symbols, &series)
}

pub(crate) fn assemble_v2<S: AsRef<[u8]>>(symbols: &[S], series: &[Vec<u8>]) -> Vec<u8> {
    let mut message = Message::default();
    for symbol in symbols {
        message.bytes(4, symbol.as_ref());
    }
    for one in series {
        message.bytes(5, one);
    }
    message.0
}

pub(crate) fn fields_v2(series: &Series, table: &mut SymbolTable) -> Vec<Vec<u8>> {
    let mut fields = vec![field(|message| {
        message.packed(1, table.refs(&series.labels))
    })];
    for sample in &series.samples {
        let mut content = Message::default();
        content
            .double(1, sample.value)
            .varint(2, sample.timestamp_ms as u64)
            .varint(3, sample.start_timestamp_ms as u64);
        fields.push(field(|message| message.bytes(2, &content.0)));
    }
    for exemplar in &series.exemplars {
        let mut content = Message::default();
        content
            .packed(1, table.refs(&exemplar.labels))
            .double(2, exemplar.value)
            .varint(3, exemplar.timestamp_ms as u64);
        fields.push(field(|message| message.bytes(4, &content.0)));
    }
    for histogram in &series.histograms {
        fields.push(field(|message| {
            message.bytes(3, &encode_histogram(histogram))
        }));
    }
    let metadata = metadata_v2(&series.metadata, table);
    fields.push(field(|message| message.bytes(5, &metadata)));
    fields.push(field(|message| {
        message.varint(6, series.created_timestamp_ms as u64)
    }));
    fields
}

fn metadata_v2(metadata: &Metadata, table: &mut SymbolTable) -> Vec<u8> {
    let mut content = Message::default();
    content
        .varint(1, metadata.metric_type.number().into())
        .varint(3, table.reference(&metadata.help))
        .varint(4, table.reference(&metadata.unit));
    content.0
}
