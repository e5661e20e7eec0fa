//! The one table of all settings.
//!
//! From a row come the key in the file's `icecore:` section, the flag, the environment variable,
//! the line in `--help` and the line in `docs/configuration.md`. Defaults are not repeated here:
//! they are what the `Options` structs say.
//!
//! To add a setting: add the field with its default and reason to its `Options`, add a row here,
//! and run the tests of this module once with `UPDATE_DOCS=1`.

use icecore_settings::{
    Address, AutoSize, AutoTime, Bool, Integer, Location, MapForm, Names, OneOf, OptionalAddress,
    Registry, SecretText, Size, Text, Time, setting,
};

use super::events::{OtlpLogs, UnconfiguredWords};
use super::options::{
    CompressionWords, ExcludeAggregates, ExponentialWords, Origins, StrategyWords,
};
use super::retention::{self, PolicyText};
use super::{Config, LogFormat, LogLevel};

/// A setting of a process.
pub type Setting = icecore_settings::Setting<Config>;

/// The sections in the order in which they are documented, with a heading for each.
pub const SECTIONS: &[(&str, &str)] = &[
    ("server", "Server"),
    ("log", "Log"),
    ("config", "Configuration file"),
    ("storage", "Storage"),
    ("journal", "Journal"),
    ("head", "Head"),
    ("limits", "Limits on what is written"),
    ("read", "Limits on what is read"),
    ("query", "Queries"),
    ("otlp", "OpenTelemetry metrics"),
    ("events", "Events"),
    ("opentsdb", "OpenTSDB"),
    ("scrape", "Scraping"),
    ("maintenance", "Maintenance"),
    ("retention", "Retention"),
];

pub(super) static REGISTRY: Registry<Config> = Registry {
    sections: SECTIONS,
    settings: SETTINGS,
};

