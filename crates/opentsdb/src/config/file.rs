//! `opentsdb.conf`.

use super::Config;
use super::properties::{Property, parse};

/// Settings of the original's storage, caches and plugins, for which there is nothing to set here.
/// With a dot at the end, all keys that begin so.
const NOT_NEEDED: &[&str] = &[
    "hbase.",
    "tsd.core.authentication.",
    "tsd.core.bulk.",
    "tsd.core.enable_api",
    "tsd.core.enable_ui",
    "tsd.core.meta.cache.",
    "tsd.core.plugin_path",
    "tsd.core.preload_uid_cache",
    "tsd.core.preload_uid_cache.",
    "tsd.core.stats_with_port",
    "tsd.core.storage_exception_handler.",
    "tsd.gnuplot.",
    "tsd.http.cachedir",
    "tsd.http.staticroot",
    "tsd.query.enable_fuzzy_filter",
    "tsd.query.filter.expansion_limit",
    "tsd.query.limits.bytes.allow_override",
    "tsd.query.limits.data_points.allow_override",
    "tsd.query.limits.overrides.",
    "tsd.query.multi_get.",
    "tsd.rollups.split_query.",
    "tsd.rtpublisher.",
    "tsd.search.",
    "tsd.startup.",
    "tsd.stats.canonical",
    "tsd.storage.compaction.",
    "tsd.storage.enable_appends",
    "tsd.storage.enable_compaction",
    "tsd.storage.flush_interval",
    "tsd.storage.get_date_tiered_compaction_start",
    "tsd.storage.hbase.",
    "tsd.storage.repair_appends",
    "tsd.storage.salt.",
    "tsd.storage.use_max_value",
    "tsd.storage.use_otsdb_timestamp",
    "tsd.timeseriesfilter.",
    "tsd.tnd.",
    "tsd.uid.",
    "tsd.uidfilter.",
    "tsd.http.header_tag",
];

/// Settings of the listener, which belong to the server.
const OF_THE_LISTENER: &[&str] = &["tsd.network.", "tsd.core.connections."];

/// A line with what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigNote {
    /// Counted from 1.
    pub line: usize,
    /// Empty where there is none.
    pub key: String,
    pub text: String,
}

/// A file that was read.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile {
    pub config: Config,
    /// Keys and values of the listener: ports and limits of connections.
    pub listener: Vec<ConfigNote>,
    /// Keys that set nothing here, because there is nothing to be set.
    pub not_needed: Vec<ConfigNote>,
    /// Keys that nobody knows; they may be misspelt.
    pub unknown: Vec<ConfigNote>,
    /// Values that cannot be read; their defaults are used.
    pub problems: Vec<ConfigNote>,
}

impl ConfigFile {
    /// Reads the text of a file. Values that name a `.json` file are read with `open`.
    pub fn read(text: &str, open: impl Fn(&str) -> Result<String, String>) -> Self {
        let mut file = Self::default();
        for property in parse(text) {
            let Property { line, key, value } = match property {
                Ok(property) => property,
                Err(line) => {
                    file.problems
                        .push(note(line, "", "an escape is unreadable"));
                    continue;
                }
            };
            if let Err(problem) = file.set(line, &key, &value, &open) {
                file.problems.push(note(line, &key, &problem));
            }
        }
        file
    }

    fn set(
        &mut self,
        line: usize,
        key: &str,
        value: &str,
        open: impl Fn(&str) -> Result<String, String>,
    ) -> Result<(), String> {
        if let Some(outcome) = self.config.set(key, value, open) {
            return outcome;
        }
        let names = |name: &&str| key == *name || name.ends_with('.') && key.starts_with(*name);
        let list = if OF_THE_LISTENER.iter().any(names) {
            &mut self.listener
        } else if NOT_NEEDED.iter().any(names) {
            &mut self.not_needed
        } else {
            &mut self.unknown
        };
        list.push(note(line, key, value));
        Ok(())
    }
}

fn note(line: usize, key: &str, text: &str) -> ConfigNote {
    ConfigNote {
        line,
        key: key.to_owned(),
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;

    fn read(text: &str) -> ConfigFile {
        ConfigFile::read(text, |path| match path {
            "conf/rollup.json" => Ok("{}".into()),
            _ => Err("no such file".into()),
        })
    }

    #[test]
    fn keys_are_sorted_by_what_they_mean_here() {
        let file = read(
            "# the port\n\
             tsd.network.port = 4242\n\
             tsd.core.auto_create_metrics = true\n\
             tsd.storage.hbase.zk_quorum = a,b\n\
             tsd.mode = ro\n\
             tsd.rollups.enable = true\n\
             tsd.rollups.config = conf/rollup.json\n\
             tsd.storage.max_tags = 16\n\
             tsd.core.auto_crate_tagks = false\n\
             tsd.storage.fix_duplicate = true\n\
             tsd.storage.enable_appends = true\n\
             tsd.core.enable_apis = true\n",
        );
        assert!(file.config.auto_create_metrics);
        assert_eq!(file.config.mode, Mode::ReadOnly);
        assert_eq!(file.config.max_tags, 16);
        assert_eq!(file.config.rollups(), Some("{}"));
        assert_eq!(file.listener, [note(2, "tsd.network.port", "4242")]);
        let quorum = note(4, "tsd.storage.hbase.zk_quorum", "a,b");
        let appends = note(11, "tsd.storage.enable_appends", "true");
        assert_eq!(file.not_needed, [quorum, appends]);
        let misspelt = [
            note(9, "tsd.core.auto_crate_tagks", "false"),
            note(10, "tsd.storage.fix_duplicate", "true"),
            note(12, "tsd.core.enable_apis", "true"),
        ];
        assert_eq!(file.unknown, misspelt);
        assert_eq!(file.problems, []);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        let file = read(
            "tsd.mode = both\n\
             tsd.storage.max_tags = many\n\
             tsd.http.show_stack_trace = perhaps\n\
             tsd.rollups.config = nowhere.json\n\
             tsd.core.histograms.config = {\"X\":256}\n\
             tsd.x = \\u00\n\
             tsd.storage.uid.width.tagv = 9\n\
             tsd.core.timezone = Europe/Berlim\n",
        );
        let lines: Vec<_> = file.problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(file.config, Config::default());
        assert_eq!(file.problems[3].text, "nowhere.json: no such file");
    }
}
