//! The messages of OTLP metrics and logs, as far as they are read.

/// How a value is written in protobuf.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A function, because values contain values.
    Message(fn() -> &'static [Field]),
    Text,
    Base64,
    Hex,
    Bool,
    Double,
    Fixed64,
    Sfixed64,
    Int64,
    Uint64,
    Uint32,
    Sint32,
    /// The words for 0, 1 and so on.
    Enum(&'static [&'static str]),
}

pub(super) struct Field {
    /// In camel case.
    name: &'static str,
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) repeated: bool,
}

const fn one(name: &'static str, number: u32, kind: Kind) -> Field {
    Field {
        name,
        number,
        kind,
        repeated: false,
    }
}

const fn many(name: &'static str, number: u32, kind: Kind) -> Field {
    Field {
        repeated: true,
        ..one(name, number, kind)
    }
}

/// The field with this key, in camel case or as in the `.proto` file.
pub(super) fn find(fields: &'static [Field], key: &str) -> Option<&'static Field> {
    fields.iter().find(|field| is_name(field.name, key))
}

fn is_name(camel: &str, key: &str) -> bool {
    if camel == key {
        return true;
    }
    let mut rest = key.bytes();
    let is_snake = camel.bytes().all(|byte| {
        if byte.is_ascii_uppercase() {
            rest.next() == Some(b'_') && rest.next() == Some(byte.to_ascii_lowercase())
        } else {
            rest.next() == Some(byte)
        }
    });
    is_snake && rest.next().is_none()
}

pub(super) static METRICS_REQUEST: &[Field] = &[many(
    "resourceMetrics",
    1,
    Kind::Message(|| RESOURCE_METRICS),
)];

pub(super) static LOGS_REQUEST: &[Field] =
    &[many("resourceLogs", 1, Kind::Message(|| RESOURCE_LOGS))];

static RESOURCE_LOGS: &[Field] = &[
    one("resource", 1, Kind::Message(|| RESOURCE)),
    many("scopeLogs", 2, Kind::Message(|| SCOPE_LOGS)),
    one("schemaUrl", 3, Kind::Text),
];

static SCOPE_LOGS: &[Field] = &[
    one("scope", 1, Kind::Message(|| SCOPE)),
    many("logRecords", 2, Kind::Message(|| LOG_RECORD)),
    one("schemaUrl", 3, Kind::Text),
];

static LOG_RECORD: &[Field] = &[
    one("timeUnixNano", 1, Kind::Fixed64),
    one("severityNumber", 2, Kind::Enum(SEVERITIES)),
    one("severityText", 3, Kind::Text),
    one("body", 5, Kind::Message(|| ANY_VALUE)),
    many("attributes", 6, Kind::Message(|| KEY_VALUE)),
    one("traceId", 9, Kind::Hex),
    one("spanId", 10, Kind::Hex),
    one("observedTimeUnixNano", 11, Kind::Fixed64),
    one("eventName", 12, Kind::Text),
];

static SEVERITIES: &[&str] = &[
    "SEVERITY_NUMBER_UNSPECIFIED",
    "SEVERITY_NUMBER_TRACE",
    "SEVERITY_NUMBER_TRACE2",
    "SEVERITY_NUMBER_TRACE3",
    "SEVERITY_NUMBER_TRACE4",
    "SEVERITY_NUMBER_DEBUG",
    "SEVERITY_NUMBER_DEBUG2",
    "SEVERITY_NUMBER_DEBUG3",
    "SEVERITY_NUMBER_DEBUG4",
    "SEVERITY_NUMBER_INFO",
    "SEVERITY_NUMBER_INFO2",
    "SEVERITY_NUMBER_INFO3",
    "SEVERITY_NUMBER_INFO4",
    "SEVERITY_NUMBER_WARN",
    "SEVERITY_NUMBER_WARN2",
    "SEVERITY_NUMBER_WARN3",
    "SEVERITY_NUMBER_WARN4",
    "SEVERITY_NUMBER_ERROR",
    "SEVERITY_NUMBER_ERROR2",
    "SEVERITY_NUMBER_ERROR3",
    "SEVERITY_NUMBER_ERROR4",
    "SEVERITY_NUMBER_FATAL",
    "SEVERITY_NUMBER_FATAL2",
    "SEVERITY_NUMBER_FATAL3",
    "SEVERITY_NUMBER_FATAL4",
];

static RESOURCE_METRICS: &[Field] = &[
    one("resource", 1, Kind::Message(|| RESOURCE)),
    many("scopeMetrics", 2, Kind::Message(|| SCOPE_METRICS)),
    one("schemaUrl", 3, Kind::Text),
];

static RESOURCE: &[Field] = &[many("attributes", 1, Kind::Message(|| KEY_VALUE))];

static SCOPE_METRICS: &[Field] = &[
    one("scope", 1, Kind::Message(|| SCOPE)),
    many("metrics", 2, Kind::Message(|| METRIC)),
    one("schemaUrl", 3, Kind::Text),
];

static SCOPE: &[Field] = &[
    one("name", 1, Kind::Text),
    one("version", 2, Kind::Text),
    many("attributes", 3, Kind::Message(|| KEY_VALUE)),
];

static METRIC: &[Field] = &[
    one("name", 1, Kind::Text),
    one("description", 2, Kind::Text),
    one("unit", 3, Kind::Text),
    one("gauge", 5, Kind::Message(|| GAUGE)),
    one("sum", 7, Kind::Message(|| SUM)),
    one("histogram", 9, Kind::Message(|| HISTOGRAM)),
    one(
        "exponentialHistogram",
        10,
        Kind::Message(|| EXPONENTIAL_HISTOGRAM),
    ),
    one("summary", 11, Kind::Message(|| SUMMARY)),
];

const TEMPORALITY: Field = one(
    "aggregationTemporality",
    2,
    Kind::Enum(&[
        "AGGREGATION_TEMPORALITY_UNSPECIFIED",
        "AGGREGATION_TEMPORALITY_DELTA",
        "AGGREGATION_TEMPORALITY_CUMULATIVE",
    ]),
);

static GAUGE: &[Field] = &[many("dataPoints", 1, Kind::Message(|| NUMBER_POINT))];

static SUM: &[Field] = &[
    many("dataPoints", 1, Kind::Message(|| NUMBER_POINT)),
    TEMPORALITY,
    one("isMonotonic", 3, Kind::Bool),
];

static HISTOGRAM: &[Field] = &[
    many("dataPoints", 1, Kind::Message(|| HISTOGRAM_POINT)),
    TEMPORALITY,
];

static EXPONENTIAL_HISTOGRAM: &[Field] = &[
    many("dataPoints", 1, Kind::Message(|| EXPONENTIAL_POINT)),
    TEMPORALITY,
];

static SUMMARY: &[Field] = &[many("dataPoints", 1, Kind::Message(|| SUMMARY_POINT))];

const START: Field = one("startTimeUnixNano", 2, Kind::Fixed64);
const TIME: Field = one("timeUnixNano", 3, Kind::Fixed64);

static NUMBER_POINT: &[Field] = &[
    many("attributes", 7, Kind::Message(|| KEY_VALUE)),
    START,
    TIME,
    one("asDouble", 4, Kind::Double),
    one("asInt", 6, Kind::Sfixed64),
    many("exemplars", 5, Kind::Message(|| EXEMPLAR)),
    one("flags", 8, Kind::Uint32),
];

static HISTOGRAM_POINT: &[Field] = &[
    many("attributes", 9, Kind::Message(|| KEY_VALUE)),
    START,
    TIME,
    one("count", 4, Kind::Fixed64),
    one("sum", 5, Kind::Double),
    many("bucketCounts", 6, Kind::Fixed64),
    many("explicitBounds", 7, Kind::Double),
    many("exemplars", 8, Kind::Message(|| EXEMPLAR)),
    one("flags", 10, Kind::Uint32),
    one("min", 11, Kind::Double),
    one("max", 12, Kind::Double),
];

static EXPONENTIAL_POINT: &[Field] = &[
    many("attributes", 1, Kind::Message(|| KEY_VALUE)),
    START,
    TIME,
    one("count", 4, Kind::Fixed64),
    one("sum", 5, Kind::Double),
    one("scale", 6, Kind::Sint32),
    one("zeroCount", 7, Kind::Fixed64),
    one("positive", 8, Kind::Message(|| BUCKETS)),
    one("negative", 9, Kind::Message(|| BUCKETS)),
    one("flags", 10, Kind::Uint32),
    many("exemplars", 11, Kind::Message(|| EXEMPLAR)),
    one("min", 12, Kind::Double),
    one("max", 13, Kind::Double),
    one("zeroThreshold", 14, Kind::Double),
];

static BUCKETS: &[Field] = &[
    one("offset", 1, Kind::Sint32),
    many("bucketCounts", 2, Kind::Uint64),
];

static SUMMARY_POINT: &[Field] = &[
    many("attributes", 7, Kind::Message(|| KEY_VALUE)),
    START,
    TIME,
    one("count", 4, Kind::Fixed64),
    one("sum", 5, Kind::Double),
    many("quantileValues", 6, Kind::Message(|| QUANTILE)),
    one("flags", 8, Kind::Uint32),
];

static QUANTILE: &[Field] = &[
    one("quantile", 1, Kind::Double),
    one("value", 2, Kind::Double),
];

static EXEMPLAR: &[Field] = &[
    many("filteredAttributes", 7, Kind::Message(|| KEY_VALUE)),
    one("timeUnixNano", 2, Kind::Fixed64),
    one("asDouble", 3, Kind::Double),
    one("asInt", 6, Kind::Sfixed64),
    one("spanId", 4, Kind::Hex),
    one("traceId", 5, Kind::Hex),
];

static KEY_VALUE: &[Field] = &[
    one("key", 1, Kind::Text),
    one("value", 2, Kind::Message(|| ANY_VALUE)),
];

static ANY_VALUE: &[Field] = &[
    one("stringValue", 1, Kind::Text),
    one("boolValue", 2, Kind::Bool),
    one("intValue", 3, Kind::Int64),
    one("doubleValue", 4, Kind::Double),
    one("arrayValue", 5, Kind::Message(|| ARRAY_VALUE)),
    one("kvlistValue", 6, Kind::Message(|| KEY_VALUE_LIST)),
    one("bytesValue", 7, Kind::Base64),
];

static ARRAY_VALUE: &[Field] = &[many("values", 1, Kind::Message(|| ANY_VALUE))];

static KEY_VALUE_LIST: &[Field] = &[many("values", 1, Kind::Message(|| KEY_VALUE))];