/// Every setting, in the order in which they are documented.
pub static SETTINGS: &[Setting] = &[
    setting!("server.listen", Address, server.listen, short "listen",
        "Where HTTP is served. Only this machine by default, because there is no access control until one is configured; 9090 is where dashboards look for a Prometheus."),
    setting!("server.web_config", Text, server.web_config, short "web.config.file",
        "Web configuration file for TLS, users, tokens and roles: Prometheus' own format and a section icecore. Reloaded when it or a file that it names changes. Without one there is no access control."),
    setting!("server.write_body_bytes_max", Size, server.write_body_bytes_max, "1KiB" to "",
        "Bytes of one write request as sent; larger ones get 413. Prometheus sends about 2 MiB at most, backfilling tools more."),
    setting!("server.write_decompressed_bytes_max", Size, server.write_decompressed_bytes_max, "1KiB" to "",
        "Bytes of one write request once decompressed; larger ones get 413 before memory is allocated for them. Remote write shrinks by four to ten times."),
    setting!("server.concurrent_writes_max", Integer, server.concurrent_writes_max, "1" to "1000000",
        "Concurrent write requests, counted once their body has arrived; further ones get 503 with Retry-After. Room for five Prometheus servers with 50 shards each; most of them only wait for the commit."),
    setting!("server.concurrent_reads_max", Integer, server.concurrent_reads_max, "1" to "1000000",
        "Concurrent read requests; further ones wait within their timeout. As many as Prometheus runs: more would share the same cores."),
    setting!("server.request_timeout", Time, server.request_timeout, "1ms" to "",
        "Timeout of one request. Prometheus' query timeout."),
    setting!(
        "server.shutdown_grace",
        Time,
        server.shutdown_grace,
        "Time for running requests to finish after the signal to stop. Orchestrators commonly kill after 30 s; this leaves the rest for the last flush."
    ),
    setting!(
        "server.stop_timeout",
        Time,
        server.stop_timeout,
        "Time from the signal to stop to the end of the process, server.shutdown_grace included. What is not flushed by then stays in the journal, and the log says so: the next start replays it. Below the 30 s after which orchestrators commonly kill."
    ),
    setting!("server.cors_origin", Origins, server.cors_origin, short "web.cors.origin",
        "Allowed CORS origins for /api/ and /v1/: a regular expression for the whole origin. Every origin by default, as in Prometheus. Pages of other origins may change something only if this is set and allows them: with .* any page could delete everything. Taking it out of the file needs a restart."),
    setting!(
        "server.hosts",
        Names,
        server.hosts,
        "Further names under which clients reach this server. Without access control, requests for names that a page on the internet may have are refused, because such a name can be made to lead here: right are IP addresses, localhost, the name of the machine, names without a dot, *.local, *.internal, *.svc, *.svc.cluster.local and these. Pages under these names may change something, also where a proxy names this server by another host."
    ),
    setting!("server.client_share", Integer, server.client_share, "1" to "100",
        "Percent of the connections of a port that one client address (of IPv6, a network of 64 bits) may have; further ones are closed at once. A port has 4096 connections, or fewer where the system allows few open files: all ports together have half of those. A proxy or a router is one address: 100 lets it have all."),
    setting!("server.remote_read_bytes_max", Size, server.remote_read_bytes_max, "1KiB" to "4GiB",
        "Bytes of a remote read response of type SAMPLES, before compression, because it is held in memory. More is an error; streamed responses have no such limit."),
    setting!("server.remote_read_frame_bytes", Size, server.remote_read_frame_bytes, "1KiB" to "",
        "Bytes per frame of a streamed remote read response. Prometheus' default; its clients refuse frames of more than 50 MB."),
    setting!(
        "log.level",
        OneOf<LogLevel>,
        log.level,
        "Log level on standard error. At info a healthy process writes a few lines per hour."
    ),
    setting!(
        "log.format",
        OneOf<LogFormat>,
        log.format,
        "Log format: text for people, or one JSON object per line for collectors."
    ),
    setting!(
        "config.strict",
        Bool,
        file_options.strict,
        "Refuse a configuration file with parts that are not supported. By default such a part is left out with a warning that says what to use instead, so that any file of Prometheus starts a server. icecore config check lists them."
    ),
    setting!("storage.location", Location, storage.store.location, short "storage",
        "Where the data is stored: a directory (relative to where the process starts), file://, memory://, s3://bucket/prefix, gs:// or az://. A directory needs nothing else installed."),
    setting!(
        "storage.endpoint",
        Text,
        storage.store.endpoint,
        "URL of an S3-compatible server. Empty means AWS itself, or AWS_ENDPOINT_URL."
    ),
    setting!(
        "storage.region",
        Text,
        storage.store.region,
        "S3 region. Empty means AWS_REGION, or us-east-1, which S3-compatible servers accept."
    ),
    setting!(
        "storage.access_key_id",
        Text,
        storage.store.access_key_id,
        "S3 key. Empty means AWS_ACCESS_KEY_ID or the machine's role."
    ),
    setting!(
        "storage.secret_access_key",
        SecretText,
        storage.store.secret_access_key,
        "The secret of the S3 key; a flag would be visible in the process list, so prefer the environment. Empty means AWS_SECRET_ACCESS_KEY or the machine's role."
    ),
    setting!(
        "storage.path_style",
        Bool,
        storage.store.path_style,
        "Address buckets as endpoint/bucket, which most S3-compatible servers expect, instead of bucket.endpoint."
    ),
    setting!(
        "storage.fsync",
        Bool,
        storage.store.fsync,
        "Sync files and directories of a local store to the disk: without it, power failure can lose acknowledged samples. It costs about 57 ns of CPU per sample."
    ),
    setting!("storage.open_timeout", Time, storage.store.open_timeout, "1ms" to "",
        "Timeout of the first contact with the store: a wrong endpoint or bucket is an error, not a hang."),
    setting!("storage.retries_max", Integer, storage.store.retries_max, "0" to "1000000",
        "Retries of a read before its query fails, and of any request while the database is opened or closed: a second or two each. Writes of a running process are retried until they succeed."),
    setting!("storage.take_over", Bool, storage.store.take_over, short "take-over",
        "Open a local directory although another process has it open; that process then stops. For one start, by flag: two processes on one directory are nearly always a mistake. An object store is always taken over."),
    setting!(
        "storage.tsdb.retention.time",
        Time,
        tsdb.retention_time,
        "How long samples are kept, as Prometheus says it; its own section storage of the file is read, too. 0s: this says nothing. Counts where retention says nothing, and rounded up to whole hours."
    ),
    setting!("storage.block_bytes", Size, storage.store.block_bytes, "1KiB" to "64KiB",
        "Size of stored blocks, a power of two. At 16KiB the index is four times smaller than at 4KiB, and a block is still cheap to fetch for one series."),
    setting!(
        "storage.compression",
        OneOf<CompressionWords>,
        storage.store.compression,
        "Codec of blocks written to the journal and by flushes. lz4 is nearly free; zstd saves a fifth of the bytes for a third more CPU in a flush."
    ),
    setting!(
        "storage.compacted_compression",
        OneOf<CompressionWords>,
        storage.store.compacted_compression,
        "Codec of blocks written by compaction. They are long-lived and rarely rewritten, so zstd pays off."
    ),
    setting!("storage.block_cache_bytes", Size, storage.store.block_cache_bytes, "1MiB" to "",
        "Memory of the block cache: room for a dashboard's worth of recent hours on a small host."),
    setting!("storage.meta_cache_bytes", Size, storage.store.meta_cache_bytes, "1MiB" to "",
        "Memory of the cache of indexes and filters, separate so that a large scan cannot evict them. \
         Ids of events take 10 bits each: this is an hour at 20 000 events a second."),
    setting!("storage.l0_sst_bytes", Size, storage.store.l0_sst_bytes, "64KiB" to "",
        "Bytes gathered before a file is written. Small, because they are held in memory several times over meanwhile."),
    setting!("storage.unflushed_bytes_max", Size, storage.store.unflushed_bytes_max, "64KiB" to "",
        "Bytes that may wait to be written into files before writes block. At least four times storage.l0_sst_bytes: less was seen to hang."),
    setting!("storage.wal_flush_interval", Time, storage.store.wal_flush_interval, "1ms" to "",
        "Timer of the store's own write-ahead log. Commits come long before it; it is the safety net without which a flush was seen to hang."),
    setting!(
        "storage.compaction",
        Bool,
        storage.store.compaction,
        "Whether this process compacts files and collects garbage. Off only where another process does it."
    ),
    setting!("storage.gc_interval", Time, storage.store.gc_interval, "1s" to "",
        "Interval between garbage collections of unreferenced files."),
    setting!(
        "storage.gc_min_age",
        Time,
        storage.store.gc_min_age,
        "Minimum age of an unreferenced file before it is removed: readers may still use it."
    ),
    setting!(
        "journal.commit_interval",
        AutoTime,
        storage.journal.commit_interval,
        "Minimum interval between commits. auto is 2 ms on a local directory, to gather small requests, and 200 ms on a remote store, where each commit is a PUT that costs money."
    ),
    setting!("journal.epoch_bytes_max", Size, storage.journal.epoch_bytes_max, "64KiB" to "",
        "Maximum bytes of a journal epoch; replay and removal work epoch by epoch."),
    setting!("journal.epoch_age_max", Time, storage.journal.epoch_age_max, "1s" to "",
        "A journal epoch ends at each multiple of this time (with 1h, at the full hour), so that what is stored in buckets can be removed."),
    setting!("journal.epoch_keep_max", Time, storage.journal.epoch_keep_max, "1s" to "",
        "Buckets that hold back a journal epoch for longer are flushed although they are still written to: this bounds the replay after a restart."),
    setting!("journal.queue_bytes_max", Size, storage.journal.queue_bytes_max, "64KiB" to "",
        "Bytes that may wait for a commit before new requests get 503 with Retry-After."),
    setting!("journal.commit_timeout", Time, storage.journal.commit_timeout, "1ms" to "",
        "How long a write waits for its commit before it gets 503 with Retry-After. It is still committed when the store is back; a retry is stored once. Prometheus' remote write timeout."),
    setting!(
        "journal.strict_recovery",
        Bool,
        storage.journal.strict_recovery,
        "Refuse to start when a journal record cannot be read. By default the record is reported and kept, and the process starts with the rest."
    ),
    setting!("head.flush_bytes", AutoSize, storage.head.flush_bytes, "1MiB" to "",
        "Memory of recent samples above which buckets are flushed early, largest first. auto is a sixteenth of the memory of the machine, or of its container if that has less; the value is logged at startup."),
    setting!("head.bytes_max", AutoSize, storage.head.bytes_max, "1MiB" to "",
        "Memory of recent samples above which writes get 503 with Retry-After until flushes catch up; for old samples already halfway between head.flush_bytes and this. auto is an eighth of the memory."),
    setting!("head.series_bytes_max", AutoSize, storage.head.series_bytes_max, "1MiB" to "",
        "Memory of series (labels, index, tables) above which new series are refused; existing ones are still written. Flushes do not free it, only idle series do. A million series take about 200 MiB. auto is a quarter of the memory."),
    setting!(
        "head.flush_grace",
        Time,
        storage.head.flush_grace,
        "A bucket is flushed when its hour ended this long ago and nothing was written to it for as long. Covers the usual lag of senders, so that an hour is written once."
    ),
    setting!("head.series_idle_max", Time, storage.head.series_idle_max, "1s" to "",
        "How long a series may be idle before it is forgotten. Above the longest usual scrape interval, so that slow series are not created again at each scrape."),
    setting!("head.flush_batch_records", Integer, storage.head.flush_batch_records, "1" to "1000000",
        "Records per write batch of a flush. Larger batches were not faster when measured."),
    setting!("head.flush_batch_bytes", Size, storage.head.flush_batch_bytes, "4KiB" to "",
        "Bytes per write batch of a flush."),
    setting!("limits.series_max", Integer, storage.limits.series_max, "1" to "",
        "Series held in memory at once; samples of further new ones are refused."),
    setting!("limits.new_series_per_request_max", Integer, storage.limits.new_series_per_request_max, "1" to "",
        "New series that one request may create."),
    setting!("limits.labels_per_series_max", Integer, storage.limits.labels_per_series_max, "1" to "",
        "Labels of one series, its name included."),
    setting!("limits.label_name_bytes_max", Size, storage.limits.label_name_bytes_max, "1B" to "32KiB",
        "Bytes of a label name. Name and value together never exceed 32 KiB of a stored key, whatever is set here."),
    setting!("limits.label_value_bytes_max", Size, storage.limits.label_value_bytes_max, "1B" to "32KiB",
        "Bytes of a label value. Name and value together never exceed 32 KiB of a stored key, whatever is set here."),
    setting!("limits.samples_per_request_max", Integer, storage.limits.samples_per_request_max, "1" to "",
        "Samples (floats, histograms and exemplars) of one request."),
    setting!(
        "limits.future_max",
        Time,
        storage.limits.future_max,
        "How far ahead of this machine's clock a timestamp may be. Clocks differ by minutes at most; a timestamp in the wrong unit is far off."
    ),
    setting!("limits.open_buckets_max", Integer, storage.limits.open_buckets_max, "1" to "",
        "Old hours that may be open in memory; writes that would open more get 503 with Retry-After until some are flushed. Hours within twelve of now are not counted, so that a backfill cannot block them."),
    setting!("limits.buckets_per_request_max", Integer, storage.limits.buckets_per_request_max, "1" to "",
        "Hours that the samples of one request may touch."),
    setting!("limits.exemplars_per_series_max", Integer, storage.limits.exemplars_per_series_max, "0" to "",
        "Exemplars kept per series and hour; 0 keeps none."),
    setting!("limits.metadata_max", Integer, storage.limits.metadata_max, "0" to "",
        "Metric families whose type, unit and help are kept."),
    setting!("limits.help_bytes_max", Size, storage.limits.help_bytes_max, "0" to "",
        "Bytes of a metric's help text; longer ones are cut."),
    setting!("limits.delta_series_max", Integer, storage.limits.delta_series_max, "0" to "",
        "Series sent as deltas whose running totals are kept; points of further ones are refused. A float takes about 250 bytes, a histogram its buckets more."),
    setting!("limits.delta_idle", Time, storage.limits.delta_idle, "1s" to "",
        "How long the running total of a delta series is kept after its last point. A point resent later than that is added again; a new one starts a new total, which queries see as a counter reset."),
    setting!("read.series_max", Integer, storage.read.series_max, "1" to "",
        "Series that one selection may find; more is an error that names this setting."),
    setting!("read.samples_max", Integer, storage.read.samples_max, "1" to "",
        "Samples that one selection may return; more is an error that names this setting."),
    setting!("read.exemplars_max", Integer, storage.read.exemplars_max, "1" to "",
        "Exemplars that one query may return; more is an error that names this setting. They are held in memory together."),
    setting!("read.concurrent_gets", Integer, storage.read.concurrent_gets, "1" to "10000",
        "Concurrent reads of single records per selection: hides the latency of a remote store without flooding it."),
    setting!("read.chunk_cache_bytes", Size, storage.read.chunk_cache_bytes, "0" to "",
        "Memory for decoded samples, labels, index records and cells of events read before; least recently used ones are evicted first. An hour of a series takes about 0.6 KiB, so this is 10 000 series for half a day; only queries fill it. A cell of a counter takes about 45 bytes."),
    setting!("read.batch_series", Integer, storage.read.batch_series, "1" to "",
        "Series per batch of a streamed answer: what a reader holds in memory at a time."),
    setting!("query.lookback_delta", Time, query.engine.lookback, "1ms" to "",
        "How far back a query looks for the latest sample of a series. Prometheus' five minutes, so that queries mean the same; a request can override it."),
    setting!("query.default_step", Time, query.engine.default_step, "1ms" to "",
        "The step of a subquery that names none. Prometheus' evaluation interval, so that queries mean the same."),
    setting!("query.timeout", Time, query.engine.timeout, "1ms" to "",
        "Timeout of a query, time in the queue included; then it fails with 503. A request can only lower it. Prometheus' default."),
    setting!("query.max_samples", Integer, query.engine.samples_max, "1" to "",
        "Samples that one query may hold in memory at once; more is an error. Prometheus' default."),
    setting!("query.max_memory", Size, query.engine.memory_max, "1MiB" to "",
        "Memory of one query or other read request; more is an error. Enough for 11000 steps of ten thousand series, and one query cannot take a small host down."),
    setting!("query.label_value_bytes_max", Size, query.engine.label_value_bytes_max, "1KiB" to "",
        "Bytes of a label value that a function of a query makes (label_join, label_replace, count_values); more is an error. As many as a stored value may have, whatever limits.label_value_bytes_max admits: nested functions multiply them."),
    setting!(
        "query.delayed_name_removal",
        Bool,
        query.engine.delayed_name_removal,
        "Whether metric names that functions remove are kept until the end of the query, so that aggregations by __name__ and label_replace still see them: Prometheus' feature promql-delayed-name-removal. Off as there, so that queries mean the same."
    ),
    setting!(
        "query.exclude_aggregates",
        OneOf<ExcludeAggregates>,
        query.exclude_aggregates,
        "Whether selectors that do not name the label _aggregate leave out series that have it with another value than RAW: pre-aggregates, which would count twice. auto: if tsd.rollups.enable of OpenTSDB is set. The label and the value are those of tsd.rollups.agg_tag_key and tsd.rollups.raw_agg_tag_value."
    ),
    setting!("query.max_concurrency", Integer, query.max_concurrency, "1" to "1000000",
        "Concurrent queries; further ones wait. As many as Prometheus runs: more would share the same cores and each take longer."),
    setting!("query.max_queue", Integer, query.max_queue, "0" to "1000000",
        "Queries that may wait in the queue, within their timeout; further ones get 503 with Retry-After. Enough for a few dashboards with dozens of panels each; beyond that clients would time out."),
    setting!("otlp.grpc_listen", OptionalAddress, server.otlp_grpc_listen, short "otlp.grpc.listen",
        "Address of a second port for OTLP over gRPC, which the HTTP port serves, too; off for none. 4317 is the default of exporters. A default port that is in use is a warning, one given here is an error."),
    setting!(
        "otlp.translation_strategy",
        OneOf<StrategyWords>,
        otlp.strategy,
        "How names become those of Prometheus: underscores for what names could not have before UTF-8, and units and _total at the end, or not. As in Prometheus, and so are the others of this section unless they say otherwise; Prometheus' own section otlp: of the file is read, too."
    ),
    setting!(
        "otlp.promote_resource_attributes",
        Names,
        otlp.promote_resource_attributes,
        "Resource attributes that become labels of every series. The others are labels of target_info, which queries join."
    ),
    setting!(
        "otlp.promote_all_resource_attributes",
        Bool,
        otlp.promote_all_resource_attributes,
        "Whether all of them become labels, except for those that are ignored. Off because a change of any of them makes all series new ones."
    ),
    setting!(
        "otlp.ignore_resource_attributes",
        Names,
        otlp.ignore_resource_attributes,
        "Resource attributes that do not become labels although all others do."
    ),
    setting!(
        "otlp.keep_identifying_resource_attributes",
        Bool,
        otlp.keep_identifying_resource_attributes,
        "Whether target_info has service.name, service.namespace and service.instance.id beside job and instance, which are made of them."
    ),
    setting!(
        "otlp.promote_scope_metadata",
        Bool,
        otlp.promote_scope_metadata,
        "Whether name, version, schema and attributes of the instrumentation scope become labels otel_scope_…."
    ),
    setting!(
        "otlp.convert_histograms_to_nhcb",
        Bool,
        otlp.convert_histograms_to_nhcb,
        "Whether histograms with explicit bounds become native histograms with custom buckets instead of _bucket series."
    ),
    setting!(
        "otlp.exponential_histograms",
        OneOf<ExponentialWords>,
        otlp.exponential,
        "Whether exponential histograms become native ones, as in Prometheus, or _bucket series whose bounds are powers of two from 2^-16 to 2^40, for dashboards that know no others."
    ),
    setting!(
        "otlp.label_name_underscore_sanitization",
        Bool,
        otlp.label_name_underscore_sanitization,
        "Whether a label name that begins with one underscore gets key in front."
    ),
    setting!(
        "otlp.label_name_preserve_multiple_underscores",
        Bool,
        otlp.label_name_preserve_multiple_underscores,
        "Whether several underscores in a row in a label name stay several."
    ),
    setting!(
        "events.registry",
        Text,
        events.registry,
        "Directory of registry documents (services/SERVICE/events/TYPE/event.yaml and so on), applied at the start, at a reload and when a file changes. A document that is taken away changes nothing. Empty means that documents come over HTTP alone."
    ),
    setting!("events.registry_interval", Time, events.registry_interval, "1s" to "",
        "Interval between looks at that directory."),
    setting!(
        "events.shards",
        Names,
        events.shards,
        "Databases of other instances whose events are read with the own ones, as storage.location names them, on a store with the same settings. They are only read. Empty means that this instance answers for its own events alone."
    ),
    setting!("events.shard_age_max", Time, events.shard_age_max, "1ms" to "10m",
        "Age of what is read of other instances when a query begins. Each look costs a few requests to the store, and there is none without queries. Others flush every 5 s, so that their events are seen within 8 s."),
    setting!(
        "events.partial_answers",
        Bool,
        events.partial_answers,
        "Leave out other instances whose database cannot be read, and say so in the log alone. Otherwise queries of events get 503 with its name: a sum that lacks a part looks like one that does not."
    ),
    setting!(
        "events.otlp_logs",
        OneOf<OtlpLogs>,
        events.otlp_logs,
        "Whether records of OpenTelemetry's logs that have an event name are taken as events, over HTTP and gRPC; others are refused in any case. Off, because nobody should believe that lines of logs are kept here."
    ),
    setting!(
        "events.masking_key",
        SecretText,
        events.masking_key,
        "Key of the hashes that take the place of masked values. Documents with a hash rule are refused without one. A new key makes new hashes: what was stored keeps the old ones."
    ),
    setting!(
        "events.unconfigured",
        OneOf<UnconfiguredWords>,
        events.unconfigured,
        "What becomes of an event whose service or type is in no document: quarantine lists it for people to look at, reject refuses it, accept registers its type without any attributes and stores it."
    ),
    setting!(
        "events.keep_payload",
        Bool,
        events.keep_payload,
        "Whether quarantine and dead letters keep what was sent. Off, because no masking rule is known for it. What was kept is shown to administrators alone, and stored, masked, when its type is registered."
    ),
    setting!(
        "events.max_future_skew",
        Time,
        events.max_future_skew,
        "How far ahead of this machine's clock an event may begin or end; later ones are refused. Clocks of clients are rarely off by more."
    ),
    setting!("events.memory_limit", Size, events.memory_limit, "1MiB" to "",
        "Memory of events that are on their way into the store, into cells or into files; beyond it they get 503 with Retry-After. Four times what is put into files at once, which goes on meanwhile."),
    setting!("events.max_dimension_sets", Integer, events.max_dimension_sets, "1" to "",
        "Sets of dimension values that get cells of their own per metric and day; further ones are counted together under __overflow__."),
    setting!("events.max_keys", Integer, events.max_keys, "1" to "",
        "Cells of 5 s in memory above which they are flushed before the next boundary of 5 s. One batch with the cells of five windows stays below 10 MB."),
    setting!("events.seal_interval", Time, events.seal_interval, "1s" to "",
        "How long an event waits at most before it is put into a file; it can be found meanwhile, too."),
    setting!("events.seal_bytes", Size, events.seal_bytes, "64KiB" to "",
        "Bytes of events that are put into files before that time."),
    setting!("events.seal_events", Integer, events.seal_events, "1" to "",
        "Events that are put into files before that time."),
    setting!("events.merge_up_to_events", Integer, events.merge_up_to_events, "1" to "",
        "Events of a file that was merged of smaller ones of the same service, type and week, at most. It has 128 MiB at most, too, and is in memory while it is made; a file with half of that is not merged again."),
    setting!("events.merge_files", Integer, events.merge_files, "2" to "10000",
        "Small files that are merged, at least, unless they have half of what a merged one may have: ten at a time write an event about twice more."),
    setting!(
        "events.file_grace",
        Time,
        events.file_grace,
        "How long a file that was merged or has expired can still be read by those who began before. Longer than a query may take."
    ),
    setting!(
        "events.orphan_age",
        Time,
        events.orphan_age,
        "Age at which a file that no record names is removed: a crash has left it behind."
    ),
    setting!("events.retention_interval", Time, events.retention_interval, "1s" to "",
        "Interval between checks of what is too old to be kept."),
    setting!("events.max_catalog_values", Integer, events.max_catalog_values, "0" to "",
        "Values of an attribute of a service that are listed to choose from."),
    setting!("events.max_quarantine", Integer, events.max_quarantine, "0" to "",
        "Entries of the quarantine, and of the dead letters; the newest stay."),
    setting!("events.max_quarantine_bytes", Size, events.max_quarantine_bytes, "1MiB" to "",
        "Bytes of the entries of the quarantine, and of the dead letters, with what was kept of them; the newest stay."),
    setting!("events.quarantine_ttl", Time, events.quarantine_ttl, "1s" to "",
        "How long entries of the quarantine and of the dead letters stay."),
    setting!("events.max_accepted_types", Integer, events.max_accepted_types, "0" to "",
        "Types of events that are registered by themselves where unconfigured ones are accepted; events of further ones are refused."),
    setting!(
        "opentsdb.listen",
        OptionalAddress,
        opentsdb.listen,
        "Address of a port for OpenTSDB's HTTP API and telnet lines, as its own server has it at 4242; off for none. The HTTP port serves the API below /opentsdb in any case."
    ),
    setting!(
        "opentsdb.config",
        Text,
        opentsdb.config,
        "The original's own configuration file, opentsdb.conf. Keys that mean something here are acted on; the log names those that are not needed, and those that are unknown. With a file the original's defaults hold for what it does not set. Empty means those of a first client: metrics are created, and bodies may be as long as server.write_body_bytes_max."
    ),
    setting!(
        "opentsdb.settings",
        Names,
        opentsdb.settings,
        "Single settings under the original's keys, as KEY=VALUE; they count more than the file. Values may have commas. docs/opentsdb.md lists the keys."
    ),
    setting!("opentsdb.uid_bytes_max", Size, opentsdb.uid_bytes_max, "1MiB" to "",
        "Memory of the names of metrics, tag keys and tag values that have UIDs; further ones are refused, points of known ones are stored. UIDs are never given back. A name takes its text and 200 bytes, so this is four million of them. How long names may be is said by limits.label_name_bytes_max and limits.label_value_bytes_max."),
    setting!(
        "opentsdb.get_overrides",
        Bool,
        opentsdb.get_overrides,
        "Whether a GET may name another method in method_override, as the original allows. Off, because any page can make a browser send a GET. A POST may name another method in any case."
    ),
    setting!(
        "opentsdb.jsonp",
        Bool,
        opentsdb.jsonp,
        "Whether jsonp wraps an answer into a call of a function, as the original does. Off, because the pages of any site can run such an answer and read it; tsd.http.request.cors_domains allows pages by their origin instead."
    ),
    setting!(
        "scrape.self",
        Bool,
        scraping.itself,
        "Whether a process whose file names no scrape_configs scrapes its own metrics, every 15 s under the job icecore, so that a new installation has data to look at. --no-self-scrape sets it to false."
    ),
    setting!(
        "scrape.start_timestamps",
        Bool,
        scraping.start_timestamps,
        "Whether scrapes store start timestamps of counters, histograms and summaries. Then _created lines of OpenMetrics are not stored as series, and protobuf is preferred unless scrape_protocols says otherwise: Prometheus' --enable-feature=st-storage, off by default as there."
    ),
    setting!(
        "maintenance.enabled",
        Bool,
        storage.maintenance.enabled,
        "Whether closed hours are coarsened automatically. Without it they take about three times the bytes until a run is requested."
    ),
    setting!(
        "maintenance.delay",
        Time,
        storage.maintenance.delay,
        "How long a window must have been closed, and its hours without a write, before it is coarsened. Later samples are visible at once, but cost another rewrite."
    ),
    setting!(
        "maintenance.grace",
        Time,
        storage.maintenance.grace,
        "How long the records of a bucket are kept after a coarser one has replaced it, for readers in other processes with an older list. Longer than a query may take."
    ),
    setting!("maintenance.read_bytes_per_second", Size, storage.maintenance.read_bytes_per_second, "64KiB" to "",
        "Read rate limit of coarsening, so that it does not slow down ingest and queries. A requested run is not limited."),
    setting!("maintenance.write_bytes_per_second", Size, storage.maintenance.write_bytes_per_second, "64KiB" to "",
        "Write rate limit of coarsening; a requested run is not limited."),
    Setting {
        map: Some(MapForm {
            read: |config, fields| {
                if let Some(policy) = retention::read(fields) {
                    config.retention = Some(policy);
                }
            },
            render: |config| config.retention.as_ref().map(retention::render),
        }),
        ..setting!(
            "retention",
            PolicyText,
            retention,
            "How long data is kept: none (forever), default (raw 21d, 5m 90d, 1h 365d), a time for raw samples alone, or in the file a policy."
        )
    },
];
