//! The settings under which groups were recorded.

/// The `opentsdb.conf` of a group; `stored` is that of our own database of an earlier version.
pub fn settings(name: &str) -> String {
    let own = match name {
        "plain" => "",
        "meta" => META,
        "stored" => return format!("{COMMON}{META}{HISTOGRAMS}"),
        "rollup" => return format!("{COMMON}{HISTOGRAMS}{ROLLUP}tsd.rollups.config = {ROLLUPS}\n"),
        "strict" => return String::new(),
        "ro" | "wo" => return format!("{LIMITED}tsd.mode = {name}\n"),
        other => panic!("unknown settings {other}"),
    };
    format!("{COMMON}{own}")
}

const COMMON: &str = "\
tsd.core.auto_create_metrics = true
tsd.core.timezone = UTC
tsd.http.show_stack_trace = false
tsd.http.request.enable_chunked = true
tsd.http.request.max_chunk = 16777216
";

const META: &str = "\
tsd.core.meta.enable_realtime_uid = true
tsd.core.meta.enable_realtime_ts = true
tsd.core.meta.enable_tsuid_tracking = true
tsd.core.meta.enable_tsuid_incrementing = true
tsd.core.tree.enable_processing = true
";

const HISTOGRAMS: &str =
    "tsd.core.histograms.config = {\"net.opentsdb.core.SimpleHistogramDecoder\":0}\n";

const ROLLUP: &str = "\
tsd.rollups.enable = true
tsd.http.query.allow_delete = true
tsd.storage.fix_duplicates = true
tsd.query.skip_unresolved_tagvs = true
tsd.http.request.cors_domains = *
";

const LIMITED: &str = "\
tsd.core.auto_create_metrics = true
tsd.http.show_stack_trace = false
";

const ROLLUPS: &str = concat!(
    r#"{"aggregationIds":{"sum":0,"count":1,"min":2,"max":3},"intervals":["#,
    r#"{"table":"tsdb","preAggregationTable":"tsdb-preagg","#,
    r#""interval":"1m","rowSpan":"1h","defaultInterval":true},"#,
    r#"{"table":"tsdb-rollup-10m","preAggregationTable":"tsdb-rollup-agg-10m","#,
    r#""interval":"10m","rowSpan":"1d"},"#,
    r#"{"table":"tsdb-rollup-1h","preAggregationTable":"tsdb-rollup-agg-1h","#,
    r#""interval":"1h","rowSpan":"1n"}]}"#,
);
