//! Settings, with the defaults of the original, and those of a server without its file.
//!
//! ```text
//! opentsdb.conf ─► properties ─► settings: key by key ─► Config, notes about the rest
//! ```

mod file;
mod properties;
mod settings;

use std::collections::BTreeMap;
use std::time::Duration;

use icecore_model::ImpliedMatchers;

use crate::uid::NameLimits;

pub use file::{ConfigFile, ConfigNote};

/// Which requests are served (`tsd.mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    ReadWrite,
    ReadOnly,
    WriteOnly,
}

/// The settings of the original that mean something here. Each is named after its key.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `tsd.mode`
    pub mode: Mode,
    /// `tsd.core.auto_create_metrics`, `…_tagks`, `…_tagvs`
    pub auto_create_metrics: bool,
    pub auto_create_tagks: bool,
    pub auto_create_tagvs: bool,
    /// `tsd.core.tag.allow_specialchars`
    pub allow_special_chars: String,
    /// `tsd.storage.max_tags`
    pub max_tags: usize,
    /// `tsd.core.socket.timeout` in seconds: how long a telnet client may be silent; 0 is for ever.
    pub socket_timeout_s: u64,
    /// `tsd.core.timezone`: the zone of dates in queries; UTC where it is not set.
    pub timezone: Option<String>,
    /// `tsd.http.show_stack_trace`; there is none, but clients may look for the field.
    pub show_stack_trace: bool,
    /// `tsd.http.query.allow_delete`
    pub allow_delete: bool,
    /// `tsd.http.request.cors_domains`, `…cors_headers`
    pub cors_domains: Vec<String>,
    pub cors_headers: String,
    /// `tsd.http.request.enable_chunked`, `…max_chunk`
    pub enable_chunked: bool,
    pub max_chunk: usize,
    /// `tsd.query.skip_unresolved_tagvs`
    pub skip_unresolved_tagvs: bool,
    /// `tsd.query.limits.bytes.default`, `…data_points.default`; 0 is no limit.
    pub query_bytes_max: u64,
    pub query_points_max: u64,
    /// `tsd.query.timeout` in milliseconds; 0 is the server's own.
    pub query_timeout_ms: u64,
    /// `tsd.query.allow_simultaneous_duplicates`
    pub allow_simultaneous_duplicates: bool,
    /// `tsd.storage.fix_duplicates`
    pub fix_duplicates: bool,
    /// `tsd.storage.uid.width.metric`, `…tagk`, `…tagv`, in bytes
    pub uid_widths: [usize; 3],
    /// `tsd.core.uid.random_metrics`
    pub random_metric_uids: bool,
    /// `tsd.core.meta.enable_realtime_uid`
    pub realtime_uid: bool,
    /// `tsd.core.meta.enable_realtime_ts`
    pub realtime_ts: bool,
    /// `tsd.core.meta.enable_tsuid_tracking`
    pub tsuid_tracking: bool,
    /// `tsd.core.meta.enable_tsuid_incrementing`
    pub tsuid_incrementing: bool,
    /// `tsd.core.tree.enable_processing`
    pub tree_processing: bool,
    /// `tsd.rollups.enable`
    pub rollups_enabled: bool,
    /// `tsd.rollups.config`: the JSON document; see [`Config::rollups`]
    pub rollups_document: Option<String>,
    /// `tsd.rollups.tag_raw`, `…agg_tag_key`, `…raw_agg_tag_value`, `…block_derived`
    pub rollups_tag_raw: bool,
    pub rollups_agg_tag_key: String,
    pub rollups_raw_agg_tag_value: String,
    pub rollups_block_derived: bool,
    /// The server's `query.exclude_aggregates`: whether series that were aggregated over tags are
    /// left out of what does not name their tag. Where it is not set, they are if there may be any.
    pub exclude_aggregates: Option<bool>,
    /// `tsd.core.histograms.config`: class name of a codec to its id
    pub histogram_codecs: Option<BTreeMap<String, u8>>,
    /// The server's `opentsdb.get_overrides`: a GET may name another verb in `method_override`.
    pub get_overrides: bool,
    /// The server's `opentsdb.jsonp`: answers may be wrapped into calls of a function.
    pub jsonp: bool,
    /// `tsd.rpc.telnet.return_errors`
    pub telnet_return_errors: bool,
    /// `tsd.no_diediedie`
    pub no_diediedie: bool,
    /// The server's `limits.label_name_bytes_max`, `limits.label_value_bytes_max` and
    /// `opentsdb.uid_bytes_max`.
    pub name_limits: NameLimits,
    /// The name of this host in statistics; the original asks the system.
    pub host: String,
}

impl Config {
    /// Returns the defaults of a server without a file of the original. A first client is served as
    /// it comes: names are created, and bodies may be as long as the server takes them.
    pub fn without_file() -> Self {
        Self {
            auto_create_metrics: true,
            enable_chunked: true,
            max_chunk: usize::MAX,
            ..Self::default()
        }
    }

    /// The document that configures rollups, where they are enabled.
    pub fn rollups(&self) -> Option<&str> {
        let document = self.rollups_document.as_deref();
        document.filter(|_| self.rollups_enabled)
    }

    /// How long a telnet client may send nothing; `None`: for ever.
    pub fn socket_timeout(&self) -> Option<Duration> {
        let timeout_s = self.socket_timeout_s;
        (timeout_s > 0).then(|| Duration::from_secs(timeout_s))
    }

    /// What selectors imply about rollups and pre-aggregates, those of other protocols, too.
    pub fn implied_matchers(&self) -> ImpliedMatchers {
        let implied = ImpliedMatchers::new(&self.rollups_agg_tag_key);
        if self.exclude_aggregates.unwrap_or(self.rollups().is_some()) {
            implied.without_aggregates(&self.rollups_raw_agg_tag_value)
        } else {
            implied
        }
    }
}

impl Default for Config {
    /// Returns the defaults of the original.
    fn default() -> Self {
        Self {
            mode: Mode::ReadWrite,
            auto_create_metrics: false,
            auto_create_tagks: true,
            auto_create_tagvs: true,
            allow_special_chars: String::new(),
            max_tags: 8,
            socket_timeout_s: 0,
            timezone: None,
            show_stack_trace: true,
            allow_delete: false,
            cors_domains: Vec::new(),
            cors_headers: "Authorization, Content-Type, Accept, Origin, User-Agent, DNT, \
                           Cache-Control, X-Mx-ReqToken, Keep-Alive, X-Requested-With, \
                           If-Modified-Since"
                .into(),
            enable_chunked: false,
            max_chunk: 4096,
            skip_unresolved_tagvs: false,
            query_bytes_max: 0,
            query_points_max: 0,
            query_timeout_ms: 0,
            allow_simultaneous_duplicates: true,
            fix_duplicates: false,
            uid_widths: [3; 3],
            random_metric_uids: false,
            realtime_uid: false,
            realtime_ts: false,
            tsuid_tracking: false,
            tsuid_incrementing: false,
            tree_processing: false,
            rollups_enabled: false,
            rollups_document: None,
            rollups_tag_raw: false,
            rollups_agg_tag_key: "_aggregate".into(),
            rollups_raw_agg_tag_value: "RAW".into(),
            rollups_block_derived: true,
            exclude_aggregates: None,
            histogram_codecs: None,
            get_overrides: false,
            jsonp: false,
            telnet_return_errors: true,
            no_diediedie: false,
            name_limits: NameLimits::default(),
            host: "localhost".into(),
        }
    }
}
